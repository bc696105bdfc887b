"""aiokafka."""

import asyncio

from aiokafka import AIOKafkaProducer, TopicPartition
from lines import GROUP, INPUT, serve

loop = asyncio.new_event_loop()
LEAST = {"linger.ms": 0, "retry.backoff.ms": 0, "request.timeout.ms": 500}  # it bounds the start


class Aiokafka:
    def __init__(self, settings, topic):
        self.topic, wait = topic, loop.run_until_complete
        self.producer = wait(self.start(settings))
        self.pause = lambda seconds: wait(asyncio.sleep(seconds))
        self.begin = lambda: wait(self.producer.begin_transaction())
        self.commit = lambda: wait(self.producer.commit_transaction())
        self.abort = lambda: wait(self.producer.abort_transaction())
        self.close = lambda: wait(self.producer.stop())

    async def start(self, s):
        named = {name.replace(".", "_"): max(int(s[name]), least) for name, least in LEAST.items()}
        producer = AIOKafkaProducer(
            bootstrap_servers=s["bootstrap.servers"], transactional_id=s.get("transactional.id"),
            enable_idempotence=True, max_batch_size=int(s["batch.size"]), **named)  # fmt: skip
        try:
            await producer.start()
        except Exception:
            await producer.client.close()
            raise
        return producer

    def send(self, partition, value, told):
        def tell(done):
            error = done.exception()
            told(f"failed {error!r}" if error else f"stored {done.result().offset}")

        sending = self.producer.send(self.topic, value, partition=partition)
        loop.run_until_complete(sending).add_done_callback(tell)

    def send_offset(self, offset):
        offsets = {TopicPartition(INPUT, 0): offset}
        loop.run_until_complete(self.producer.send_offsets_to_transaction(offsets, GROUP))


serve(Aiokafka)
