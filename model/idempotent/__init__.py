"""Idempotent producers: producers, the connections that carry their batches, and leaders.

A composition of its own. Where producer ids come from is the subject of `model.producer_ids`; here
no id is given twice.
"""
