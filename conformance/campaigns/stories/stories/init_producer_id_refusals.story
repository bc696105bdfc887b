# InitProducerId: what does not depend on a state.
requests: v1

id = fresh id
"no id": retry InitProducerId none -> NONE P:0
"no id, an identity given": retry InitProducerId none believing=7:7 -> NONE Q:0
"no id, time-out 0": retry InitProducerId none timeout=0 -> NONE R:0
"empty id": retry InitProducerId empty -> INVALID_REQUEST
"time-out 0": retry InitProducerId {id} timeout=0 -> INVALID_TRANSACTION_TIMEOUT
"time-out above the most": retry InitProducerId {id} timeout=900001 -> INVALID_TRANSACTION_TIMEOUT
"a producer id without epoch": retry InitProducerId {id} believing=7:-1 -> INVALID_REQUEST
"an epoch without producer id": retry InitProducerId {id} believing=-1:7 -> INVALID_REQUEST
"a fresh id, an identity given": retry InitProducerId {id} believing=7:7 -> NONE S:0
p = begin
"version 4, an epoch above": InitProducerId p believing=p@+5 version=4 -> PRODUCER_FENCED
"version 3, an epoch above": InitProducerId p believing=p@+5 version=3 -> INVALID_PRODUCER_EPOCH
