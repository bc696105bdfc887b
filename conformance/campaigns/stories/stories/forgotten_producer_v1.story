# A leader forgets a producer between its transactions, never in one. The recipe has leaders look
# every 100 ms.
requests: v1
only: 3.4+
property: producer.id.expiration.ms=1500

p = begin
a = topic
open p a
wait 3
"in a transaction": entry a p -> P:1 last 0 coordinator -1 open 0
end p commit
"after it": eventually entry a p -> unknown
AddPartitionsToTxn p a
"the next one, any first sequence": Produce p a 7 -> NONE
