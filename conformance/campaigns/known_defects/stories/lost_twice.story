# A batch is lost twice, and the one behind it arrives (librdkafka 3584).
#
# b is lost, and its time runs out: the client cannot know whether it is stored, and sends it again, c
# behind it. b is lost again, c arrives, and the broker refuses it: OUT_OF_ORDER_SEQUENCE_NUMBER.
# librdkafka before 2.3 counts b as stored, and gives up for good. The network recovers.
requests: v1
client: yes

at = topic
client at enable.idempotence=true acks=all max.in.flight.requests.per.connection=5 batch.size=1 linger.ms=0 request.timeout.ms=1000 retry.backoff.ms=1000 reconnect.backoff.ms=20 reconnect.backoff.max.ms=20 delivery.timeout.ms=20000 max.block.ms=10000
call send a
"a": call await a -> stored 0
lose_requests b
call send b
wait 2.2
call send c
wait 2
lose_requests
"b": call await b -> stored 1
"c": call await c -> stored 2
