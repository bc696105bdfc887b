# InitProducerId in a transaction: it is aborted first, at an epoch above. The coordinator aborts in
# the way of its level: at level 2 it remembers the last epoch.
name: init_producer_id_{requests}_in_a_transaction
each requests: v1 v2
requests: {requests}

for each
  | what                | believing |
  | nothing             | nothing   |
  | its epoch           | p         |
  | the last epoch      | p@0       |
  | an epoch above      | p@5       |
  | another producer id | p/other   |
  names
  p = begin
  a = topic
  open p a
  mark_log
  "Ongoing, believing {what}": InitProducerId p believing={believing} -> CONCURRENT_TRANSACTIONS
    believing=p/other -> PRODUCER_FENCED
  if believing!=p/other
    "{what}: in the end": settled p -> CompleteAbort P:2
    "{what}: the log": log p -> PrepareAbort P:2, CompleteAbort P:2
    "{what}: the partition": partition a -> P:1#0 P:2!ABORT, stable
    "{what}: asked again": retry InitProducerId p believing={believing} -> PRODUCER_FENCED
      believing=nothing -> NONE P:3
      believing=p level=2 -> NONE P:2
