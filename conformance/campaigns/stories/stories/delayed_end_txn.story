# A delayed EndTxn ends the next transaction of the same epoch (KAFKA-17754).
#
# A client's EndTxn of its first transaction is delayed by the network on one connection. The client
# asks again on another one, is told that the transaction is over, and begins a second one. Then the
# delayed copy arrives. With V1 requests nothing in it says which transaction it is about; with V2
# requests (KIP-890) each transaction has an epoch of its own.
#
# What became of the second transaction is decided by what is read back, never by what is expected.
name: delayed_end_txn_{shape}_{requests}
each requests: v1 v2
each:
  | shape               | delayed | ended  | what                                                                            |
  | lost_write          | abort   | commit | a delayed abort; the client commits its group's offsets with what it wrote      |
  | aborted_write_shown | commit  | abort  | a delayed commit; the client aborts what it wrote and its group's offsets       |
  | torn_transaction    | abort   | commit | a delayed abort; the client commits what it wrote to two partitions             |
requests: {requests}

let sequence -> 1
  requests=v2 -> 0
one other = topic
g = fresh group
id = fresh id
delayed_copy = connect coordinator
p = "InitProducerId": retry InitProducerId {id} -> NONE P:0
open p one 0 first
now = "EndTxn({delayed}) of transaction 1, again": retry EndTxn p {delayed} -> NONE
  requests=v2 -> NONE P:1
settle now
open now one {sequence} second
"the delayed copy arrives": EndTxn p {delayed} on=delayed_copy -> NONE
  requests=v2 -> PRODUCER_FENCED
settle now
# The client knows nothing of the delayed copy.
if shape=torn_transaction
  if requests=v1
    "AddPartitionsToTxn": retry AddPartitionsToTxn now other -> NONE
  "Produce third to the other partition": retry Produce now other 0 third -> NONE
  let writes -> second@one third@other
if shape!=torn_transaction
  if requests=v1
    "AddOffsetsToTxn": retry AddOffsetsToTxn now {g} -> NONE
  "TxnOffsetCommit": retry TxnOffsetCommit now {g} one 7 -> NONE
  let writes -> second@one 7@{g}/one
"EndTxn({ended}) of transaction 2": retry EndTxn now {ended} -> NONE
  requests=v2 -> NONE P:2
let acknowledged -> {answered}
guarantee completes: eventually pending now -> nothing
guarantee last_stable_offset_moves: waiting one other -> nothing
if ended=commit acknowledged=NONE*
  guarantee no_lost_write: lost {writes} -> nothing
    requests=v1 -> second
if ended=abort
  guarantee no_aborted_read: shown {writes} -> nothing
    requests=v1 -> second
guarantee all_or_none: torn {writes} -> nothing
  requests=v1 shape=lost_write -> 7
  requests=v1 shape=aborted_write_shown -> second
  requests=v1 shape=torn_transaction -> third
let word -> ABORT
  delayed=commit -> COMMIT
"the partition": partition one -> P:0#0 P:0!{word} P:0#1 P:0!{word}, stable
  requests=v2 ended=commit -> P:0#0 P:1!{word} P:1#0 P:2!COMMIT, stable
  requests=v2 ended=abort -> P:0#0 P:1!{word} P:1#0 P:2!ABORT, stable
