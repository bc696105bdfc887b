# A write in a transaction that is decided, at a partition that does not know it yet; and the next
# transaction's first write (KAFKA-18575).
requests: v2
broker: restarted

p = begin
a = topic
hold p a
open p a
EndTxn p commit
"one more write, its partition still open": Produce p a 1 more -> NONE
"the next transaction's write": Produce p@2 a 0 next -> CONCURRENT_TRANSACTIONS
# That write left a verification entry: what comes may not be above its sequence, 0.
"and one more": Produce p a 2 more -> OUT_OF_ORDER_SEQUENCE_NUMBER
restart
"in the end": settled p -> CompleteCommit P:2
"the partition": partition a -> P:1!ABORT P:1#0 P:1#1 P:2!COMMIT, stable
