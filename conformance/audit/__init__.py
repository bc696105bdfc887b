"""Audits the logs of real topics by the model's own rules: gaps, duplicates, torn and hanging
transactions.

Theory of operation. The headers of batches have everything that idempotence and transactions need.

1. `segments` finds partitions in log directories. `headers` reads the headers of a segment, and
   checks the checksum of each batch.
2. `leader_rules` has the model's functions of a leader, as Python and lifted to expressions over
   arrays. `fold` guesses the leader's state of each producer before each batch, lets the lifted
   rules check all guesses at once, and calls the plain functions for the batches that the rules
   refuse.
3. A partition is audited in one place, with findings and the ends of its transactions as its
   result. `outcomes` compares these ends across partitions, and with the decisions that `decisions`
   reads from `__transaction_state`.
4. Each finding has one of the `kinds`: a defect, or something that the remaining data cannot
   decide.
"""
