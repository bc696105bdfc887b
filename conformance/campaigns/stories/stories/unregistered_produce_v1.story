# Produce to a partition that the transaction does not have, by version, state and identity. Leaders
# verify since 3.6.
requests: v1

let versions -> 3 7 9
  3.7+ -> 3 7 9 10
  3.8+ -> 3 7 9 10 11
for version in {versions}
  p = in_state Ongoing
  "Ongoing, Produce {version}": Produce p new 0 version={version} -> NONE
    3.6+ -> INVALID_TXN_STATE
    3.8+ version=11 -> TRANSACTION_ABORTABLE
for state in Empty CompleteCommit CompleteAbort PrepareCommit PrepareAbort
  p = in_state {state}
  "{state}, Produce newest": Produce p new 0 -> NONE
    3.6+ -> INVALID_TXN_STATE
    3.8+ -> TRANSACTION_ABORTABLE
    3.6+ state=Prepare* -> NOT_ENOUGH_REPLICAS
p = in_state Ongoing
for each
  | what                    | who      | verified                    |
  | epoch below             | p@0      | INVALID_PRODUCER_EPOCH      |
  | epoch above             | p@2      | INVALID_PRODUCER_EPOCH      |
  | other producer id       | p/other  | INVALID_PRODUCER_ID_MAPPING |
  | an id that nobody knows | p/nobody | INVALID_PRODUCER_ID_MAPPING |
  "Ongoing, {what}": Produce {who} new 0 -> NONE
    3.6+ -> {verified}
