# An instance that slept since the last epoch initializes again as what it was (KIP-360), while its
# successor, of the next producer id, is in a transaction. Up to 4.0 the coordinator keeps the
# previous producer id once the next one begins.
requests: v1

sleeper = exhaust
names sleeper
successor = "its successor": InitProducerId sleeper -> NONE Q:0
"it returns, Empty": InitProducerId sleeper believing=sleeper -> PRODUCER_FENCED
a = topic
open successor a
"it returns, Ongoing": InitProducerId sleeper believing=sleeper -> CONCURRENT_TRANSACTIONS
  4.1+ -> PRODUCER_FENCED
"it returns, Ongoing, the state": settled successor -> CompleteAbort Q:1
  4.1+ -> Ongoing Q:0
"its successor commits": EndTxn successor commit -> PRODUCER_FENCED
  4.1+ -> NONE
