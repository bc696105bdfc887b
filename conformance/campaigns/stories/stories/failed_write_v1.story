# The followers of the log of transactions do not come back in time: the write failed, and is in the
# log. The transaction has timed out by then: the coordinator aborts what a log's reader saw
# committed.
requests: v1
brokers: 3
property: transaction.state.log.replication.factor=3
property: transaction.state.log.min.isr=2

for each
  | what               | state   | logged                                                   | then               |
  | InitProducerId     | Empty   | Empty P:2                                                | Empty P:1          |
  | AddPartitionsToTxn | Empty   | Ongoing P:1                                              | Empty P:1          |
  | EndTxn(commit)     | Ongoing | PrepareCommit P:1, PrepareAbort P:2, CompleteAbort P:2   | CompleteAbort P:2  |
  names
  a = topic on=coordinator
  # A time-out is also how long a write may wait; the write's ends first.
  p = begin timeout=3000
  if state=Ongoing
    open p a
  mark_log
  waiting = connect coordinator
  freeze followers
  if what=InitProducerId
    "{what}, its answer": InitProducerId p timeout=3000 on=waiting -> COORDINATOR_NOT_AVAILABLE
  if what=AddPartitionsToTxn
    "{what}, its answer": AddPartitionsToTxn p a on=waiting -> COORDINATOR_NOT_AVAILABLE
  if what=EndTxn*
    "{what}, its answer": EndTxn p commit on=waiting -> COORDINATOR_NOT_AVAILABLE
  # Looked at before the next scan for transactions whose time is up, 100 ms at most.
  "{what}, the state": state p -> {state} P:1
  thaw
  wait 0.5
  "{what}, the log": log p -> {logged}
  "{what}, in the end": settled p -> {then}
