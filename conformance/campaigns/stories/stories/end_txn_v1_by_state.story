# EndTxn of V1 requests in each state, at the coordinator's epoch.
requests: v1

for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
  for outcome in commit abort
    names
    p = in_state {state}
    "{state}, {outcome}": EndTxn p {outcome} -> CONCURRENT_TRANSACTIONS
      state=Ongoing -> NONE
      state=Empty,Complete* -> INVALID_TXN_STATE
      state=CompleteCommit outcome=commit -> NONE
      state=CompleteAbort outcome=abort -> NONE
