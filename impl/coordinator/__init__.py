"""The coordinators of transactions, of group offsets and of groups: decisions without I/O.

Transactions, in reading order: `transactions` (requests in, effects out), `effects`, `metadata`
(the two steps of a transition), `states`, `end_txn` and `init_producer_id` (answers as tables),
`markers`, `state_manager` (what is owned, loaded and logged), `log_records`, `inspection`
(snapshots), `config` (settings, and differences by release), `placement`. Group offsets:
`offsets`, which names its own modules, and
`offset_expiration` (what is too old). Classic groups: `groups` (requests in, effects out),
`classic_group` (one group's state), `group_messages`, `group_records`, `timers`. Groups of KIP-848:
`consumer_groups` (heartbeats in, decisions out), `group_targets` and `reconciliation` (who has
what), `consumer_group` (one group's state), `consumer_group_messages`, `consumer_group_records`.
Groups with members of both protocols: `classic_members`, `group_conversion`.
"""
