# Whole Produce requests, before any partition is looked at: a transactional id without its batches,
# batches without an id, two producers in one.
requests: v1

p = begin
q = begin
a b = topic
AddPartitionsToTxn p a
AddPartitionsToTxn q b
"a transactional batch without an id": Produce p a 0 named=none -> TRANSACTIONAL_ID_AUTHORIZATION_FAILED
other = begin
"a plain batch with an id": Produce other a 0 plain=yes named=p -> NONE
"two producers in one request": ProduceTogether p a q b -> NONE
  3.6+ -> INVALID_PRODUCER_ID_MAPPING
"acks=1": Produce p a 0 acks=1 -> NONE
