# A transaction that was begun by one kind of requests is ended by the other.
requests: v1 v2

for each
  | begun | ended | epoch |
  | v1    | v2    | 2     |
  | v2    | v1    | 1     |
  names
  p = in_state Ongoing requests={begun}
  let answer_of_end -> NONE
    ended=v2 -> NONE P:2
  "begun {begun}, EndTxn {ended}": EndTxn p commit requests={ended} -> {answer_of_end}
  "begun {begun}, EndTxn {ended}, in the end": settled p -> CompleteCommit P:{epoch}
  "begun {begun}, EndTxn {ended}, again": EndTxn p commit requests={ended} -> {answer_of_end}
  "begun {begun}, ended {ended}, EndTxn {begun} again": EndTxn p commit requests={begun} -> INVALID_TXN_STATE
    ended=v2 -> PRODUCER_FENCED
