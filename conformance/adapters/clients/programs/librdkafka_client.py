"""librdkafka, as confluent-kafka."""

from confluent_kafka import Consumer, Producer, TopicPartition
from lines import GROUP, INPUT, serve, twice

WAIT_S = 8
NOT_HERE = ("max.block.ms", "retry.backoff.max.ms")


class Librdkafka:
    def __init__(self, settings, topic):
        known = {name: value for name, value in settings.items() if name not in NOT_HERE}
        known |= {"retry.backoff.max.ms": "1000", "log_level": "0"}
        self.producer = Producer(known | {"socket.timeout.ms": settings["request.timeout.ms"]})
        self.topic, self.address = topic, settings["bootstrap.servers"]
        self.pause = lambda seconds: twice(self.producer.poll, seconds)
        self.begin = self.producer.begin_transaction
        self.commit = lambda: self.producer.commit_transaction(WAIT_S)
        self.abort = lambda: self.producer.abort_transaction(WAIT_S)
        self.close = lambda: twice(self.producer.flush, WAIT_S)
        if "transactional.id" in settings:
            self.producer.init_transactions(WAIT_S)

    def send(self, partition, value, told):
        def tell(error, message):
            offset = twice(message.offset)
            told(f"failed {error.str()}" if error else f"stored {-1 if offset is None else offset}")

        self.producer.produce(self.topic, value, partition=partition, on_delivery=tell)

    def send_offset(self, offset):
        names = {"bootstrap.servers": self.address, "group.id": GROUP, "log_level": "0"}
        consumer = Consumer(names)
        group = consumer.consumer_group_metadata()
        offsets = [TopicPartition(INPUT, 0, offset)]
        self.producer.send_offsets_to_transaction(offsets, group, WAIT_S)
        consumer.close()


serve(Librdkafka)
