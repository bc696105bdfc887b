# A coordinator that loads its log: what it remembers of ids of V2 requests, what it completes, and
# the retries that come after it.
requests: v2
broker: restarted

ongoing = in_state Ongoing
prepared_commit = in_state PrepareCommit
prepared_abort = in_state PrepareAbort
committed = in_state CompleteCommit
aborted = in_state CompleteAbort
restart
for each
  | state          | who             | then               |
  | Ongoing        | ongoing         | Ongoing P:1        |
  | PrepareCommit  | prepared_commit | CompleteCommit P:2 |
  | PrepareAbort   | prepared_abort  | CompleteAbort P:2  |
  | CompleteCommit | committed       | CompleteCommit P:2 |
  | CompleteAbort  | aborted         | CompleteAbort P:2  |
  names
  "{state}, then": settled {who} -> {then}
for each
  | state          | who             | outcome |
  | PrepareCommit  | prepared_commit | commit  |
  | PrepareAbort   | prepared_abort  | abort   |
  | CompleteCommit | committed       | commit  |
  | CompleteAbort  | aborted         | abort   |
  names
  "{state}, EndTxn again": EndTxn {who}@1 {outcome} -> NONE P:2
  "{state}, InitProducerId, the epoch before": InitProducerId {who} believing={who}@1 -> PRODUCER_FENCED
names
"Ongoing, EndTxn(commit)": EndTxn ongoing commit -> NONE P:2
