# TxnOffsetCommit registers a group's offsets, by state and identity.
requests: v2

for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
  names
  p = in_state {state}
  g = fresh group
  "{state}": TxnOffsetCommit p {g} new 7 -> NONE
    state=Prepare* -> CONCURRENT_TRANSACTIONS
  "{state}, then": state p -> Ongoing P:1
    state=Prepare* -> {state} P:2
    state=Complete* -> Ongoing P:2
p = in_state Ongoing
for each
  | what              | who     | answer                      |
  | epoch below       | p@0     | INVALID_PRODUCER_EPOCH      |
  | epoch above       | p@2     | INVALID_PRODUCER_EPOCH      |
  | other producer id | p/other | INVALID_PRODUCER_ID_MAPPING |
  g = fresh group
  "Ongoing, {what}": TxnOffsetCommit {who} {g} new 7 -> {answer}
