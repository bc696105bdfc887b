# A real client sends a stored batch of its transaction again, and the broker refuses it for good: the
# topic's limit of timestamps was changed meanwhile. The application has asked for the commit by then,
# or has not.
#
# The client returns the sequence and aborts. With V1 requests it takes the next epoch first, since
# 2.5, but not where the end was asked for: then the next transaction's record has the sequence and
# the epoch of the stored one, is taken for it, and is in no log.
#
# From 3.9 to 4.3 a record's future fails before the client is in its error state: an application that
# aborts at once may have asked for the end before. This one waits.
name: refused_retry_of_a_client_{asked}
each asked: before after
requests: v1
client: yes

let limit -> message.timestamp.difference.max.ms
  3.6+ -> message.timestamp.before.max.ms
at = topic
id = fresh refused-retry
client at transactional.id={id} acks=all request.timeout.ms=3000 delivery.timeout.ms=60000 retry.backoff.ms=20 retry.backoff.max.ms=20 max.block.ms=30000
call initTransactions
call beginTransaction
lose_answers a
call send a
await_answered a
configure at {limit} 1
lose_answers
# The request times out in the call, and is sent again.
if asked=before
  "commitTransaction": call commitTransaction -> failed InvalidTimestampException
"a": call await a -> failed InvalidTimestampException
if asked=after
  wait 1
"abortTransaction": call abortTransaction -> done
configure at {limit} 9223372036854775807
wait 0.5
call beginTransaction
call send b
"b": call await b -> stored 2
  asked=before -> stored 0
  client=2.* -> stored 0
  level=2 client=4.* -> stored 2
"the next commitTransaction": call commitTransaction -> done
names
"a was sent as": sent_as a -> P:0#0
"b was sent as": sent_as b -> P:1#0
  asked=before -> P:0#0
  client=2.* -> P:0#0
  level=2 client=4.* -> P:1#0
guarantee acked_is_stored: unstored at -> nothing
  asked=before -> b
  client=2.* -> b
  level=2 client=4.* -> nothing
