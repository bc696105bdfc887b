"""librdkafka, as confluent-kafka."""

from confluent_kafka import Consumer, Producer, TopicPartition
from lines import GROUP, INPUT, serve

NOT_HERE = ("max.block.ms", "retry.backoff.max.ms")


class Librdkafka:
    def __init__(self, settings, topic):
        known = {name: value for name, value in settings.items() if name not in NOT_HERE}
        known |= {"retry.backoff.max.ms": "1000", "log_level": "0"}
        self.producer = Producer(known | {"socket.timeout.ms": settings["request.timeout.ms"]})
        self.topic, self.address = topic, settings["bootstrap.servers"]
        self.pause, self.begin = self.producer.poll, self.producer.begin_transaction
        self.commit, self.abort = self.producer.commit_transaction, self.producer.abort_transaction
        self.close = lambda: self.producer.flush(5)
        if "transactional.id" in settings:
            self.producer.init_transactions(5)

    def send(self, partition, value, told):
        def tell(error, message):
            told(f"failed {error.name()}" if error else f"stored {message.offset()}")

        self.producer.produce(self.topic, value, partition=partition, on_delivery=tell)

    def send_offset(self, offset):
        names = {"bootstrap.servers": self.address, "group.id": GROUP, "log_level": "0"}
        consumer = Consumer(names)
        group = consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction([TopicPartition(INPUT, 0, offset)], group)
        consumer.close()


serve(Librdkafka)
