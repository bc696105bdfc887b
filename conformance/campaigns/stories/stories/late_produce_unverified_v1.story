# A write of an aborted transaction arrives after its marker, and verification is switched off:
# nobody will end what it opened.
requests: v1
property: transaction.partition.verification.enable=false

p = begin
a = topic
open p a
end p abort
"before the next transaction": Produce p a 1 late -> NONE
"the partition then": partition a -> P:1#0 P:1!ABORT P:1#1, open from 2
"the coordinator then": state p -> CompleteAbort P:1
