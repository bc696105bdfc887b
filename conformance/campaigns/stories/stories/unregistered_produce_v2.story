# Produce to a partition that the transaction does not have: the leader registers it, by state and
# identity.
requests: v2

for state in Empty Ongoing CompleteCommit CompleteAbort
  names
  p = in_state {state}
  "{state}": Produce p new 0 -> NONE
  "{state}, then": state p -> Ongoing P:1
    state=Complete* -> Ongoing P:2
for state in PrepareCommit PrepareAbort
  names
  p = in_state {state}
  "{state}, epoch before the end": Produce p new 0 -> CONCURRENT_TRANSACTIONS
  "{state}, epoch after the end": Produce p@2 new 0 -> CONCURRENT_TRANSACTIONS
p = in_state Ongoing
"Ongoing, epoch below": Produce p@0 new 0 -> INVALID_PRODUCER_EPOCH
"Ongoing, epoch above": Produce p@2 new 0 -> INVALID_PRODUCER_EPOCH
"Ongoing, other producer id": Produce p/other new 0 -> INVALID_PRODUCER_ID_MAPPING
"Ongoing, an id that nobody knows": Produce p/nobody new 0 -> INVALID_PRODUCER_ID_MAPPING
