"""An application of confluent-kafka, which is librdkafka. See `Application.java` for its arguments,
calls and answers. It runs in a folder of its own, with the release that is installed there."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

LENGTH: Final = 48
PATIENCE_S: Final = 60.0
POLL_S: Final = 0.01
RENAMED: Final = {"request.timeout.ms": "socket.timeout.ms", "batch.size": "batch.num.messages"}
UNKNOWN: Final = ("max.block.ms",)
METHODS: Final = {
    "initTransactions": "init_transactions",
    "beginTransaction": "begin_transaction",
    "commitTransaction": "commit_transaction",
    "abortTransaction": "abort_transaction",
}


class ConfluentApplication:
    """A producer, and what became of each record."""

    def __init__(self, bootstrap: str, topic: str, settings: str) -> None:
        given = dict(setting.split("=", 1) for setting in settings.split(","))
        known = {RENAMED.get(name, name): given[name] for name in given if name not in UNKNOWN}
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **known})
        self._topic = topic
        self._answers: dict[str, str] = {}
        self._told = threading.Condition()
        threading.Thread(target=self._poll, daemon=True).start()

    def answer(self, call: str, *words: str) -> str:
        """What becomes of a call. Raises KafkaException."""
        if call == "send":
            for word in words:
                self._send(*word.split("*"))
            return "done"
        if call == "await":
            with self._told:
                self._told.wait_for(lambda: words[0] in self._answers, PATIENCE_S)
                return self._answers.get(words[0], "failed TimeoutException")
        getattr(self._producer, METHODS[call])()
        return "done"

    def _send(self, name: str, times: str = "1") -> None:
        def tell(error: Any, message: Any) -> None:
            with self._told:
                stored = f"stored {message.offset()}"
                self._answers[name] = f"failed {error.name()}" if error else stored
                self._told.notify_all()

        value = name * (LENGTH * int(times))
        self._producer.produce(self._topic, value, partition=0, on_delivery=tell)

    def _poll(self) -> None:
        while True:
            with suppress(KafkaException):  # a fatal error; each record is told of it
                self._producer.poll(POLL_S)


def main() -> None:
    """Answer each line."""
    application = ConfluentApplication(*sys.argv[1:4])
    for line in sys.stdin:
        try:
            print(application.answer(*line.split()), flush=True)
        except KafkaException as error:
            print(f"failed {error.args[0].name()}", flush=True)


if __name__ == "__main__":
    main()
