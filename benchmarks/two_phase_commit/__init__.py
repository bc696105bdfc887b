"""Two-phase commit, in the model's language and in Promela: one graph for three checkers.

The protocol is that of J. Gray and L. Lamport, "Consensus on Transaction Commit" (2006), rule by
rule, with messages as a set that only grows. It says nothing of Kafka; it is here because every
checker has been run on it, and because its counts are known.
"""
