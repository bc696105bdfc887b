# At a partition's leader: first sequences, and those after the end of a transaction.
requests: v1

p = begin
a b = topic
AddPartitionsToTxn p a b
"unknown, first 5": Produce p a 5 -> NONE
"a plain batch in a transaction": Produce p a 6 plain=yes -> INVALID_TXN_STATE
Produce p b 0
"a gap": Produce p b 2 -> OUT_OF_ORDER_SEQUENCE_NUMBER
end p commit
AddPartitionsToTxn p b
"next transaction, from 0: a duplicate": Produce p b 0 -> NONE
"the partition then": partition b -> P:1#0 P:1!COMMIT, stable
# The duplicate left a verification entry behind: what comes first may not be above it.
"next transaction, going on after the duplicate": Produce p b 1 -> NONE
  3.6+ -> OUT_OF_ORDER_SEQUENCE_NUMBER
plain = begin
"not transactional, unknown, first 5": Produce plain a 5 plain=yes -> NONE
