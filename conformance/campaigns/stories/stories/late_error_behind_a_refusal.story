# A batch is stored and has a late error, and the one behind it is refused for good: the next epoch
# stores the first once more (KAFKA-14034).
#
# The client sends a, b and c, a batch each. The broker stores a and b. The network turns its answer
# about b into NOT_ENOUGH_REPLICAS_AFTER_APPEND, which a broker gives whose replicas are gone. c is
# longer than the broker takes: MESSAGE_TOO_LARGE is its own answer, and no retry helps. Since 2.5 the
# client then takes the next epoch, and numbers b again from 0, although b is stored.
requests: v1
client: yes
property: message.max.bytes=1000

at = topic
client at enable.idempotence=true acks=all max.in.flight.requests.per.connection=5 batch.size=1 linger.ms=0 request.timeout.ms=30000 retry.backoff.ms=1000 retry.backoff.max.ms=1000 max.block.ms=60000
call send a
"a": call await a -> stored 0
names
late_errors b
hold_answers b
call send b c*40
await_sent b c
await_answered b
hold_answers
"c": call await c -> failed RecordTooLargeException
"b": call await b -> stored 2
  client=2.* -> stored 1
"b was sent as": sent_as b -> P:1#0
  client=2.* -> P:0#1
guarantee acked_once: stored at -> a b
  client=3.* -> a b b
  client=4.* -> a b b
