# A stored batch of a transaction comes again, and is refused for good: its record is older than the
# topic takes by then. The client aborts, and gives the sequence to the next transaction's first batch.
#
# A leader looks at timestamps before it looks for duplicates. With V1 requests the next transaction
# has the same epoch, and its batch is taken for the stored one, which was aborted.
name: refused_retry_{requests}
each requests: v1 v2
requests: {requests}

let limit -> message.timestamp.difference.max.ms
  3.6+ -> message.timestamp.before.max.ms
p = begin
a = topic
if requests=v1
  AddPartitionsToTxn p a
"the batch": Produce p a 0 first age=120000 -> NONE
"again": Produce p a 0 first age=120000 -> NONE
configure a {limit} 60000
# The broker has answered before the leader uses it.
wait 0.5
"again, too old by then": Produce p a 0 first age=120000 -> INVALID_TIMESTAMP
"the next sequence, too old": Produce p a 1 other age=120000 -> INVALID_TIMESTAMP
p = end p abort
open p a 0 second
p = end p commit
"the partition then": partition a -> P:1#0 P:2!ABORT P:2#0 P:3!COMMIT, stable
  requests=v1 -> P:1#0 P:1!ABORT P:1!COMMIT, stable
guarantee no_lost_write: lost second@a -> nothing
  requests=v1 -> second
