# The log refuses a fence at the last epoch, and then takes all again: below level 2 memory keeps
# epoch 32767, behind which there is none. 4.3 does not ask for one to fence again.
requests: v1
brokers: 3
broker: own
property: transaction.state.log.replication.factor=3
property: transaction.state.log.min.isr=3
property: replica.lag.time.max.ms=1500
property: controller.socket.timeout.ms=1000

# Longer than the log refuses: it is a client's fence that fails.
p = exhaust timeout=20000
a = topic on=coordinator
names p
open p a
freeze idle
await_in_sync 2
"fence": InitProducerId p -> COORDINATOR_NOT_AVAILABLE
"fence, the state": state p -> Ongoing P:32767
  level=2 -> Ongoing P:32766
thaw
await_in_sync 3
"thawed, fence": InitProducerId p -> UNKNOWN_SERVER_ERROR
  4.3+ -> CONCURRENT_TRANSACTIONS
  level=2 -> CONCURRENT_TRANSACTIONS
if level!=2
  "thawed, EndTxn(abort)": EndTxn p abort -> PRODUCER_FENCED
  wait 30
  "long after its time-out": state p -> Ongoing P:32767
    4.3+ -> CompleteAbort P:32767
  others = begin_many 64 a timeout=3000
  eventually states others -> CompleteAbort
  "the transactions of 64 others, long after their time-outs": states others -> Ongoing, CompleteAbort
    4.3+ -> CompleteAbort
