"""Inductive proofs: unbounded in batches, messages, epochs and log, by two solvers."""
