# A write of an aborted transaction arrives in the next one, which has the partition and the same
# epoch (KIP-890).
requests: v1

p = begin
a = topic
open p a
end p abort
AddPartitionsToTxn p a
"the late write": Produce p a 1 late -> NONE
"the transaction's own, same sequence": Produce p a 1 own -> NONE
end p commit
"the partition then": partition a -> P:1#0 P:1!ABORT P:1#1 P:1!COMMIT, stable
