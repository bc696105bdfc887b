"""Verbs about a client, and about the network between it and its broker."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Final

from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.kafka.recipe import HOST
from conformance.adapters.clients.install import program_command
from conformance.campaigns.stories.network import ClientNetwork
from conformance.campaigns.stories.observations import NOTHING
from conformance.campaigns.stories.session import Session
from conformance.campaigns.stories.vocabulary import verb
from impl.protocol.record_batch import decode_batches

CALL_TIMEOUT_S: Final = 90.0
APPLICATIONS: Final = Path(__file__).with_name("applications")


class Application:
    """A process that takes calls, one a line, and answers each with a line."""

    def __init__(self, client: str, network: ClientNetwork, topic: str, settings: str) -> None:
        self._process = subprocess.Popen(
            [*program_command(client, APPLICATIONS), f"{HOST}:{network.port}", topic, settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: Queue[str] = Queue()
        Thread(target=self._read, daemon=True).start()

    def call(self, line: str) -> str:
        """The answer to a call. Raises RequestRefused if none comes."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        try:
            answer = self._lines.get(timeout=CALL_TIMEOUT_S)
        except Empty:
            raise RequestRefused(f"the client does not answer {line!r}") from None
        if not answer:
            raise RequestRefused(f"the client ended before {line!r}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed
            for line in self._process.stdout:
                self._lines.put(line.strip())
            self._lines.put("")  # it ended


@verb
def client(s: Session, at: TopicPartition, **settings: str) -> None:
    """A producer that writes to a partition; its settings have Apache Kafka's names."""
    address = s.testbed.wire(1).connection.address
    network = s.cleanup.enter_context(ClientNetwork(address))
    text = ",".join(f"{name}={value}" for name, value in settings.items())
    application = Application(s.variables["client"], network, at[0], text)
    s.cleanup.callback(application.close)
    s.things |= {"network": network, "application": application}


@verb
def call(s: Session, *words: str) -> str:
    """The outcome of a call: `done`, `stored 3`, `failed TimeoutException`.

    `send a` only begins to send a record; `await a` returns its outcome. `send a*40` sends a record
    that is 40 times as long, `send a@1` one to the topic's partition 1.
    """
    application: Application = s.things["application"]
    told = application.call(" ".join(words))
    if told.startswith("stored"):
        s.acknowledged |= set(words)
    return told


@verb
def lose_requests(s: Session, *records: str) -> None:
    """Produce requests of these records do not reach the broker; those of others do."""
    _network(s).change(_network(s).lost_requests, set(records))


@verb
def lose_answers(s: Session, *records: str) -> None:
    """Answers about these records do not reach the client; those about others do."""
    _network(s).change(_network(s).lost_answers, set(records))


@verb
def hold_answers(s: Session, *records: str) -> None:
    """Answers about these records, as first sent, reach the client later, together with all answers
    behind them. Answers about other records come."""
    _network(s).change(_network(s).held_answers, set(records))


@verb
def late_errors(s: Session, *records: str) -> None:
    """The next answer about each of these records is NOT_ENOUGH_REPLICAS_AFTER_APPEND, whatever the
    broker answers."""
    _network(s).change(_network(s).late_errors, set(records))


@verb
def await_sent(s: Session, *records: str) -> None:
    """Wait until the client has sent them."""
    network = _network(s)
    network.await_true(
        lambda: {sent.record for sent in network.sent} >= set(records),
        f"the client does not send {' '.join(records)}",
    )


@verb
def await_answered(s: Session, *records: str) -> None:
    """Wait until the broker has answered them."""
    network = _network(s)
    network.await_true(
        lambda: network.answered >= set(records),
        f"the broker does not answer {' '.join(records)}",
    )


@verb
def crash(s: Session) -> None:
    """Kill the only broker, and restart it."""
    [broker] = s.testbed.brokers.values()
    broker.kill()
    s.testbed.forget(broker.node.node_id)
    broker.start()


@verb
def sent_as(s: Session, record: str) -> str:
    """`P:0#1`: the identity and sequence with which the client sent a record last."""
    found = [one for one in _network(s).sent if one.record == record]
    if not found:
        raise RequestRefused(f"the client has not sent {record}")
    sent = found[-1]
    return f"{s.names.identity(sent.producer_id, sent.producer_epoch)}#{sent.sequence}"


@verb
def asked(s: Session, api: str, after: str) -> str:
    """How often the client sent a request of one API after its first request of another."""
    asked_so_far = _network(s).asked
    return str(asked_so_far[asked_so_far.index(after) :].count(api))


@verb
def stored(s: Session, at: TopicPartition) -> str:
    """The records of a partition in order, from the files of the only broker."""
    return " ".join(_stored(s, at)) or NOTHING


@verb
def unstored(s: Session, at: TopicPartition) -> str:
    """The records that were acknowledged but are not stored."""
    records = {sent.record for sent in _network(s).sent} & s.acknowledged
    return " ".join(sorted(records - set(_stored(s, at)))) or NOTHING


def _stored(s: Session, at: TopicPartition) -> list[str]:
    [broker] = s.testbed.brokers.values()
    files = sorted((broker.folder / "data" / f"{at[0]}-{at[1]}").glob("*.log"))
    batches = [batch for file in files for batch in decode_batches(file.read_bytes())]
    return [(record.value or b"?")[:1].decode() for batch in batches for record in batch.records]


def _network(s: Session) -> Any:
    return s.things["network"]
