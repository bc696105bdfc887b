# EndTxn of V2 requests two epochs below, one above, and of other producers, in each state.
requests: v2

for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
  names
  p = in_state {state}
  # In PREPARE_x the coordinator is one epoch ahead of who began.
  let above -> p@+1
    state=Prepare* -> p@+2
  for outcome in commit abort
    if state!=Empty,Ongoing
      "{state}, two epochs below, {outcome}": EndTxn p@0 {outcome} -> PRODUCER_FENCED
        state=Prepare* -> CONCURRENT_TRANSACTIONS
    "{state}, epoch above, {outcome}": EndTxn {above} {outcome} -> PRODUCER_FENCED
      state=Prepare* -> CONCURRENT_TRANSACTIONS
    "{state}, other producer id, {outcome}": EndTxn p/other {outcome} -> INVALID_PRODUCER_ID_MAPPING
      state=Prepare* -> CONCURRENT_TRANSACTIONS
