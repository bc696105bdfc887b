"""Idempotent producers: producers, the connections that carry their batches, and leaders.

A composition of its own. `model.producer_ids` models where producer ids come from; here each id is
given once. Left out: transactions (`model.transactions`), replication beyond the high watermark and
failovers, and time, which appears only as what may happen once it has passed.
"""
