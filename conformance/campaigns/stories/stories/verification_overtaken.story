# The coordinator says yes, and a marker was there before its answer (KAFKA-14884).
#
# V1: leaders verify since 3.6; an older epoch is answered as one, also by 3.9.2, 4.0.2 and 4.1.2
# (KAFKA-19690). V2: the marker of the last transaction has the epoch of the next one, whose
# verification it may meet: it leaves that alone (KAFKA-18575).
name: verification_overtaken_{requests}
each requests: v1 v2
requests: {requests}
brokers: 3

for each
  | epoch | v1                     | v2                     |
  | 1     | INVALID_TXN_STATE      | NONE                   |
  | 2     | INVALID_PRODUCER_EPOCH | INVALID_PRODUCER_EPOCH |
  names
  p = begin
  a = topic on=followers
  if requests=v1
    AddPartitionsToTxn p a
  waiting = connect a
  freeze coordinator
  send waiting: Produce p a 0
  # The leader asks the coordinator meanwhile.
  wait 0.5
  "a marker of epoch {epoch} meanwhile": WriteTxnMarkers p@{epoch} a abort requests=v1 -> NONE
  thaw
  "a marker of epoch {epoch}, the write": receive waiting -> NONE
    3.6+ requests=v1 -> {v1}
    requests=v2 -> {v2}
