# A coordinator that loads its log: the producer id that follows the last epoch, chosen before the
# restart, or in use already. Before 4.3 the log does not say which one follows (KAFKA-20310).
requests: v2
broker: restarted

held ended = exhaust
a b = topic
hold held a
open held a
mark_log
names held
"held, EndTxn(commit)": EndTxn held commit -> NONE Q:0
"held, before": state held -> PrepareCommit P:32767
open ended b
end ended commit
restart
let now -> P:32767
  4.3+ -> Q:0
"held, then": settled held -> CompleteCommit {now}
"held, the log": log held -> PrepareCommit P:32767, CompleteCommit {now}
"held, EndTxn(commit) again": EndTxn held commit -> NONE {now}
"held, InitProducerId": retry InitProducerId held -> NONE R:0
  4.3+ -> NONE Q:1
names ended
"ended, then": settled ended -> CompleteCommit Q:0
"ended, EndTxn(commit) again": EndTxn ended commit -> INVALID_PRODUCER_ID_MAPPING
  4.3+ -> NONE Q:0
