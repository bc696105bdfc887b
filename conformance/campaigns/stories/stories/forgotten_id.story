# A real client gives its producer id back, and what it sent under the old one fails beside what it
# sends under the new one (KAFKA-8484).
#
# The client sends a, b and c, a batch each. The broker stores them, is killed before its answers
# come through, and comes back with the last batch alone in its memory. a is sent again and refused:
# the client forgets its producer id and takes another. b and c go again under the old one, d and e
# under the new one; the answers about the old ones are slow. In the end f is sent. The client 2.0.0
# lowers the next sequence for b, which never had one of the new id's: f has the sequence of e, and
# the broker takes it for e. Networks and machines do such things; nobody lies.
requests: v1
client: yes
broker: restarted

at = topic
client at enable.idempotence=true acks=all max.in.flight.requests.per.connection=5 batch.size=1 linger.ms=0 request.timeout.ms=30000 retry.backoff.ms=20 reconnect.backoff.ms=20 reconnect.backoff.max.ms=20 max.block.ms=60000
lose_answers a b c
call send a b c
await_answered a b c
names
"a, at first": sent_as a -> P:0#0
hold_answers b c
lose_answers
crash
"a": call await a -> stored 3
  client=2.* -> failed OutOfOrderSequenceException
call send d e
await_sent d e
hold_answers
for each
  | record | since_2     | since_4  |
  | c      | stored 2    | stored 5 |
  | d      | stored 3    | stored 6 |
  | e      | stored 4    | stored 7 |
  | f      | stored 5    | stored 8 |
  if record=c
    "b": call await b -> stored 4
      client=2.* -> failed OutOfOrderSequenceException
  if record=f
    call send f
  "{record}": call await {record} -> {since_4}
    client=2.* -> {since_2}
    client=2.0.0 record=f -> stored 4
for each
  | record | since_2 | since_4 |
  | d      | Q:0#0   | P:1#3   |
  | e      | Q:0#1   | P:1#4   |
  | f      | Q:0#2   | P:1#5   |
  "{record} was sent as": sent_as {record} -> {since_4}
    client=2.* -> {since_2}
    client=2.0.0 record=f -> Q:0#1
# Since 2.5 the client takes the next epoch of its producer id, and writes all again (KIP-360).
"the partition": stored at -> a b c a b c d e f
  client=2.* -> a b c d e f
  client=2.0.0 -> a b c d e
guarantee acked_is_stored: unstored at -> nothing
  client=2.0.0 -> f
