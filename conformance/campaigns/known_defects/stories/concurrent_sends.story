# Records that an application sends at once have a sequence each (kafkajs 1005).
#
# kafkajs before 2.0 takes the sequence before the request, and counts on after its answer: b and c
# have the same one. The broker stores one of them and takes the other for it again: both are
# acknowledged, and one is nowhere.
requests: v1
client: yes

at = topic
client at enable.idempotence=true acks=all max.in.flight.requests.per.connection=5 batch.size=1 linger.ms=0 request.timeout.ms=10000 retry.backoff.ms=100 max.block.ms=10000
call send a
"a": call await a -> stored 0
call send b c
call await b
call await c
guarantee acked_is_stored: unstored at -> nothing
