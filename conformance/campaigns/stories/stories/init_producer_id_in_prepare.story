# InitProducerId while markers are written: busy, whatever is believed.
requests: v1

for state in PrepareCommit PrepareAbort
  names
  p = in_state {state}
  for each
    | what                | believing |
    | nothing             | nothing   |
    | its epoch           | p         |
    | the last epoch      | p@0       |
    | an epoch above      | p@2       |
    | another producer id | p/other   |
    "{state}, believing {what}": InitProducerId p believing={believing} -> CONCURRENT_TRANSACTIONS
