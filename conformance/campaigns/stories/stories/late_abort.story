# A real client aborts while a batch of its transaction is not answered, and the batch expires before
# the abort is done. Two transactions follow.
#
# With V1 requests the client wants the next epoch for that batch, and asks nobody for it: each later
# call is illegal, for ever. With V2 requests (level 2) the epoch comes with the end of the
# transaction. The broker stores the batch and its answers are lost, or it never sees the batch.
name: late_abort_{batch}
each batch: stored lost
requests: v1
client: yes

at = topic
id = fresh late-abort
client at transactional.id={id} acks=all request.timeout.ms=400 delivery.timeout.ms=1500 retry.backoff.ms=20 retry.backoff.max.ms=20 reconnect.backoff.ms=5 reconnect.backoff.max.ms=20 max.block.ms=30000
if batch=stored
  lose_answers b
if batch=lost
  lose_requests b
"initTransactions": call initTransactions -> done
"beginTransaction": call beginTransaction -> done
call send a
"a": call await a -> stored 0
call send b
# The request times out once, and is sent again.
wait 0.7
"abortTransaction": call abortTransaction -> done
"b": call await b -> failed TimeoutException
wait 1
for record in c d
  "{record}: beginTransaction": call beginTransaction -> failed IllegalStateException from state INITIALIZING
    level=2 -> done
  if answered=done
    call send {record}
    "{record}: commitTransaction": call commitTransaction -> done
"initTransactions again": call initTransactions -> failed IllegalStateException from state INITIALIZING
  level=2 -> failed IllegalStateException from state READY
"InitProducerId after EndTxn": asked INIT_PRODUCER_ID END_TXN -> 0
