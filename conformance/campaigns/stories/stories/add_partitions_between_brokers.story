# AddPartitionsToTxn as a partition's leader asks it for a V2 client.
requests: v2

for version in 4 5
  for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
    names
    p = in_state {state}
    mark_log
    "{state}, version {version}": AddPartitionsToTxn p new version={version} -> NONE
      state=Prepare* -> CONCURRENT_TRANSACTIONS
    if state!=Prepare*
      "{state}, version {version}, told version": client_versions p -> [2]
    for each
      | what              | who     | answer                      |
      | epoch below       | p@-1    | PRODUCER_FENCED             |
      | epoch above       | p@+1    | PRODUCER_FENCED             |
      | other producer id | p/other | INVALID_PRODUCER_ID_MAPPING |
      "{state}, version {version}, {what}": AddPartitionsToTxn {who} new version={version} -> {answer}
        state=Prepare* -> CONCURRENT_TRANSACTIONS
