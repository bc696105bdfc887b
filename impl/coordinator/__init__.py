"""The coordinators: transactions, and the offsets of groups. Decisions without I/O.

Transactions, in the order to read: `transactions` (the front door: requests in, effects out),
`effects`, `metadata` (the two steps of a transition), `states`, `end_txn` and `init_producer_id`
(answers as tables), `markers`, `state_manager` (what is owned, loaded and logged), `log_records`,
`inspection` (frozen views), `config` (settings, and what differs by release), `placement`.
Group offsets: `offsets`, which names its own.
"""
