"""The broker at which traces with transactions are played: one that was started here, or a foreign
one.

It provides topics, names, connections and coordinators. A foreign broker gets only requests that
its clients may send, so its internal topics may have many partitions.
"""

from __future__ import annotations

from typing import Final, Protocol

from conformance.adapters.brokers.kafka.admin import Supported, TopicPartition
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.kafka.wait import poll
from conformance.adapters.brokers.listening_broker import ListeningBroker, NoBroker, address_of
from conformance.adapters.brokers.reading import CONSUMER_OFFSETS, TRANSACTION_STATE
from conformance.adapters.brokers.wire import (
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
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey
from model.releases import NEWEST

TRANSACTION_VERSION: Final = "transaction.version"
"""The feature whose level decides how coordinators and their logs work."""
NEEDED: Final = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
)
"""The APIs without which a trace cannot be played, or its result not be seen. DescribeTransactions
says when a transaction is complete."""
VERIFIES_FROM: Final = 11
"""The version of Produce from which clients receive TRANSACTION_ABORTABLE (3.8, KIP-890)."""
ANSWER_TIMEOUT_MS: Final = 10_000

_METADATA_VERSION: Final = 7


class TransactionServer(Protocol):
    """A server that leads partitions and is every coordinator: a `KafkaTestbed`, or a broker that
    listens. Raises KafkaError."""

    @property
    def shows_producers(self) -> bool:
        """Whether it describes its producers."""

    def connect(self, node_id: int = 1) -> CoordinatorConnection:
        """Open one more connection."""

    def fresh(self, word: str) -> str:
        """A name that was never used."""

    def topic(self, partitions: int = 1, *, on: int | None = None) -> list[TopicPartition]:
        """The partitions of a new topic, led by the broker `on`. Raises RequestRefused."""

    def conversation(self, requests: Requests) -> Conversation:
        """The conversation in the newest versions of this kind."""

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The coordinator epoch of a transactional id."""

    def offsets_log(self, group_id: str) -> TopicPartition:
        """The partition that keeps a group's offsets."""


class ListeningServer(ListeningBroker):
    """A broker at `wire://HOST:PORT`. Raises NoBroker, BackendFailed, KafkaError."""

    def __init__(self, text: str) -> None:
        super().__init__(address_of(text), timeout_ms=ANSWER_TIMEOUT_MS)
        self._wires: list[CoordinatorConnection] = []
        self._internal: dict[str, dict[int, int]] = {}
        missing = [api.name for api in NEEDED if api not in self.supported.versions]
        if missing:
            raise NoBroker(
                f"{text} does not offer {', '.join(missing)}, without which transactions cannot be"
                " judged; --scope idempotent-default needs Produce, InitProducerId and CreateTopics"
                " alone"
            )
        self._first = self.connect()

    def connect(self, node_id: int = 1) -> CoordinatorConnection:
        """See `TransactionServer`."""
        wire = CoordinatorConnection(self.open_connection())
        self._wires.append(wire)
        return wire

    def conversation(self, requests: Requests) -> Conversation:
        """See `TransactionServer`. Raises RequestRefused."""
        return conversation(self.supported, requests)

    def coordinator_epoch(self, transactional_id: str) -> int:
        """See `TransactionServer`; 0 if the server does not show its log."""
        epochs = self.epochs(TRANSACTION_STATE[0])
        return epochs[partition_for(transactional_id, len(epochs))] if epochs else 0

    def offsets_log(self, group_id: str) -> TopicPartition:
        """See `TransactionServer`. Raises RequestRefused if the server does not show it."""
        topic = CONSUMER_OFFSETS[0]
        epochs = self.epochs(topic)
        if not epochs:
            raise RequestRefused(f"the broker does not show {topic}")
        return topic, partition_for(group_id, len(epochs))

    def epochs(self, topic: str) -> dict[int, int]:
        """The leader epochs of an internal topic's partitions; they are read once."""
        if topic not in self._internal:
            self._internal[topic] = self._asked(topic)
        return self._internal[topic]

    def _asked(self, topic: str) -> dict[int, int]:
        """The epochs once the coordinators of the topic serve."""
        of_group = topic == CONSUMER_OFFSETS[0]

        def look() -> dict[int, int]:
            found = self._first.retry(find_coordinator(self.fresh("id"), of_group=of_group))
            return self._first.ask(leader_epochs(topic)) if found.error is ErrorCode.NONE else {}

        return poll(look, bool, BUSY_TIMEOUT_S)

    def close(self) -> None:
        """Close all connections, and delete the topics."""
        for wire in self._wires:
            wire.close()
        super().close()


def leader_epochs(topic: str) -> WireCall[dict[int, int]]:
    """The leader epoch of each partition; empty if the topic does not exist."""
    body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}

    def read(body: Value) -> dict[int, int]:
        return {
            row["partition_index"]: row["leader_epoch"]
            for one in body["topics"]
            for row in one["partitions"]
        }

    return WireCall(WireRequest(ApiKey.METADATA, _METADATA_VERSION, body), read)


def newest_variant(supported: Supported) -> str:
    """The newest variant that fits a broker's ApiVersions."""
    level = supported.levels.get(TRANSACTION_VERSION, 0)
    if speaks(supported, "v2"):
        requests = "v2" if level == 2 else "v1"
        return f"{NEWEST}/level={level}/requests={requests}"
    newest_produce = supported.versions[ApiKey.PRODUCE][1]
    release = "3.9.2" if newest_produce >= VERIFIES_FROM else "3.3.2"
    return f"{release}/level=0/requests=v1"
