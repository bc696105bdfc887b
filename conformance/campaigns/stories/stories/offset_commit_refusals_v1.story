# TxnOffsetCommit of groups, generations, partitions and identities that do not exist. Group
# coordinators verify since 3.7.
requests: v1

p = begin
g = fresh group
a = topic
AddOffsetsToTxn p {g}
"an empty group": TxnOffsetCommit p empty a 7 -> INVALID_GROUP_ID
"generation 0": TxnOffsetCommit p {g} a 7 generation=0 -> UNKNOWN_MEMBER_ID
  4.0+ -> ILLEGAL_GENERATION
"nowhere": TxnOffsetCommit p {g} absent 7 -> UNKNOWN_TOPIC_OR_PARTITION
"epoch below": TxnOffsetCommit p@0 {g} a 7 -> NONE
  3.7+ -> INVALID_PRODUCER_EPOCH
"other producer id": TxnOffsetCommit p/other {g} a 7 -> NONE
  3.7+ -> INVALID_PRODUCER_ID_MAPPING
"its own": TxnOffsetCommit p {g} a 7 -> NONE
# The group exists now, without members.
"then generation 0": TxnOffsetCommit p {g} a 7 generation=0 -> UNKNOWN_MEMBER_ID
"then a member": TxnOffsetCommit p {g} a 7 member=m -> NONE
# Its own commit is open there: before 4.0 that is enough, whatever the epoch.
"then epoch above": TxnOffsetCommit p@2 {g} a 7 -> NONE
  4.0+ -> INVALID_PRODUCER_EPOCH
