# V1 and V2 writes of one epoch (KAFKA-18227), ended by either kind of requests.
requests: v1 v2

for each
  | ended | epoch | answer   |
  | v1    | 1     | NONE     |
  | v2    | 2     | NONE P:2 |
  names
  p = begin
  a b c = topic
  mark_log
  open p a
  "V1 open, Produce 12 elsewhere, to be ended {ended}": Produce p b 0 requests=v2 -> NONE
  "V1 open, Produce 12 to the same partition, to be ended {ended}": Produce p a 1 requests=v2 -> NONE
  "Produce 11 to a third, unregistered, to be ended {ended}": Produce p c 0 -> TRANSACTION_ABORTABLE
  AddPartitionsToTxn p c
  "client versions in the log, to be ended {ended}": client_versions p -> [0, 2, 0]
  "EndTxn {ended}": EndTxn p commit requests={ended} -> {answer}
  "EndTxn {ended}, in the end": settled p -> CompleteCommit P:{epoch}
  "EndTxn {ended}, the partition": partition a -> P:1#0 P:1#1 P:{epoch}!COMMIT, stable
