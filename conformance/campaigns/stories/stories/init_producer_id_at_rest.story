# InitProducerId where no transaction is open, with each identity that a client may believe to have
# (KIP-360). V1 requests end a transaction at epoch 1; V2 requests end it at epoch 2, after 1.
name: init_producer_id_{requests}_at_rest
each:
  | requests | states                             |
  | v1       | Empty CompleteCommit CompleteAbort |
  | v2       | CompleteCommit CompleteAbort       |
requests: {requests}

for state in {states}
  for each
    | what                     | believing | v1   | v2   |
    | nothing                  | nothing   | P:2  | P:3  |
    | its epoch                | p         | P:2  | P:3  |
    | the last epoch           | p@0       | P:1  | skip |
    | the epoch before the end | p@1       | skip | P:2  |
    | two epochs below         | p@0       | skip | no   |
    | an epoch above           | p@+1      | no   | no   |
    | another producer id      | p/other   | no   | no   |
    let next -> {v1}
      requests=v2 -> {v2}
    if next!=skip
      names
      p = in_state {state}
      "{state}, believing {what}": InitProducerId p believing={believing} -> NONE {next}
        next=no -> PRODUCER_FENCED
    if next=P*
      "{state}, believing {what}, then": state p -> Empty {next}
      let again -> {believing}
        believing=nothing -> p
      "{state}, believing {what}, then the believed again": InitProducerId p believing={again} -> NONE {next}
        believing=nothing -> PRODUCER_FENCED
