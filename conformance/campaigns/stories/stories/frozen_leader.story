# A partition's leader is frozen: what is answered while its marker is missing.
name: frozen_leader_{requests}
each:
  | requests | epoch | answer   |
  | v1       | 1     | NONE     |
  | v2       | 2     | NONE P:2 |
requests: {requests}
brokers: 3

for each
  | outcome | word   | marker |
  | commit  | Commit | COMMIT |
  | abort   | Abort  | ABORT  |
  names
  p = begin
  near = topic on=coordinator
  away = topic on=idle
  open p near
  open p away
  freeze away
  "Prepare{word}, EndTxn": EndTxn p {outcome} -> {answer}
  "Prepare{word}, it stays": state p -> Prepare{word} P:{epoch}
  "Prepare{word}, the other partition": stable near -> P:1#0 P:{epoch}!{marker}, stable
  "Prepare{word}, EndTxn(commit) again": EndTxn p commit -> CONCURRENT_TRANSACTIONS
  "Prepare{word}, EndTxn(abort) again": EndTxn p abort -> CONCURRENT_TRANSACTIONS
  "Prepare{word}, AddPartitionsToTxn": AddPartitionsToTxn p@{epoch} near -> CONCURRENT_TRANSACTIONS
  "Prepare{word}, InitProducerId": InitProducerId p -> CONCURRENT_TRANSACTIONS
  if requests=v2
    "Prepare{word}, Produce of the next transaction": Produce p@{epoch} near 0 next -> CONCURRENT_TRANSACTIONS
  thaw
  "Prepare{word}, thawed": settled p -> Complete{word} P:{epoch}
  "Prepare{word}, thawed, the partition": stable away -> P:1#0 P:{epoch}!{marker}, stable
