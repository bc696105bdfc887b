# EndTxn of V2 requests in each state: at the coordinator's epoch (cur), and one below it (retry),
# which is the request again of a client whose answer was lost, or a request that comes too late.
requests: v2

for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
  for outcome in commit abort
    for which in cur retry
      names
      p = in_state {state}
      # In PREPARE_x the coordinator is one epoch ahead of who began.
      let who -> p
        which=retry -> p@-1
        state=Prepare* -> p@+1
        state=Prepare* which=retry -> p
      let answer_of_cur -> NONE P:2
        state=Complete* -> NONE P:3
        state=Empty,Complete* outcome=commit -> INVALID_TXN_STATE
      let answer_of_retry -> PRODUCER_FENCED
        state=Complete* -> INVALID_TXN_STATE
        state=CompleteCommit outcome=commit -> NONE P:2
        state=CompleteAbort outcome=abort -> NONE P:2
      "{state}, {outcome} {which}": EndTxn {who} {outcome} -> {answer_of_cur}
        which=retry -> {answer_of_retry}
        state=Prepare* -> CONCURRENT_TRANSACTIONS
      if answered=NONE*
        "{state}, {outcome} {which}, in the end": settled p -> CompleteAbort P:2
          state=Complete* -> CompleteAbort P:3
          state=Ongoing outcome=commit -> CompleteCommit P:2
          which=retry -> {state} P:2
