# The cluster goes from level 0 to level 2 while transactions are open: what was begun by V1 requests
# goes on, by either kind.
requests: v1
only: 4.0+ level=0
broker: upgraded

p = in_state Ongoing
q = in_state Ongoing
r = in_state Ongoing
late = in_state Ongoing timeout=2000
change_level 2
"EndTxn v1": EndTxn p commit -> NONE
names
"EndTxn v1, in the end": settled p -> CompleteCommit P:1
names
"EndTxn v2": EndTxn q commit requests=v2 -> NONE P:2
"EndTxn v2, in the end": settled q -> CompleteCommit P:2
"Produce v2 in the open transaction": Produce r new 0 requests=v2 -> NONE
await_state late CompleteAbort
names
"timed out": state late -> CompleteAbort P:2
"timed out, InitProducerId, its epoch": InitProducerId late believing=late requests=v2 -> NONE P:2
