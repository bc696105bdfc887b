# The partition has seen a higher epoch: the coordinator's marker is refused, for ever.
requests: v1
broker: restarted

p = begin
a = topic
open p a
"a marker of epoch 5": WriteTxnMarkers p@5 a abort -> NONE
"EndTxn": EndTxn p commit -> NONE
wait 0.5
"half a second later": state p -> PrepareCommit P:1
restart
wait 0.5
"after a restart": state p -> PrepareCommit P:1
"InitProducerId": InitProducerId p -> CONCURRENT_TRANSACTIONS
