"""The broker at which traces with transactions are played: one that was started here, or another.

It gives topics, names, connections and coordinators. Another's broker is asked for nothing but what
its clients may ask: so its internal topics may have many
partitions, and nothing is done to it.
"""

from __future__ import annotations

import secrets
import time
from itertools import count
from typing import Final, Protocol

from conformance.kafka.admin import Supported, TopicPartition, create_topic
from conformance.kafka.connection import BrokerConnection, WireRequest
from conformance.kafka.errors import RequestRefused
from conformance.systems.brokers.idempotent.connecting import NoBroker, address_of, running
from conformance.transactions.reading import CONSUMER_OFFSETS, TRANSACTION_STATE, leadership
from conformance.transactions.testbed import KafkaTestbed
from conformance.transactions.wire import (
    BUSY_TIMEOUT_S,
    Conversation,
    CoordinatorConnection,
    Requests,
    WireCall,
    conversation,
    find_coordinator,
    speaks,
)
from impl.coordinator.placement import partition_for
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

TRANSACTION_VERSION: Final = "transaction.version"
"""The feature whose level decides how coordinators and their logs speak."""
NEEDED: Final = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
)
"""Without these nothing can be asked, or nothing be seen. DescribeTransactions says when a
transaction is complete."""
VERIFIES_FROM: Final = 11
"""The version of Produce with which clients hear TRANSACTION_ABORTABLE (3.8, KIP-890)."""
NO_PRODUCERS: Final = "producer states: the broker does not offer DescribeProducers"

_METADATA_VERSION: Final = 7
_PAUSE_S: Final = 0.02


class TopicSource(Protocol):
    """Where partitions come from."""

    def topic(self, partitions: int = 1, *, on: int | None = None) -> list[TopicPartition]:
        """A new topic's partitions, led by the broker `on`. Raises RequestRefused."""


class Servers(TopicSource, Protocol):
    """A broker that leads all partitions and is every coordinator. Raises KafkaError."""

    @property
    def shows_producers(self) -> bool:
        """It tells of its producers."""

    def connect(self) -> CoordinatorConnection:
        """One more connection."""

    def fresh(self, word: str) -> str:
        """A name that nobody had."""

    def conversation(self, requests: Requests) -> Conversation:
        """The newest versions of the kind."""

    def coordinator_epoch(self, transactional_id: str) -> int:
        """How often coordination of an id began."""

    def offsets_of(self, group_id: str) -> TopicPartition:
        """Where a group's offsets are kept."""


class Started:
    """A ground of one broker that was started here."""

    def __init__(self, ground: KafkaTestbed) -> None:
        self.ground = ground
        self.topic = ground.topic
        self.connect = ground.connect
        self.fresh = ground.fresh
        self.conversation = ground.conversation
        self.shows_producers = True  # 2.8 and later, and no older one has a model

    def coordinator_epoch(self, transactional_id: str) -> int:
        """See `Servers`. Asked each time: the broker may have started again."""
        return self.ground.coordinator().ask(leadership(TRANSACTION_STATE)).leader_epoch

    def offsets_of(self, group_id: str) -> TopicPartition:
        """See `Servers`. The topic is there from then on."""
        self.ground.leader_of(CONSUMER_OFFSETS)
        return CONSUMER_OFFSETS

    def close(self) -> None:
        """The ground is not ours."""


class ListeningServer:
    """A broker at `wire://HOST:PORT`. Raises NoBroker, BackendFailed, KafkaError."""

    def __init__(self, text: str) -> None:
        self.supported = running(text).supported
        self._address = address_of(text)
        self._wires: list[CoordinatorConnection] = []
        self._numbers = count(1)
        self._run = secrets.token_hex(4)
        self._internal: dict[str, dict[int, int]] = {}
        missing = [api.name for api in NEEDED if api not in self.supported.versions]
        if missing:
            raise NoBroker(f"{text} does not offer {', '.join(missing)}: nothing can be judged")
        self._first = self.connect()

    @property
    def shows_producers(self) -> bool:
        """See `Servers`."""
        return ApiKey.DESCRIBE_PRODUCERS in self.supported.versions

    def connect(self) -> CoordinatorConnection:
        """See `Servers`."""
        wire = CoordinatorConnection(BrokerConnection(*self._address, timeout_ms=10_000))
        self._wires.append(wire)
        return wire

    def fresh(self, word: str) -> str:
        """See `Servers`: nor had it an earlier run."""
        return f"kafka-eos-{word}-{self._run}-{next(self._numbers)}"

    def topic(self, partitions: int = 1, *, on: int | None = None) -> list[TopicPartition]:
        """See `TopicSource`; `on` is this broker."""
        name = self.fresh("topic")
        create_topic(self._first.connection, name, partitions)
        return [(name, index) for index in range(partitions)]

    def conversation(self, requests: Requests) -> Conversation:
        """See `Servers`. Raises RequestRefused."""
        return conversation(self.supported, requests)

    def coordinator_epoch(self, transactional_id: str) -> int:
        """See `Servers`; 0 where its log is not shown."""
        epochs = self.epochs(TRANSACTION_STATE[0])
        return epochs[partition_for(transactional_id, len(epochs))] if epochs else 0

    def offsets_of(self, group_id: str) -> TopicPartition:
        """See `Servers`. Raises RequestRefused where they are not shown."""
        topic = CONSUMER_OFFSETS[0]
        epochs = self.epochs(topic)
        if not epochs:
            raise RequestRefused(f"the broker does not show {topic}")
        return topic, partition_for(group_id, len(epochs))

    def epochs(self, topic: str) -> dict[int, int]:
        """The leader epochs of an internal topic's partitions, asked once."""
        if topic not in self._internal:
            self._internal[topic] = self._asked(topic)
        return self._internal[topic]

    def _asked(self, topic: str) -> dict[int, int]:
        """Those that there are once its coordinators serve."""
        of_group = topic == CONSUMER_OFFSETS[0]
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            found = self._first.retry(find_coordinator(self._run, of_group=of_group))
            epochs = self._first.ask(leader_epochs(topic))
            if (found.error is ErrorCode.NONE and epochs) or time.monotonic() > deadline:
                return epochs
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()


def leader_epochs(topic: str) -> WireCall[dict[int, int]]:
    """By partition, how often its leadership began; nothing of a topic that is not there."""
    body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}

    def read(body: Value) -> dict[int, int]:
        return {
            row["partition_index"]: row["leader_epoch"]
            for one in body["topics"]
            for row in one["partitions"]
        }

    return WireCall(WireRequest(ApiKey.METADATA, _METADATA_VERSION, body), read)


def newest_variant(supported: Supported) -> str:
    """The newest variant that a broker's ApiVersions fit."""
    level = supported.levels.get(TRANSACTION_VERSION, 0)
    if speaks(supported, "v2"):
        requests = "v2" if level == 2 else "v1"
        return f"4.3.1/level={level}/requests={requests}"
    newest_produce = supported.versions[ApiKey.PRODUCE][1]
    release = "3.9.2" if newest_produce >= VERIFIES_FROM else "3.3.2"
    return f"{release}/level=0/requests=v1"
