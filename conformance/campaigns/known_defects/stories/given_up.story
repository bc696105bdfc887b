# The client gives a record up that the broker never saw, and goes on (sarama 1661).
#
# sarama up to 1.26.1 leaves a gap: c has the sequence behind that of b, and each later record is
# refused for good. The next epoch begins anew.
requests: v1
client: yes

at = topic
# A broker that has just started is busy with its first block of producer ids.
InitProducerId none
client at enable.idempotence=true acks=all max.in.flight.requests.per.connection=5 batch.size=1 linger.ms=0 request.timeout.ms=500 delivery.timeout.ms=1500 retries=1 retry.backoff.ms=100 max.block.ms=10000
call send a
"a": call await a -> stored 0
lose_requests b
call send b
call await b
lose_requests
call send c
"c": call await c -> stored 1
