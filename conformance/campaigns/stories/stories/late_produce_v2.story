# A write of an aborted transaction arrives late: each transaction has an epoch of its own.
requests: v2

p = begin
a = topic
open p a
now = end p abort
"before the next transaction": Produce p a 1 late -> INVALID_PRODUCER_EPOCH
"elsewhere": Produce p new 0 late -> INVALID_PRODUCER_EPOCH
open now a
"in the next transaction": Produce p a 1 late -> INVALID_PRODUCER_EPOCH
"the partition then": partition a -> P:1#0 P:2!ABORT P:2#0, open from 2
