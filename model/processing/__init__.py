"""Consume, transform, produce: members of a group, the group's offsets, and what they write.

A composition of its own, over what users believe of transactions (`model.transactions.spec`): one
step decides all of a transaction, and each partition learns of it at its own time. What is added
here is who consumes what: generations, and offsets that are read while a transaction is pending.
"""
