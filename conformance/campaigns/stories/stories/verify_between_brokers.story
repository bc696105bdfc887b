# AddPartitionsToTxn as a partition's leader verifies for a V1 client (KIP-890); it never writes.
requests: v1
only: 3.5+

let versions -> 4
  3.8+ -> 4 5
for version in {versions}
  for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
    names
    p = in_state {state}
    mark_log
    a = topic
    "{state}, version {version}, absent": AddPartitionsToTxn p a verify=yes version={version} -> INVALID_TXN_STATE
      3.8+ -> TRANSACTION_ABORTABLE
      state=Prepare* -> CONCURRENT_TRANSACTIONS
    for each
      | what              | who     | answer                      |
      | epoch below       | p@-1    | PRODUCER_FENCED             |
      | epoch above       | p@+1    | PRODUCER_FENCED             |
      | other producer id | p/other | INVALID_PRODUCER_ID_MAPPING |
      "{state}, version {version}, {what}": AddPartitionsToTxn {who} a verify=yes version={version} -> {answer}
    if state=Ongoing
      b = topic
      AddPartitionsToTxn p b
      mark_log
      "{state}, version {version}, present": AddPartitionsToTxn p b verify=yes version={version} -> NONE
    "{state}, version {version}, the log": log p -> nothing
  "an id that nobody knows, version {version}": AddPartitionsToTxn p/nobody a verify=yes version={version} -> INVALID_PRODUCER_ID_MAPPING
