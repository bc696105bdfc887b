"""One lost answer: the leader has the records, the producer does not know it, and sends again."""

from impl import IdempotentProducerCore, PartitionLeader, ProducerConfig, decode_batch

leader = PartitionLeader()
producer = IdempotentProducerCore(ProducerConfig.of(linger_ms=0))
producer.update_metadata({("orders", 0): 1})


def deliver(produce, now_ms):
    """Hand a Produce request to the leader; its answer."""
    records = produce.body["topics"][0]["partitions"][0]["records"]
    sent, end = decode_batch(records), leader.log_end_offset
    done = leader.produce(records, required_acks=-1, now_ms=now_ms)
    verdict = "appended" if leader.log_end_offset > end else "a duplicate, not appended"
    print(f"  #{produce.correlation_id}: sequences {sent.base_sequence}-{sent.last_sequence}")
    print(f"  leader: {verdict}; offset {done.base_offset}, log end {leader.log_end_offset}")
    partition = {"index": 0, "error_code": done.error, "base_offset": done.base_offset}
    return {"topics": [{"name": "orders", "partitions": [partition]}]}


(init,) = producer.poll(now_ms=0)
producer.receive(init.correlation_id, {"error_code": 0, "producer_id": 7, "producer_epoch": 0}, 0)
print(f"producer id {producer.producer_id}, epoch {producer.producer_epoch}")
handles = [producer.append("orders", 0, value=value, now_ms=0) for value in (b"a", b"b")]
(request,) = producer.poll(now_ms=0)
print("0 ms: the producer sends a, b")
deliver(request, now_ms=0)
print("5 ms: the connection breaks, the answer is lost")
producer.disconnected(1, now_ms=5)
assert producer.poll(now_ms=5) == ()
retry_ms = 5 + producer.next_timeout_ms(now_ms=5)
(request,) = producer.poll(now_ms=retry_ms)
print(f"{retry_ms} ms: the producer sends a, b again")
producer.receive(request.correlation_id, deliver(request, now_ms=retry_ms), retry_ms)
print(f"acknowledged: {[h.error is None for h in handles]}, offsets {[h.offset for h in handles]}")
