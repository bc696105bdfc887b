# A batch that is in the log comes again: in its transaction, and after it.
requests: v1

p = begin
a = topic
open p a
"in its transaction": Produce p a 0 -> NONE
end p commit
"after it": Produce p a 0 -> NONE
  3.6+ -> INVALID_TXN_STATE
  3.8+ -> TRANSACTION_ABORTABLE
"after it, Produce 9": Produce p a 0 version=9 -> NONE
  3.6+ -> INVALID_TXN_STATE
"the partition": partition a -> P:1#0 P:1!COMMIT, stable
