# A write of an aborted transaction arrives after its marker (KAFKA-14402).
requests: v1

p = begin
a = topic
open p a
end p abort
"before the next transaction": Produce p a 1 late -> NONE
  3.6+ -> INVALID_TXN_STATE
  3.8+ -> TRANSACTION_ABORTABLE
"the partition then": partition a -> P:1#0 P:1!ABORT P:1#1, open from 2
  3.6+ -> P:1#0 P:1!ABORT, stable
"the coordinator then": state p -> CompleteAbort P:1
