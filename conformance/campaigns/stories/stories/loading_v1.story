# A coordinator that loads its log: what it remembers of ids of V1 requests, and what it completes.
requests: v1
broker: restarted

resting = in_state Empty
ongoing = in_state Ongoing
prepared_commit = in_state PrepareCommit
prepared_abort = in_state PrepareAbort
complete = in_state CompleteCommit
late = in_state Ongoing timeout=1500
restart
for each
  | state          | who             | then           |
  | Empty          | resting         | Empty          |
  | Ongoing        | ongoing         | Ongoing        |
  | PrepareCommit  | prepared_commit | CompleteCommit |
  | PrepareAbort   | prepared_abort  | CompleteAbort  |
  | CompleteCommit | complete        | CompleteCommit |
  names
  "{state}, then": settled {who} -> {then} P:1
names resting
"Empty, InitProducerId, the last epoch": InitProducerId resting believing=resting@0 -> PRODUCER_FENCED
names complete
"CompleteCommit, InitProducerId, the last epoch": InitProducerId complete believing=complete@0 -> PRODUCER_FENCED
names
"CompleteCommit, EndTxn(commit) again": EndTxn complete commit -> NONE
"PrepareCommit, EndTxn(commit) again": EndTxn prepared_commit commit -> NONE
"Ongoing, EndTxn(commit)": EndTxn ongoing commit -> NONE
names
await_state late CompleteAbort
"Ongoing, timed out meanwhile": state late -> CompleteAbort P:2
