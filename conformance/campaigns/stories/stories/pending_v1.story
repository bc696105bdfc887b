# A change waits for the followers of the log of transactions: V1 requests meanwhile.
requests: v1
brokers: 3
property: transaction.state.log.replication.factor=3
property: transaction.state.log.min.isr=2

for each
  | what               | state   |
  | InitProducerId     | Empty   |
  | AddPartitionsToTxn | Empty   |
  | EndTxn(commit)     | Ongoing |
  names
  p = begin
  a = topic on=coordinator
  if state=Ongoing
    open p a
  waiting = connect coordinator
  freeze followers
  if what=InitProducerId
    send waiting: InitProducerId p
  if what=AddPartitionsToTxn
    send waiting: AddPartitionsToTxn p a
  if what=EndTxn*
    send waiting: EndTxn p commit
  wait 0.3
  "{what} waits, the state": state p -> {state} P:1
  "{what} waits, InitProducerId": InitProducerId p -> CONCURRENT_TRANSACTIONS
  "{what} waits, AddPartitionsToTxn": AddPartitionsToTxn p a -> CONCURRENT_TRANSACTIONS
  "{what} waits, EndTxn(commit)": EndTxn p commit -> CONCURRENT_TRANSACTIONS
  "{what} waits, EndTxn(abort)": EndTxn p abort -> CONCURRENT_TRANSACTIONS
  thaw
  "{what} waited, its answer": receive waiting error -> NONE
