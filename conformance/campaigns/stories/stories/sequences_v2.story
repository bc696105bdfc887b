# At a partition's leader: first sequences, and those after the end of a transaction.
requests: v2

p = begin
a = topic
"unknown, first 5": Produce p a 5 -> NONE
  4.1+ -> OUT_OF_ORDER_SEQUENCE_NUMBER
"then the coordinator shows": state p -> Ongoing P:1
b = topic
Produce p b 0
p = end p commit
"next transaction, going on": Produce p b 1 -> OUT_OF_ORDER_SEQUENCE_NUMBER
"next transaction, from 0": Produce p b 0 -> NONE
"the last transaction's epoch": Produce p@1 b 1 -> INVALID_PRODUCER_EPOCH
"an epoch above": Produce p@3 b 0 -> INVALID_PRODUCER_EPOCH
"the partition then": partition b -> P:1#0 P:2!COMMIT P:2#0, open from 2
