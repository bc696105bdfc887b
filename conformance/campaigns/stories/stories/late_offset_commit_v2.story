# TxnOffsetCommit of the last transaction's epoch.
requests: v2

p = begin
g = fresh group
a = topic
TxnOffsetCommit p {g} a 7
now = end p commit
"after the marker": TxnOffsetCommit p {g} a 9 -> INVALID_PRODUCER_EPOCH
"after the marker, then": offsets {g} a -> 7, stable 7
open now new
"in the next transaction": TxnOffsetCommit p {g} a 9 -> INVALID_PRODUCER_EPOCH
