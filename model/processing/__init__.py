"""Consume, transform, produce: the members of a group, the group's offsets, and the output.

A composition of its own, built on the abstract specification of transactions
(`model.transactions.spec`): one step decides a whole transaction, and each partition learns of the
decision at its own time. It adds the consuming side: generations of the group, and offsets that are
fetched while a transaction is pending. Protocols below, such as connections, retries and logs, are
left out; `model.idempotent` and `model.transactions` have them.
"""
