# A transactional id expires: what a producer of V2 requests is answered that slept.
requests: v2
property: transactional.id.expiration.ms=1500
property: transaction.remove.expired.transaction.cleanup.interval.ms=100

names
p = in_state CompleteCommit
eventually state p -> TRANSACTIONAL_ID_NOT_FOUND
"then Produce": Produce p new 0 -> INVALID_PRODUCER_ID_MAPPING
names
p = in_state CompleteCommit
eventually state p -> TRANSACTIONAL_ID_NOT_FOUND
"then EndTxn(commit)": EndTxn p commit -> INVALID_PRODUCER_ID_MAPPING
