# TxnOffsetCommit after the marker, and without registration (KAFKA-15449).
requests: v1

for each
  | what             | before |
  | after the marker | 7      |
  | never registered | -1     |
  names
  p = begin
  g = fresh group
  a = topic
  if before=7
    AddOffsetsToTxn p {g}
    TxnOffsetCommit p {g} a 7
    end p commit
  "{what}": TxnOffsetCommit p {g} a 9 -> NONE
    3.7+ -> INVALID_TXN_STATE
    3.8+ -> TRANSACTION_ABORTABLE
  "{what}, then": offsets {g} a -> {before}, stable UNSTABLE_OFFSET_COMMIT
    3.7+ -> {before}, stable {before}
if 3.8+
  p = begin
  g = fresh group
  a = topic
  "never registered, version 3": TxnOffsetCommit p {g} a 9 version=3 -> INVALID_TXN_STATE
