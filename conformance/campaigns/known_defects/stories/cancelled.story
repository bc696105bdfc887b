# The client gives a record up whose answer was a time-out, although the broker stored it (franz-go
# 1217).
#
# The broker stores b, and says that its replicas did not follow in time. The time of b is over before
# it is sent again. franz-go up to 1.20.6 takes b for a record that was never stored, and gives its
# sequence to c: the broker takes c for b again, c is acknowledged, and is nowhere.
requests: v1
client: yes

at = topic
InitProducerId none
client at enable.idempotence=true acks=all max.in.flight.requests.per.connection=5 batch.size=1 linger.ms=0 request.timeout.ms=1000 delivery.timeout.ms=1500 retry.backoff.ms=2000 max.block.ms=10000
call send a
"a": call await a -> stored 0
late_errors b
call send b
call await b
call send c
call await c
guarantee acked_is_stored: unstored at -> nothing
