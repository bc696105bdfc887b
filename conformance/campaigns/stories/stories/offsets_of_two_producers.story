# Two producers commit an offset of one group: the later commit wins, whichever transaction ends
# first.
requests: v1

g = fresh group
a = topic
p = begin
q = begin
AddOffsetsToTxn p {g}
TxnOffsetCommit p {g} a 7
AddOffsetsToTxn q {g}
TxnOffsetCommit q {g} a 8
end q commit
"the second is committed, the first open": offsets {g} a -> 8, stable UNSTABLE_OFFSET_COMMIT
end p commit
"both are committed": offsets {g} a -> 8, stable 8
