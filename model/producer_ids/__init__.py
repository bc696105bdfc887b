"""Where producer ids come from: blocks, the brokers that use them, and who asks whom.

A composition of its own: producers and partitions are not in it. What it guarantees, that no
producer id is given twice, is what `model.idempotent.world` takes for granted.
"""
