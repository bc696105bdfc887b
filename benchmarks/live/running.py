"""The brokers that are compared, each in a process of its own: ours, kfake, real Kafka.

A broker may be started in two ways: as fast as it starts, and so that it serves as fast as it can.
They differ for Kafka alone, whose recipe here trades the one for the other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.admin import api_versions
from conformance.adapters.brokers.kafka.broker import KafkaBroker, class_archives
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.releases import NEWEST, find_release
from conformance.adapters.brokers.kfake_process import (
    BrokerMissing,
    child_broker,
    kfake_binary,
    kfake_version,
)
from proofs.java import JavaError

OURS: Final = "ours"
"""The name of this project's broker, and of its client."""

ROOT: Final = Path(__file__).parents[2]

KAFKA_JVM_FLAGS: Final = (
    "-Xms1g",
    "-Xmx1g",
    "-XX:TieredStopAtLevel=4",
    "-XX:-UseSerialGC",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
)
"""Those of `kafka-run-class.sh`, and the best compiler. The recipe's are for a quick start."""

KAFKA_DEFAULTS: Final = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "background.threads": "10",
    "log.index.size.max.bytes": "10485760",
    "producer.id.expiration.check.interval.ms": "600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "add.partitions.to.txn.retry.backoff.ms": "20",
    "log.retention.hours": "-1",  # the records' timestamps are years old: they would be deleted
}
"""What the recipe has changed, and a request may feel, is as Kafka ships it."""


Missing = BrokerMissing
"""A broker that cannot be had here; the message says what to type."""


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that listens: its address, and the id of its process."""

    address: tuple[str, int]
    pid: int

    def connect(self) -> BrokerConnection:
        """Raises ConnectionLost."""
        return BrokerConnection(*self.address)

    def cpu_seconds(self) -> float:
        """The time of all its threads until now, in steps of a tick (10 ms). See proc(5)."""
        after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, after_name[11:13])) / os.sysconf("SC_CLK_TCK")


Opener = Callable[[], AbstractContextManager[Running]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A broker: what it is called, what must be there before, and its two ways to start.

    `prepare` is not timed, and raises Missing.
    """

    title: Callable[[], str]
    prepare: Callable[[], object]
    starts_fast: Opener
    serves_fast: Opener


# ---- ours and kfake: a process that prints its address and ends with its standard input


@contextmanager
def child(command: Sequence[str | Path]) -> Iterator[Running]:
    with child_broker(command, ROOT) as broker:
        yield Running(*broker)


def ours() -> AbstractContextManager[Running]:
    return child([sys.executable, "-m", "benchmarks.live.serve"])


def kfake() -> AbstractContextManager[Running]:
    return child([kfake_binary()])


def kfake_title() -> str:
    return f"kfake {kfake_version()}"


# ---- Kafka


@contextmanager
def kafka(properties: Mapping[str, str], jvm_flags: Sequence[str]) -> Iterator[Running]:
    with KafkaBroker(properties=properties, jvm_flags=jvm_flags) as broker:
        assert broker.pid is not None
        yield Running(broker.address, broker.pid)


def prepare_kafka() -> None:
    """Its jars, and archives of its classes. Raises Missing."""
    try:
        class_archives(find_release(NEWEST))
    except (JavaError, KafkaError) as error:
        raise Missing(str(error)) from error


BROKERS: Final[Mapping[str, Kind]] = {
    OURS: Kind(lambda: "this project's, in memory", lambda: None, ours, ours),
    "kfake": Kind(kfake_title, kfake_binary, kfake, kfake),
    "kafka": Kind(
        lambda: f"Apache Kafka {NEWEST}",
        prepare_kafka,
        lambda: kafka({}, ()),
        lambda: kafka(KAFKA_DEFAULTS, KAFKA_JVM_FLAGS),
    ),
}


def prepare_brokers(names: Sequence[str]) -> dict[str, str]:
    """Why some of these cannot be had."""
    missing = {}
    for name in names:
        try:
            BROKERS[name].prepare()
        except Missing as error:
            missing[name] = str(error)
    return missing


def without_missing(
    names: Sequence[str], missing: Mapping[str, str], what: str, *, needs_peer: bool
) -> list[str]:
    """Which of these can be had; standard error says why others cannot.

    Raises Missing if none is left, or, with `needs_peer`, none to compare with ours.
    """
    wanted = list(dict.fromkeys(names))
    left = [name for name in wanted if name not in missing]
    for name in wanted:
        if name in missing:
            print(f"{name} is not measured. {missing[name]}", file=sys.stderr)
    if not left or (needs_peer and left == [OURS] != wanted):
        raise Missing(f"no {what} is here")
    return left


def first_answer(running: Running) -> None:
    """Raises KafkaError when it does not answer."""
    with running.connect() as connection:
        api_versions(connection)
