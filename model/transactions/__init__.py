"""Transactions: one transactional id, its instances, its coordinator, and the partitions.

A composition of its own. One request with the fate of its answer is one event here: what is in
flight at once under one epoch is the matter of `model.idempotent.world`, and what crosses between
actors is the matter of this one. A request that its sender has given up arrives late, once, or
never.
"""
