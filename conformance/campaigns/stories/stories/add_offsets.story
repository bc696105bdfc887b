# AddOffsetsToTxn: a client registers a group's offsets, by state and identity.
requests: v1

for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
  names
  p = in_state {state}
  g = fresh group
  mark_log
  "{state}": AddOffsetsToTxn p {g} -> NONE
    state=Prepare* -> CONCURRENT_TRANSACTIONS
  if state!=Prepare*
    "{state}, the partition is registered": registered p {g} -> True
p = in_state Empty
"Empty, epoch below": AddOffsetsToTxn p@0 group -> PRODUCER_FENCED
"Empty, epoch above": AddOffsetsToTxn p@2 group -> PRODUCER_FENCED
"Empty, other producer id": AddOffsetsToTxn p/other group -> INVALID_PRODUCER_ID_MAPPING
