# The next epoch begins anew at each partition, also where nothing is on its way (KAFKA-12152).
#
# c is lost until its time is over, and the client takes the next epoch. The Java client before
# 2.7.1 goes on with the sequence of the idle partition: d is refused, and one epoch more is spent.
requests: v1
client: yes

at other = topic
InitProducerId none
client at enable.idempotence=true acks=all max.in.flight.requests.per.connection=5 batch.size=1 linger.ms=0 request.timeout.ms=400 delivery.timeout.ms=1500 retry.backoff.ms=100 reconnect.backoff.ms=20 reconnect.backoff.max.ms=20 max.block.ms=60000
call send a b@1
call await a
call await b
names
"b was sent as": sent_as b -> P:0#0
lose_requests c
call send c
call await c
lose_requests
call send d@1
"d": call await d -> stored 1
"d was sent as": sent_as d -> P:1#0
