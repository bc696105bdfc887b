"""Brokers that `KafkaTestbed` does not start: one at an address, or `impl`'s own.

Such a system is one broker without faults. Stories that need more are not played on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Thread
from typing import Final, NamedTuple

from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.reading import CONSUMER_OFFSETS, TRANSACTION_STATE
from conformance.adapters.brokers.transactions.servers import ListeningServer, newest_variant
from conformance.adapters.brokers.wire import CoordinatorConnection, Requests, speaks
from conformance.campaigns.stories.story import OWN, RESTARTED, UPGRADED, Brokers, Experiment
from impl.broker.config import NodeConfig
from impl.broker.server import Server
from impl.coordinator.config import TransactionConfig
from impl.coordinator.group_config import OffsetsConfig

HOST: Final = "127.0.0.1"
NODE: Final = 1
TRANSACTION_VERSION: Final = "transaction.version"


def _milliseconds(part: str, field: str) -> Callable[[NodeConfig, str], NodeConfig]:
    return lambda config, value: _with(config, part, field, int(value))


SETTINGS: Final[Mapping[str, Callable[[NodeConfig, str], NodeConfig]]] = {
    "transactional.id.expiration.ms": _milliseconds(
        "transactions", "transactional_id_expiration_ms"
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": _milliseconds(
        "transactions", "remove_expired_interval_ms"
    ),
    "producer.id.expiration.ms": _milliseconds("log", "producer_id_expiration_ms"),
    "transaction.partition.verification.enable": lambda config, value: _with(
        config, "log", "rules", replace(config.log.rules, verifies=value == "true")
    ),
}
"""Properties of a broker that `impl` has, too."""


def _with(config: NodeConfig, part: str, field: str, value: object) -> NodeConfig:
    return replace(config, **{part: replace(getattr(config, part), **{field: value})})


SCAN_INTERVAL_MS: Final = 100


class RemoteRelease(NamedTuple):
    """The release by which a broker is judged."""

    name: str
    version: str


class RemoteTestbed(ListeningServer):
    """One broker at an address, instead of a `KafkaTestbed`: it coordinates everything, and leads
    all partitions.

    Raises NoBroker, BackendFailed.
    """

    def __init__(self, address: str, release: str = "") -> None:
        super().__init__(address)
        self.check_alone()
        version = newest_variant(self.supported).partition("/")[0]
        self.release = RemoteRelease(release or version, version)
        self.level = self.supported.levels.get(TRANSACTION_VERSION, 0)
        self._wire = super().connect()
        for topic, _ in (TRANSACTION_STATE, CONSUMER_OFFSETS):
            self.epochs(topic)  # coordinators serve from here on

    @property
    def name(self) -> str:
        """The name for tables."""
        return f"{self.release.name} level {self.level}"

    def can_use(self, requests: Requests) -> bool:
        """Whether a transaction can begin with these requests."""
        return speaks(self.supported, requests) and (requests == "v1" or self.level > 0)

    def transaction_logs(self) -> list[TopicPartition]:
        """The partitions of `__transaction_state`."""
        topic = TRANSACTION_STATE[0]
        return [(topic, index) for index in self.epochs(topic)]

    def connect(self, node_id: int = NODE) -> CoordinatorConnection:
        """Open one more connection."""
        return super().connect()

    def wire(self, node_id: int = NODE) -> CoordinatorConnection:
        """The usual connection."""
        return self._wire

    def coordinator(self) -> CoordinatorConnection:
        """See `wire`."""
        return self._wire

    group_coordinator = coordinator

    def leader(self, partition: TopicPartition) -> CoordinatorConnection:
        """See `wire`."""
        return self._wire

    def role(self, name: str) -> tuple[int, ...]:
        """The one broker, which has all roles."""
        return (NODE,)

    def leader_of(self, partition: TopicPartition) -> int:
        """The one broker, which leads all partitions."""
        return NODE


def why_not(experiment: Experiment, *, is_ours: bool) -> str:
    """The reason why an experiment cannot be played on one broker without faults; empty if it can.

    A broker that `is_ours` is started with the properties that it knows, and may be left broken.
    """
    wants = experiment.brokers
    unknown = [name for name, _ in wants.properties if not (is_ours and name in SETTINGS)]
    problems = {
        f"they want {wants.count} brokers": wants.count > 1,
        "they restart the broker": experiment.broker == RESTARTED,
        "they change the level": experiment.broker == UPGRADED,
        "they leave the broker broken": experiment.broker == OWN and not is_ours,
        f"they want the broker with {', '.join(unknown)}": bool(unknown),
    }
    return next((problem for problem, is_so in problems.items() if is_so), "")


@contextmanager
def implementation(level: int, wants: Brokers) -> Iterator[RemoteTestbed]:
    """`impl`'s broker on a socket, in a thread of its own."""
    transactions = TransactionConfig(
        num_partitions=1,
        transaction_version=level,
        abort_timed_out_interval_ms=SCAN_INTERVAL_MS,
    )
    config = NodeConfig(
        host=HOST,
        port=0,
        transactions=transactions,
        offsets=OffsetsConfig(num_partitions=1),
        add_partitions_to_txn_retry_backoff_ms=1,
        producer_id_expiration_check_interval_ms=SCAN_INTERVAL_MS,
    )
    for name, value in wants.properties:
        config = SETTINGS[name](config, value)
    with (
        _serving(config) as port,
        closing(RemoteTestbed(f"wire://{HOST}:{port}", "impl")) as testbed,
    ):
        yield testbed


@contextmanager
def _serving(config: NodeConfig) -> Iterator[int]:
    """Serve in a thread; returns the port. Raises OSError."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = Server(config)
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
    try:
        yield server.port
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
