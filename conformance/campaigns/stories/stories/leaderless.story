# A partition that nobody leads when its marker is due: does the marker wait, or is it skipped?
#
# Up to 4.2 KRaftMetadataCache.getPartitionLeaderEndpoint answers "no node" for such a partition, and
# the coordinator looks again until there is one. In 4.3 it answers nothing, which also stands for a
# partition that was deleted: the coordinator counts that as done, and completes the transaction
# (KAFKA-20734). What was committed there stays open, and the next transaction of the same producer
# decides about it.
#
# The leader is gone before the end of the transaction (before); it dies behind PREPARE_x, with the
# marker on its way (behind); and the coordinator dies with it, so that the next one loads PREPARE_x
# (loaded).
name: {name}
each:
  | name                | requests | outcome | orders               |
  | leaderless_v1       | v1       | commit  | before behind loaded |
  | leaderless_v2       | v2       | commit  | before behind loaded |
  | leaderless_abort_v1 | v1       | abort   | before               |
  | leaderless_abort_v2 | v2       | abort   | before               |
requests: {requests}
brokers: 3
layout: seated
broker: own
times: 3

let epoch -> 1
  requests=v2 -> 2
let first -> Commit
  outcome=abort -> Abort
let marker -> P:{epoch}!COMMIT
  outcome=abort -> P:{epoch}!ABORT
let next -> abort
  outcome=abort -> commit
let sequence -> 1
  requests=v2 -> 0
let next_epoch -> 1
  requests=v2 -> 3
let next_marker -> P:{next_epoch}!ABORT
  outcome=abort -> P:{next_epoch}!COMMIT
# Transactions of our own end on these: who leads, and who coordinates, know each other then.
u = topic on=home
v = topic on=far
await_service u v
for order in {orders}
  names
  near = topic on=home
  far_one = topic on=far
  p = begin
  open p near
  open p far_one
  mark_log
  if order=before
    kill far
  if order!=before
    freeze far
  await_service u
  "{order}: EndTxn({outcome})": EndTxn p {outcome} -> NONE
    requests=v2 -> NONE P:2
  if order!=before
    "{order}: the leader is frozen, the state": state p -> Prepare{first} P:{epoch}
    "{order}: the leader is frozen, the log of transactions": log p -> Prepare{first} P:{epoch}
    stable near
  if order=behind
    kill far
  if order=loaded
    kill seat,far
    await_takeover seat
  if order!=before
    await_service u
  # Is it complete though one partition has no marker?
  eventually state p -> Complete*
  "{order}: nobody leads, the state": state p -> Prepare{first} P:{epoch}
    4.3+ -> Complete{first} P:{epoch}
  "{order}: nobody leads, the log of transactions": log p -> Prepare{first} P:{epoch}
    4.3+ -> Prepare{first} P:{epoch}, Complete{first} P:{epoch}
  # The next coordinator sends all markers of what it finds prepared.
  "{order}: nobody leads, the other partition": stable near -> P:1#0 {marker}, stable
    order=loaded -> P:1#0 {marker} {marker}, stable
  start far
  await_service u v
  "{order}: the leader is back, its partition": stable far_one -> P:1#0 {marker}, stable
    4.3+ -> P:1#0, open from 0
  "{order}: the leader is back, the state": settled p -> Complete{first} P:{epoch}
  "{order}: the leader is back, the log of transactions": log p -> Prepare{first} P:{epoch}, Complete{first} P:{epoch}
  # The next transaction writes there, and ends the other way: what else ends with it?
  open p@{epoch} far_one {sequence}
  end p@{epoch} {next}
  let ended -> P:{epoch}#{sequence} {next_marker}, stable
  "{order}: the next one {next}s, the partition": stable far_one -> P:1#0 {marker} {ended}
    4.3+ -> P:1#0 {ended}
  "{order}: the next one {next}s, committed in the partition": committed_records far_one -> 1 record
    4.3+ outcome=commit -> 0 records
    4.3+ outcome=abort -> 2 records
  "{order}: the next one {next}s, committed in the other partition": committed_records near -> 1 record
    outcome=abort -> 0 records
  if order=loaded
    start seat
    coordinate seat
    await_service u v
