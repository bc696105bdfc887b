# A client whose next transaction is of the other kind of requests, at the epoch that it has.
requests: v1 v2

p = begin
a = topic
open p a
end p commit
"V2 after V1, sequence 0: a duplicate": Produce p a 0 requests=v2 -> NONE
"the coordinator then": state p -> Ongoing P:1
"V2 after V1, going on": Produce p a 1 requests=v2 -> OUT_OF_ORDER_SEQUENCE_NUMBER
p = end p commit requests=v2
"V1 after V2, AddPartitionsToTxn": AddPartitionsToTxn p a -> NONE
"V1 after V2, Produce from 0": Produce p a 0 -> NONE
"V1 after V2, EndTxn": EndTxn p commit -> NONE
"V1 after V2, in the end": settled p -> CompleteCommit P:2
