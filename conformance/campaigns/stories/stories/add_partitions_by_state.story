# AddPartitionsToTxn: a client registers a partition in each state.
requests: v1

for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
  names
  p = in_state {state}
  a = topic
  mark_log
  "{state}": AddPartitionsToTxn p a -> NONE
    state=Prepare* -> CONCURRENT_TRANSACTIONS
  "{state}, then": state p -> Ongoing P:1
    state=Prepare* -> {state} P:1
  "{state}, the log": log p -> Ongoing P:1
    state=Prepare* -> nothing
  if state!=Prepare*
    mark_log
    "{state}, again": AddPartitionsToTxn p a -> NONE
    "{state}, again, the log": log p -> nothing
