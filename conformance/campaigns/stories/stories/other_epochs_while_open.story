# A transaction is open at a partition, and a batch of another epoch comes: is the coordinator asked?
#
# V1: before 4.0 what is open vouches for any epoch (KAFKA-18575). V2: the first batch of one
# transaction comes again, late, while the next one is open here. 4.0 asks the coordinator about a
# batch that is too old, and keeps its sequence as the lowest.
name: other_epochs_while_open_{requests}
each:
  | requests | epoch |
  | v1       | 1     |
  | v2       | 2     |
requests: {requests}

p = begin
a = topic
open p a
if requests=v2
  p = end p commit
  open p a
"epoch below": Produce p@-1 a 0 late -> INVALID_PRODUCER_EPOCH
"epoch below, then its own goes on": Produce p a 1 more -> NONE
  4.0 -> OUT_OF_ORDER_SEQUENCE_NUMBER
let own -> P:{epoch}#0 P:{epoch}#1
  4.0 -> P:{epoch}#0
if requests=v1
  "epoch above": Produce p@+1 a 0 early -> NONE
    4.0+ -> INVALID_PRODUCER_EPOCH
  "the partition then": partition a -> {own} P:2#0, open from 0
    4.0+ -> {own}, open from 0
if requests=v2
  "the partition then": partition a -> P:1#0 P:2!COMMIT {own}, open from 2
