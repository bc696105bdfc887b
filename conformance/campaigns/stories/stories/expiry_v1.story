# A transactional id expires, in each state in which it can; what a producer is answered that slept;
# one that is open stays.
requests: v1
property: transactional.id.expiration.ms=1500
property: transaction.remove.expired.transaction.cleanup.interval.ms=100

for state in Empty CompleteCommit CompleteAbort
  names
  mark_log
  p = in_state {state}
  "{state}, expired": eventually state p -> TRANSACTIONAL_ID_NOT_FOUND
  "{state}, the log ends": last_record p -> tombstone
  "{state}, then EndTxn": EndTxn p commit -> INVALID_PRODUCER_ID_MAPPING
  "{state}, then AddPartitionsToTxn": AddPartitionsToTxn p new -> INVALID_PRODUCER_ID_MAPPING
  "{state}, then InitProducerId, its identity": InitProducerId p believing=p -> NONE Q:0
names
p = in_state Ongoing
wait 3
"Ongoing stays": state p -> Ongoing P:1
