# A client of V2 requests goes on after a time-out at the last epoch, as the answer to its EndTxn
# lets it; then others' transactions time out, or never (KAFKA-20090).
requests: v2
broker: own

p = exhaust timeout=2000
names p
a = topic
open p a
await_state p CompleteAbort
"timed out": settled p -> CompleteAbort P:32767
  4.3+ level=2 -> CompleteAbort Q:0
now = "EndTxn(abort) of its client": EndTxn p abort -> NONE P:32767
  4.3+ -> NONE Q:0
let who -> P:32767
  4.3+ -> Q:0
b = topic
"then Produce": Produce now b 0 next -> NONE
"then Produce, the state": state now -> Ongoing {who}
"then EndTxn(commit)": EndTxn now commit -> UNKNOWN_SERVER_ERROR
  4.3+ -> NONE Q:1
"then EndTxn(commit), the state": settled now -> Ongoing {who}
  4.3+ -> CompleteCommit Q:1
"then InitProducerId": InitProducerId now -> UNKNOWN_SERVER_ERROR
  4.3+ -> NONE Q:2
wait 4
others = begin_many 64 b timeout=2000
eventually states others -> CompleteAbort
"the transactions of 64 others, long after their time-outs": states others -> Ongoing, CompleteAbort
  4.3+ -> CompleteAbort
