# WriteTxnMarkers without a transaction version, at a partition that has seen epoch 1 and
# coordinator 3.
requests: v1

for place in open closed
  let where -> open
    place=closed -> not open
  for each
    | what                                    | epoch | coordinator | answer                         |
    | its epoch                               | 1     | 3           | NONE                           |
    | an epoch below                          | 0     | 3           | INVALID_PRODUCER_EPOCH         |
    | an epoch above                          | 2     | 3           | NONE                           |
    | an earlier coordinator                  | 1     | 2           | TRANSACTION_COORDINATOR_FENCED |
    | a later coordinator                     | 1     | 4           | NONE                           |
    | an epoch below, an earlier coordinator  | 0     | 2           | INVALID_PRODUCER_EPOCH         |
    p = begin
    a = topic
    WriteTxnMarkers p@1 a abort coordinator=3
    if place=open
      open p a
    "{where}, {what}": WriteTxnMarkers p@{epoch} a commit coordinator={coordinator} -> {answer}
a = topic
names
"unknown producer": WriteTxnMarkers p@4/other a abort -> NONE
"unknown producer, then": entry a p/other -> P:4 last -1 coordinator 0
"unknown partition": WriteTxnMarkers p@4/other absent abort to=a -> UNKNOWN_TOPIC_OR_PARTITION
