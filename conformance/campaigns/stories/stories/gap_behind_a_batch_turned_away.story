# A broker turns the first batch of a producer away, and leads again before the second batch of the
# same connection comes: is there a gap?
#
# A client has both batches in flight. A leader that knows nothing of a producer id takes any first
# sequence (ProducerAppendInfo.checkSequence); since 4.1 not in a transaction of V2 requests
# (KAFKA-18202). The client sends a batch that was turned away again, and the one behind it if that
# was refused.
#
# The broker turned the first batch away before it asked the coordinator about it. What comes of one
# that it turns away after that: turned_away_while_verified.
name: gap_behind_a_batch_turned_away_{requests}
each requests: v1 v2
requests: {requests}
brokers: 3
layout: seated

p = begin
a = topic on=home followers=far
if requests=v1
  AddPartitionsToTxn p a
c = connect home
lead far a
"the first, while another broker leads": Produce p a 0 on=c -> NOT_LEADER_OR_FOLLOWER
lead home a
"the second": Produce p a 1 on=c -> NONE
  4.1+ requests=v2 -> OUT_OF_ORDER_SEQUENCE_NUMBER
"the first, again": Produce p a 0 on=c -> OUT_OF_ORDER_SEQUENCE_NUMBER
  4.1+ requests=v2 -> NONE
"the second, again": Produce p a 1 on=c -> NONE
guarantee no_gap: partition a -> P:1#0 P:1#1, open from 0
  3.3+ -> P:1#1, open from 0
  4.1+ requests=v2 -> P:1#0 P:1#1, open from 0
"the coordinator": state p -> Ongoing P:1
end p abort
"the partition in the end": stable a -> P:1#1 P:1!ABORT, stable
  requests=v2 -> P:1#1 P:2!ABORT, stable
  4.1+ requests=v2 -> P:1#0 P:1#1 P:2!ABORT, stable
