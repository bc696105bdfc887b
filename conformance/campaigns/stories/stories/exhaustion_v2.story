# A transaction of V2 requests at the last epoch: ended, fenced, timed out. A client's end takes the
# next producer id; the coordinator's own abort does since 4.3, at level 2 (KAFKA-20090).
requests: v2

let aborted -> CompleteAbort P:32767
  4.3+ level=2 -> CompleteAbort Q:0
let next -> NONE Q:0
  4.3+ level=2 -> NONE Q:1
committed aborted_id resting fenced timed = exhaust timeout=2000
for each
  | who        | outcome | other  | ended  |
  | committed  | commit  | abort  | Commit |
  | aborted_id | abort   | commit | Abort  |
  names {who}
  mark_log
  a = topic
  open {who} a
  "{outcome}": EndTxn {who} {outcome} -> NONE Q:0
  "{outcome}, in the end": settled {who} -> Complete{ended} Q:0
  "{outcome}, the log": log {who} -> Ongoing P:32766, Prepare{ended} P:32767, Complete{ended} Q:0
  "{outcome}, previous/next in the log": producer_id_links {who} -> -/- -/- -/-
    4.3+ -> P/- P/Q P/-
  "{outcome} again": EndTxn {who} {outcome} -> NONE Q:0
  "{outcome}, then the other, again": EndTxn {who} {other} -> INVALID_TXN_STATE
  "{outcome}, InitProducerId, old identity": InitProducerId {who} believing={who} -> NONE Q:0
names resting
"empty abort": EndTxn resting abort -> NONE Q:0
"empty abort, in the end": settled resting -> CompleteAbort Q:0
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
