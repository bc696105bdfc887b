# InitProducerId at the last epoch of a producer id, 32766 for clients: nothing believed, the epoch,
# the one below it.
requests: v1

blind knowing late = exhaust
names blind
"believing nothing": InitProducerId blind -> NONE Q:0
"believing nothing, then the old identity": InitProducerId blind believing=blind -> PRODUCER_FENCED
names knowing
"believing its epoch": InitProducerId knowing believing=knowing -> NONE Q:0
"believing its epoch, then": state knowing -> Empty Q:0
"believing its epoch, again": InitProducerId knowing believing=knowing -> NONE Q:0
"EndTxn of the old identity": EndTxn knowing commit -> INVALID_PRODUCER_ID_MAPPING
names late
"believing the last epoch": InitProducerId late believing=late@-1 -> UNKNOWN_SERVER_ERROR
"believing the last epoch, then": state late -> Empty P:32766
