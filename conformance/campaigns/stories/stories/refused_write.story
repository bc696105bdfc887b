# A log of transactions that refuses what is written to it: the record is in no log, and memory is as
# before, but for the epoch of a fence below level 2.
#
# One frozen follower leaves the set of those in sync, which is one too few then. The frozen broker
# may be the active controller, for whom others wait no longer than a second.
name: refused_write_{requests}
each:
  | requests | answer   |
  | v1       | NONE     |
  | v2       | NONE P:2 |
requests: {requests}
brokers: 3
property: transaction.state.log.replication.factor=3
property: transaction.state.log.min.isr=3
property: replica.lag.time.max.ms=1500
property: controller.socket.timeout.ms=1000

let kept -> P:2
  level=2 -> P:1
ended = begin
fenced = begin
resting = begin
a = topic on=coordinator
b = topic on=coordinator
open ended a
open fenced b
mark_log
freeze idle
await_in_sync 2
names
"InitProducerId": InitProducerId resting -> COORDINATOR_NOT_AVAILABLE
"InitProducerId, the state": state resting -> Empty P:1
names
"EndTxn(commit)": EndTxn ended commit -> COORDINATOR_NOT_AVAILABLE
"EndTxn(commit) again": EndTxn ended commit -> COORDINATOR_NOT_AVAILABLE
"EndTxn(commit), the state": state ended -> Ongoing P:1
names
for again in first again
  let turn -> fence
    again=again -> fence again
  "{turn}": InitProducerId fenced -> COORDINATOR_NOT_AVAILABLE
  "{turn}, the state": state fenced -> Ongoing {kept}
"fence, then EndTxn": EndTxn fenced commit -> PRODUCER_FENCED
  level=2 -> COORDINATOR_NOT_AVAILABLE
thaw
await_in_sync 3
names ended
"EndTxn(commit), the log": log ended -> nothing
"EndTxn(commit), thawed": retry EndTxn ended commit -> {answer}
names
"fence, thawed": InitProducerId fenced -> CONCURRENT_TRANSACTIONS
"fence, in the end": settled fenced -> CompleteAbort P:2
late = begin timeout=3000
c = topic on=coordinator
open late c
freeze idle
await_in_sync 2
wait 4.5
names
"timed out meanwhile": state late -> Ongoing {kept}
thaw
await_in_sync 3
await_state late CompleteAbort
"timed out, in the end": state late -> CompleteAbort P:2
