# A second abort of the same transaction, by V1 requests.
requests: v1

p = in_state CompleteAbort
"the second abort": EndTxn p abort -> NONE
