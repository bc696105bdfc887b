# A group's offsets of a transaction are pending until its marker. With V2 requests the group's
# coordinator registers them.
name: commit_offsets_{requests}
each requests: v1 v2
requests: {requests}

for each
  | outcome | offset |
  | commit  | 7      |
  | abort   | -1     |
  names
  p = begin
  g = fresh group
  a = topic
  if requests=v1
    AddOffsetsToTxn p {g}
  "before {outcome}, TxnOffsetCommit": TxnOffsetCommit p {g} a 7 -> NONE
  "before {outcome}, while it is open": offsets {g} a -> -1, stable UNSTABLE_OFFSET_COMMIT
  end p {outcome}
  "after {outcome}": eventually offsets {g} a -> {offset}, stable {offset}
