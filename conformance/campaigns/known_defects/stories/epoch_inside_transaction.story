# A client takes the next epoch inside a transaction, and goes on as if it were the same one
# (librdkafka 3575).
#
# b is lost, and the broker refuses c behind it. librdkafka 1.6.1 asks the coordinator for the next
# epoch, which aborts the transaction, and with it a. A partition that comes later begins another one,
# and its commit is acknowledged. In 1.7.0 the commit does not end. An error is right: the application
# aborts, and begins anew. A broker that verifies writes would refuse b.
requests: v1
client: yes

at other = topic
id = fresh epoch-inside
client at transactional.id={id} acks=all max.in.flight.requests.per.connection=5 batch.size=1 linger.ms=0 request.timeout.ms=1000 retry.backoff.ms=100 reconnect.backoff.ms=20 reconnect.backoff.max.ms=20 max.block.ms=30000
call initTransactions
call beginTransaction
call send a
"a": call await a -> stored 0
lose_requests b
call send b
await_sent b
call send c
wait 1
lose_requests
wait 3
call send d@1
"commitTransaction": call commitTransaction -> failed error 45
if answered=done
  "what is committed of a, b and c": committed_records at -> 3 records
