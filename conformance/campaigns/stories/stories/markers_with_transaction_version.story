# WriteTxnMarkers 2 says which transaction version it is about (KIP-1228), at a partition that has
# seen epoch 1.
requests: v2
only: 4.2+

for version in 0 1 2
  for each
    | where    | what           | epoch | answer                 |
    | open     | its epoch      | 1     | NONE                   |
    | open     | an epoch above | 2     | NONE                   |
    | open     | an epoch below | 0     | INVALID_PRODUCER_EPOCH |
    | not open | its epoch      | 1     | NONE                   |
    | not open | an epoch below | 0     | INVALID_PRODUCER_EPOCH |
    p = begin
    a = topic
    WriteTxnMarkers p@1 a abort coordinator=3 requests=v1
    if where=open
      open p a requests=v1
    "transaction version {version}, {where}, {what}": WriteTxnMarkers p@{epoch} a commit coordinator=3 transaction={version} -> {answer}
      version=2 where=open epoch=1 -> INVALID_PRODUCER_EPOCH
