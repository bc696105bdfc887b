# A transaction of V1 requests at the last epoch: ended, fenced, timed out. The coordinator's own
# abort takes epoch 32767; since 4.3, at level 2, the next producer id (KAFKA-20090).
requests: v1

let aborted -> CompleteAbort P:32767
  4.3+ level=2 -> CompleteAbort Q:0
let next -> NONE Q:0
  4.3+ level=2 -> NONE Q:1
p fenced timed = exhaust timeout=2000
names p
a = topic
open p a
end p commit
"committed": state p -> CompleteCommit P:32766
"committed, then InitProducerId": InitProducerId p -> NONE Q:0
names fenced
mark_log
b = topic
open fenced b
"fenced": InitProducerId fenced -> CONCURRENT_TRANSACTIONS
"fenced, in the end": settled fenced -> {aborted}
"fenced, the log": log fenced -> Ongoing P:32766, PrepareAbort P:32767, {aborted}
"fenced, then InitProducerId": retry InitProducerId fenced -> {next}
names timed
mark_log
c = topic
open timed c
await_state timed CompleteAbort
"timed out, in the end": settled timed -> {aborted}
"timed out, the log": log timed -> Ongoing P:32766, PrepareAbort P:32767, {aborted}
"timed out, then InitProducerId": retry InitProducerId timed -> {next}
