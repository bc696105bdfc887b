# AddPartitionsToTxn of other epochs and producers, in each state; of ids that nobody knows; of
# partitions that do not exist. Since KAFKA-18660 a pending change is looked at first.
requests: v1

for state in Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort
  p = in_state {state}
  for each
    | what              | who     | answer                      |
    | epoch below       | p@-1    | PRODUCER_FENCED             |
    | epoch above       | p@+1    | PRODUCER_FENCED             |
    | other producer id | p/other | INVALID_PRODUCER_ID_MAPPING |
    "{state}, {what}": AddPartitionsToTxn {who} new -> {answer}
      state=Prepare* 4.0+ -> CONCURRENT_TRANSACTIONS
p = begin
a = topic
"an id that nobody knows": AddPartitionsToTxn p/nobody a -> INVALID_PRODUCER_ID_MAPPING
"an empty id": AddPartitionsToTxn p/empty a -> INVALID_REQUEST
"an unknown partition beside a known one": AddPartitionsToTxn p absent a -> UNKNOWN_TOPIC_OR_PARTITION OPERATION_NOT_ATTEMPTED
"version 1, epoch below": AddPartitionsToTxn p@0 a version=1 -> INVALID_PRODUCER_EPOCH
names
"nothing was added": state p -> Empty P:1
