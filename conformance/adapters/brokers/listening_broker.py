"""A broker that listens somewhere, and what one may ask of it.

Opening a broker that cannot be judged is bad use (`NoBroker`); one that takes the connection and
then says nothing leaves the question open (`BackendFailed`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from itertools import count
from typing import Final

from conformance.adapters.brokers.kafka.admin import (
    Supported,
    TopicPartition,
    api_versions,
    broker_ids,
    create_topic,
    delete_topics,
)
from conformance.adapters.brokers.kafka.connection import ANSWER_TIMEOUT_MS, BrokerConnection
from conformance.adapters.brokers.kafka.errors import AnswerTimeout, ConnectionLost, KafkaError
from conformance.generate.faults import CLIENTS, Means
from conformance.judging.backend import BackendError, BackendFailed
from impl import ApiKey, DecodeError
from impl.addresses import Address, InvalidAddress, parse_address
from proofs.say import note

NEEDED: Final = (ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.CREATE_TOPICS)
"""Without these there is nothing to judge."""
OLDEST_PRODUCE: Final = 3
"""The first version with batches that a producer id can be in."""
NEWEST_PRODUCE: Final = 12
"""The last that names topics by name."""
TELLS_LOG_START: Final = 5
"""The first whose answer has the log's start."""
NO_PRODUCERS: Final = "producer states: the broker does not offer DescribeProducers"


class NoBroker(BackendError):
    """Nothing that can be judged listens there; the message says where, and what to do."""


def address_of(text: str) -> Address:
    """The address in `wire://HOST:PORT`; `impl.addresses` has its form. Raises NoBroker."""
    try:
        return parse_address(text.removeprefix("wire://"))
    except InvalidAddress as error:
        raise NoBroker(
            f"{text!r} names no broker ({error}); write wire://HOST:PORT, as wire://localhost:9092"
        ) from None


class ListeningBroker:
    """A broker at an address, to which nothing is done. `timeout_ms` is for each of its answers,
    `replicas` are the brokers that its topics are put on, the leader first; empty: wherever.

    Raises NoBroker, BackendFailed.
    """

    means: Means = CLIENTS
    replicas: tuple[int, ...] = ()

    def __init__(self, address: Address, timeout_ms: int = ANSWER_TIMEOUT_MS) -> None:
        self._address = address
        self._timeout_ms = timeout_ms
        self._names = count(1)
        self._topics: list[str] = []
        self._run = secrets.token_hex(4)
        self.supported = self._ask_supported()
        missing = [api.name for api in NEEDED if api not in self.supported.versions]
        if missing or self.produce_version < 0:
            wanted = ", ".join(missing) or f"Produce {OLDEST_PRODUCE} to {NEWEST_PRODUCE}"
            raise NoBroker(f"{self} does not offer {wanted}")

    def __str__(self) -> str:
        return "{}:{}".format(*self.address)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._address

    @property
    def shows_producers(self) -> bool:
        """It tells of its producers."""
        return ApiKey.DESCRIBE_PRODUCERS in self.supported.versions

    @property
    def produce_version(self) -> int:
        """The newest that both know; below OLDEST_PRODUCE none."""
        oldest, newest = self.supported.versions.get(ApiKey.PRODUCE, (0, -1))
        version = min(newest, NEWEST_PRODUCE)
        return version if version >= max(oldest, OLDEST_PRODUCE) else -1

    @property
    def tells_log_start(self) -> bool:
        """Its answers to Produce have it."""
        return self.produce_version >= TELLS_LOG_START

    def check_alone(self) -> None:
        """Ask Metadata, which names all brokers of a cluster, and which a listener with SASL does
        not answer. Raises NoBroker, BackendFailed."""
        try:
            with self.open_connection() as connection:
                ids = broker_ids(connection)
        except AnswerTimeout as error:
            raise BackendFailed(f"{self} does not answer Metadata: {error}") from error
        except ConnectionLost as error:
            raise NoBroker(
                f"{self} answers ApiVersions, and closes the connection at the next request, as a"
                " listener with SASL does; name the address of a plaintext listener without SASL"
            ) from error
        except (KafkaError, DecodeError) as error:
            raise NoBroker(f"{self} does not answer Metadata as a broker does: {error}") from error
        if len(ids) > 1:
            raise NoBroker(
                f"{self} is one of {len(ids)} brokers ({', '.join(map(str, ids))}): wire:// judges"
                " a broker that is alone, as it leads and coordinates all; start yours as a cluster"
                " of one"
            )

    def open_connection(self) -> BrokerConnection:
        """One more connection. Raises ConnectionLost."""
        return BrokerConnection(*self.address, timeout_ms=self._timeout_ms)

    def fresh(self, word: str) -> str:
        """A name that nobody had, nor in an earlier run."""
        return f"kafka-eos-{word}-{self._run}-{next(self._names)}"

    def topic(
        self,
        partitions: int = 1,
        *,
        on: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> list[TopicPartition]:
        """A new topic's partitions, which this broker leads; `on` is its id. Raises KafkaError."""
        name = self.fresh("topic")
        with self.open_connection() as connection:
            self._topics.append(name)
            create_topic(connection, name, partitions, replicas=self.replicas, configs=configs)
        return [(name, index) for index in range(partitions)]

    def close(self) -> None:
        """Delete the topics that were made here: what is judged is left as it was found. Where that
        cannot be done, it is said."""
        topics, self._topics = self._topics, []
        if not topics:
            return
        try:
            with self.open_connection() as connection:
                delete_topics(connection, topics)
        except (KafkaError, DecodeError) as error:
            note(f"{len(topics)} topics kafka-eos-topic-{self._run}-* stay at {self}: {error}")

    def inject(self, fault: str) -> None:
        """Do it, until the broker answers again. Raises LookupError where nothing is done to it."""
        raise LookupError(fault)

    def _ask_supported(self) -> Supported:
        """What it says of itself. Raises NoBroker, BackendFailed."""
        try:
            connection = self.open_connection()
        except ConnectionLost as error:
            raise NoBroker(
                f"nothing listens at {self} ({error}); start the broker, or name the address of its"
                " listener without TLS or SASL"
            ) from error
        try:
            with connection:
                return api_versions(connection)
        except AnswerTimeout as error:
            raise BackendFailed(
                f"{self} takes a connection but answers nothing: {error}"
            ) from error
        except (KafkaError, DecodeError) as error:
            raise NoBroker(
                f"what listens at {self} does not answer ApiVersions as a broker does: {error};"
                " name the address of a listener without TLS or SASL"
            ) from error
