# A TxnOffsetCommit that its sender gave up arrives behind a newer one of its transaction, over a
# connection of its own. The last in the log counts: a group coordinator compares no offsets.
name: offsets_come_in_order_{requests}
each requests: v1 v2
requests: {requests}

for each
  | outcome | word      | offset |
  | commit  | committed | 5      |
  | abort   | aborted   | -1     |
  names
  p = begin
  g = fresh group
  a = topic
  if requests=v1
    AddOffsetsToTxn p {g}
  "{word}: offset 9": TxnOffsetCommit p {g} a 9 -> NONE
  late = connect group_coordinator
  "{word}: then offset 5, late": TxnOffsetCommit p {g} a 5 on=late -> NONE
  "{word}: both, open": offsets {g} a -> -1, stable UNSTABLE_OFFSET_COMMIT
  end p {outcome}
  "{word}: in the end": eventually offsets {g} a -> {offset}, stable {offset}
