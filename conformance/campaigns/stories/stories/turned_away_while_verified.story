# A broker asks the coordinator about a first batch, no longer leads when the answer comes, and leads
# again before the second batch of the same connection comes: is there a gap?
#
# It remembers the lowest sequence that it asked about (VerificationStateEntry), and takes none above
# that first. The coordinator is frozen until the leader has changed.
name: turned_away_while_verified_{requests}
each requests: v1 v2
requests: {requests}
only: 3.6+
brokers: 3
layout: seated

p = begin
a = topic on=home followers=far
if requests=v1
  AddPartitionsToTxn p a
c = connect home
freeze seat
send c: Produce p a 0
wait 2
lead far a
thaw
"the first, while another broker leads": receive c -> NOT_LEADER_OR_FOLLOWER
lead home a
"the second": Produce p a 1 on=c -> OUT_OF_ORDER_SEQUENCE_NUMBER
"the first, again": Produce p a 0 on=c -> NONE
"the second, again": Produce p a 1 on=c -> NONE
guarantee no_gap: partition a -> P:1#0 P:1#1, open from 0
