# Another broker takes over the coordination while the old one is frozen, and wakes up later: the old
# one has a commit to read then. A frozen broker is given up after three seconds.
name: failover_{requests}
each:
  | requests | epoch | answer   | sequence |
  | v1       | 1     | NONE     | 0        |
  | v2       | 2     | NONE P:2 | -1       |
requests: {requests}
brokers: 3
broker: own
property: transaction.state.log.replication.factor=3
property: transaction.state.log.min.isr=2
property: broker.session.timeout.ms=3000

held = in_state PrepareCommit on=followers
resting = begin
torn = begin
a = topic on=followers
open torn a
old = connect coordinator
former = node coordinator
freeze {former}
send old: EndTxn torn commit
await_takeover {former}
names
"PrepareCommit is completed": settled held -> CompleteCommit P:{epoch}
names
"Ongoing stays": state torn -> Ongoing P:1
"EndTxn(abort) at the new one": EndTxn torn abort -> {answer}
"in the end": settled torn -> CompleteAbort P:{epoch}
"the partition's producer": entry a torn -> P:{epoch} last {sequence} coordinator 1
thaw
"EndTxn(commit) at the old one": receive old -> NOT_COORDINATOR
"then": state torn -> CompleteAbort P:{epoch}
"the partition": partition a -> P:1#0 P:{epoch}!ABORT, stable
names resting
"Empty, InitProducerId, the last epoch": InitProducerId resting believing=resting@0 -> PRODUCER_FENCED
