# A transaction that times out: what is written, and what its producer is answered afterwards. The
# coordinator aborts in the way of its level: at level 2 it remembers the last epoch.
name: time_out_{requests}
each requests: v1 v2
requests: {requests}

for what in Produce elsewhere commit abort TxnOffsetCommit InitProducerId AddPartitionsToTxn AddOffsetsToTxn
  names
  p = begin timeout=300
  a = topic
  mark_log
  open p a
  await_state p CompleteAbort
  if what=Produce
    "in the end": state p -> CompleteAbort P:2
    "the log": log p -> Ongoing P:1, PrepareAbort P:2, CompleteAbort P:2
    "the partition": partition a -> P:1#0 P:2!ABORT, stable
    "then Produce": Produce p a 1 late -> INVALID_PRODUCER_EPOCH
  # Nothing at another partition has seen the new epoch, nor at the group: only verification knows.
  if what=elsewhere
    "then Produce elsewhere": Produce p new 0 late -> NONE
      3.6+ -> INVALID_PRODUCER_EPOCH
  if what=TxnOffsetCommit
    g = fresh group
    "then TxnOffsetCommit": TxnOffsetCommit p {g} a 7 -> NONE
      3.7+ -> INVALID_PRODUCER_EPOCH
  if what=commit
    "then EndTxn(commit)": EndTxn p commit -> PRODUCER_FENCED
      requests=v2 -> INVALID_TXN_STATE
  if what=abort
    "then EndTxn(abort)": EndTxn p abort -> PRODUCER_FENCED
      requests=v2 -> NONE P:2
  if what=InitProducerId
    "then InitProducerId, its epoch": InitProducerId p believing=p -> PRODUCER_FENCED
      level=2 -> NONE P:2
  if what=AddPartitionsToTxn
    "then AddPartitionsToTxn": AddPartitionsToTxn p a -> PRODUCER_FENCED
  if what=AddOffsetsToTxn
    "then AddOffsetsToTxn": AddOffsetsToTxn p group -> PRODUCER_FENCED
names
p = begin timeout=300
wait 0.9
"nothing was begun: no time-out": state p -> Empty P:1
