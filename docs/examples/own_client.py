"""This project's producer as a client that is judged: `run --system client` reads its lines."""

import asyncio

from conformance.adapters.clients.programs.lines import GROUP, INPUT, serve
from kafka_eos import Producer, TopicPartition

loop = asyncio.new_event_loop()
NAMES = (
    "linger.ms",
    "batch.size",
    "request.timeout.ms",
    "delivery.timeout.ms",
    "retry.backoff.ms",
    "max.in.flight.requests.per.connection",
)


class OwnClient:
    """The calls of `lines.Client`, on an event loop that runs while one of them waits."""

    def __init__(self, settings, topic):
        named = {name.replace(".", "_"): int(settings[name]) for name in NAMES}
        if "transactional.id" in settings:
            named["transactional_id"] = settings["transactional.id"]
        self.topic, wait = topic, loop.run_until_complete
        self.producer = Producer(settings["bootstrap.servers"], **named)
        wait(self.producer.start())
        self.pause = lambda seconds: wait(asyncio.sleep(seconds))
        self.begin = lambda: wait(self.producer.begin_transaction())
        self.commit = lambda: wait(self.producer.commit_transaction())
        self.abort = lambda: wait(self.producer.abort_transaction())
        self.close = lambda: wait(self.producer.stop())

    def send(self, partition, value, told):
        """Hand a record over."""

        def tell(done):
            error = done.exception()
            told(f"failed {type(error).__name__}" if error else f"stored {done.result().offset}")

        sending = self.producer.send(self.topic, value, partition=partition)
        loop.run_until_complete(sending).add_done_callback(tell)

    def send_offset(self, offset):
        """Add an offset to the transaction."""
        offsets = {TopicPartition(INPUT, 0): offset}
        loop.run_until_complete(self.producer.send_offsets_to_transaction(offsets, GROUP))


serve(OwnClient)
