# A write in a transaction that is decided, at a partition that does not know it yet.
requests: v1
broker: restarted

p = begin
a = topic
hold p a
open p a
EndTxn p commit
"one more write, its partition still open": Produce p a 1 more -> NONE
restart
"in the end": settled p -> CompleteCommit P:1
"the partition": partition a -> P:1!ABORT P:1#0 P:1#1 P:1!COMMIT, stable
