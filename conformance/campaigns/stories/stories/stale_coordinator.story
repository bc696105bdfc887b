# A leader asks a coordinator that has been deposed, and is told yes.
#
# A transaction is open. The partition of __transaction_state moves to another broker, which aborts
# the transaction; its marker is in the log. Two brokers may not have heard of the move: the one that
# coordinated before (seat), and the leader of a partition, or coordinator of a group (far). Then a
# delayed Produce, or TxnOffsetCommit, of that transaction arrives. The leader asks whom it takes for
# the coordinator whether the transaction is open (KIP-890, AddPartitionsToTxnManager), and that
# broker answers from its memory (TransactionCoordinator.handleVerifyPartitionsInTransaction). With
# V2 requests the marker has a newer epoch than the late batch, and the leader asks nobody.
#
# What became of it is decided by what is read back, never by what is expected.
name: stale_coordinator_{shape}_{requests}
each requests: v1 v2
each:
  | shape               | deaf     | lost | begins | to      | what                                        |
  | both_deaf           | seat,far | none | no     | records | neither has heard; the same producer goes on |
  | both_deaf_init      | seat,far | none | anew   | records | neither has heard; InitProducerId is next   |
  | former_lost         | far      | seat | no     | records | the controller lost the former; no news     |
  | leader_deaf         | far      | none | no     | records | only the leader has not heard               |
  | former_deaf         | seat     | none | no     | records | only the former coordinator has not heard   |
  | nobody_deaf         | none     | none | no     | records | all have heard                              |
  | offsets_both_deaf   | seat,far | none | no     | offsets | neither has heard; offsets of a group       |
  | offsets_nobody_deaf | none     | none | no     | offsets | all have heard; offsets of a group          |
each watch_s: 2
requests: {requests}
only: 3.6+
brokers: 3
layout: proxied
times: 3

let stored -> no
  requests=v1 shape=both_deaf,both_deaf_init,former_lost,offsets_both_deaf -> yes
let epoch -> 0
  requests=v2 -> 1
one other = topic on=far
g = fresh group
id = fresh id
let place -> one
  to=offsets -> {g}
let first -> first
  to=offsets -> 5
let late -> late
  to=offsets -> 7
let next -> next
  to=offsets -> 9

# In time, at the former coordinator.
p = "seat: InitProducerId": retry InitProducerId {id} to=seat -> NONE P:0
if to=records
  open p one 0 {first}
if to=offsets
  if requests=v1
    AddOffsetsToTxn p {g}
  TxnOffsetCommit p {g} one {first}

# The coordinator moves, and aborts.
hold_news of={deaf} all_of={lost}
if lost=none
  coordinate home unknown_to={deaf}
if lost=seat
  await_known home unknown_to={deaf},seat
  await_takeover seat
"home: FindCoordinator": coordinator_of home -> home
"seat: FindCoordinator": coordinator_of seat -> home
  deaf=seat* -> seat
  lost=seat -> seat
"far: FindCoordinator": coordinator_of far -> home
  deaf=*far -> seat
now = "home: EndTxn(abort)": retry EndTxn p abort -> NONE
  requests=v2 -> NONE P:1
await_state p CompleteAbort
"home: DescribeTransactions": state p -> CompleteAbort P:{epoch}
"seat: DescribeTransactions": state p at=seat -> NOT_COORDINATOR
  deaf=seat* -> Ongoing P:0
  lost=seat -> Ongoing P:0

# The late write.
let refused -> TRANSACTION_ABORTABLE
  3.6 -> INVALID_TXN_STATE
  3.7 -> INVALID_TXN_STATE
  stored=yes -> NONE
  shape=leader_deaf -> NOT_ENOUGH_REPLICAS
  requests=v2 -> INVALID_PRODUCER_EPOCH
  4.0 requests=v2 shape=leader_deaf -> NOT_ENOUGH_REPLICAS
late_connection = connect far
if to=records
  "far: Produce 'late' arrives": Produce p one 1 {late} on=late_connection -> {refused}
if to=offsets
  "far: TxnOffsetCommit 'late' arrives": TxnOffsetCommit p {g} one {late} on=late_connection -> {refused}
let answer_of_late -> {answered}
let written -> P:0={first} P:{epoch}!ABORT
  stored=yes -> P:0={first} P:{epoch}!ABORT P:0={late}
"arrived: the log": writes {place} -> {written}
guarantee no_write_outside: behind_marker {place} -> nothing
  stored=yes -> {late}
release_news
await_known home
wait {watch_s}
"watched: the state": state p -> CompleteAbort P:{epoch}
"watched: the log": writes {place} -> {written}
if to=records
  guarantee last_stable_offset_moves: waiting one -> nothing
    stored=yes -> offset 2 of 3
if to=offsets
  guarantee last_stable_offset_moves: stable_offset {g} one -> NONE
    stored=yes -> UNSTABLE_OFFSET_COMMIT

# The next transaction.
let sequence -> 1
  answer_of_late=NONE -> 2
  requests=v2 -> 0
  begins=anew -> 0
if begins=anew
  now = "home: InitProducerId": retry InitProducerId now -> NONE P:1
    requests=v2 -> NONE P:2
if to=records
  open now one {sequence} {next}
if to=offsets
  if requests=v1
    AddOffsetsToTxn now {g}
  TxnOffsetCommit now {g} other {next}
let begun -> {epoch}
  begins=anew -> 1
  begins=anew requests=v2 -> 2
let ended -> {begun}
  requests=v2 -> 2
  begins=anew requests=v2 -> 3
"home: EndTxn(commit)": retry EndTxn now commit -> NONE
  requests=v2 -> NONE P:{ended}
await_state now CompleteCommit
if to=records
  eventually waiting one -> nothing
  let reads -> {first}@one {late}@one
  let reads_next -> {next}@one
if to=offsets
  eventually stable_offset {g} one -> NONE
  let reads -> {first}@{g}/one {late}@{g}/one
  let reads_next -> {next}@{g}/other
"ended: the state": state now -> CompleteCommit P:{ended}
"ended: the log": writes {place} -> {written} P:{begun}={next} P:{ended}!COMMIT
if to=records
  guarantee no_aborted_read: shown {reads} -> nothing
    stored=yes -> {late}
if to=offsets
  guarantee offsets_with_outcome: shown {reads} -> nothing
    stored=yes -> {late}
guarantee no_lost_write: lost {reads_next} -> nothing
coordinate seat
