# A leader forgets a producer of V2 requests between its transactions: only the coordinator knows the
# epoch then.
requests: v2
property: producer.id.expiration.ms=1500

p = begin
a = topic
open p a
now = end p commit
eventually entry a p -> unknown
"a late write of the last transaction": Produce p a 1 late -> INVALID_PRODUCER_EPOCH
"the next one, first 7": Produce now a 7 -> NONE
  4.1+ -> OUT_OF_ORDER_SEQUENCE_NUMBER
