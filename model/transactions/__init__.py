"""Transactions: one transactional id, its instances, its coordinator, and the partitions.

A composition of its own. One event handles a request and decides whether its answer arrives:
`model.idempotent` models connections, this composition what passes between the actors. A request
that its sender has given up arrives late, once, or never. Left out: high watermarks, leaders that
change place, two-phase commit with other systems (KIP-939), authorization, and compaction.
"""
