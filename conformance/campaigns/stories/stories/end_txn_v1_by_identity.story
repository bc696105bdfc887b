# EndTxn of V1 requests with other epochs and producers, in each state; of ids that nobody knows.
requests: v1

for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
  names
  p = in_state {state}
  "{state}, epoch below, commit": EndTxn p@-1 commit -> PRODUCER_FENCED
  "{state}, epoch above, commit": EndTxn p@+1 commit -> PRODUCER_FENCED
  "{state}, other producer id, commit": EndTxn p/other commit -> INVALID_PRODUCER_ID_MAPPING
p = begin
"an id that nobody knows": EndTxn p/nobody commit -> INVALID_PRODUCER_ID_MAPPING
"an empty id": EndTxn p/empty commit -> INVALID_REQUEST
"EndTxn 1, epoch below": EndTxn p@0 commit version=1 -> INVALID_PRODUCER_EPOCH
