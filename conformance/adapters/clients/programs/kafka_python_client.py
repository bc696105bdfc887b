"""kafka-python."""

import time

from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from lines import GROUP, INPUT, serve, twice

NAMES = ("batch.size", "linger.ms", "request.timeout.ms", "delivery.timeout.ms", "max.block.ms",
         "max.in.flight.requests.per.connection", "retry.backoff.ms")  # fmt: skip


class KafkaPython:
    def __init__(self, settings, topic):
        named = {name.replace(".", "_"): int(settings[name]) for name in NAMES}
        named |= {"transactional_id": settings.get("transactional.id")}
        named |= {"bootstrap_servers": settings["bootstrap.servers"]}
        self.producer = KafkaProducer(enable_idempotence=True, **named)
        self.topic, self.pause = topic, time.sleep
        self.begin = self.producer.begin_transaction
        self.close = lambda: twice(self.producer.close)  # it raises "Future not done" at times
        self.commit, self.abort = self.producer.commit_transaction, self.producer.abort_transaction
        if "transactional.id" in settings:
            self.producer.init_transactions()

    def send(self, partition, value, told):
        future = self.producer.send(self.topic, value, partition=partition)
        future.add_callback(lambda stored: told(f"stored {stored.offset}"))
        future.add_errback(lambda error: told(f"failed {type(error).__name__}"))

    def send_offset(self, offset):
        self.producer.send_offsets_to_transaction(
            {TopicPartition(INPUT, 0): OffsetAndMetadata(offset, "", -1)}, GROUP)  # fmt: skip


serve(KafkaPython)
