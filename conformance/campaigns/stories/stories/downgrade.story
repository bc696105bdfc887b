# The cluster goes from level 2 to level 0 while transactions are open: V1 requests and time-outs end
# what V2 requests began.
requests: v2
only: level=2
broker: upgraded

p = in_state Ongoing
q = in_state Ongoing
timed = in_state Ongoing timeout=2000
plain = in_state Ongoing requests=v1
done = in_state CompleteCommit
change_level 0
"begun v1, EndTxn v1": EndTxn plain commit requests=v1 -> NONE
names
"begun v2, EndTxn v1": EndTxn p commit requests=v1 -> NONE
"begun v2, EndTxn v1, in the end": settled p -> CompleteCommit P:1
names
"begun v2, EndTxn v2": EndTxn q commit -> UNSUPPORTED_VERSION
"begun v2, EndTxn v2, the state": state q -> Ongoing P:1
# The change that could not be written is pending for ever.
"begun v2, EndTxn v2, then EndTxn v1": EndTxn q commit requests=v1 -> CONCURRENT_TRANSACTIONS
names
"begun v2, timed out": eventually state timed -> CompleteAbort P:2
names
"ended v2, AddPartitionsToTxn": AddPartitionsToTxn done new requests=v1 -> NONE
"ended v2, EndTxn v1": EndTxn done commit requests=v1 -> NONE
"ended v2, in the end": settled done -> CompleteCommit P:2
