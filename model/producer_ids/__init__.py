"""Producer ids: the blocks they come from, the brokers that give them out, and who keeps the
blocks.

A composition of its own: it has neither partitions nor batches. It guarantees that no producer id
is given twice; `model.idempotent.world` relies on this.
"""
