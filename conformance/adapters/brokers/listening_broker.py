"""A broker that listens at some address, and the requests that a judge may send to it.

A broker that cannot be judged is bad use (`NoBroker`). If a broker accepts the connection and then
stays silent, the question stays open (`BackendFailed`).
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
"""The APIs without which nothing can be judged."""
OLDEST_PRODUCE: Final = 3
"""The first version whose batches have a producer id."""
NEWEST_PRODUCE: Final = 12
"""The last version that names topics by name."""
TELLS_LOG_START: Final = 5
"""The first version whose answer has the log start offset."""
NO_PRODUCERS: Final = "producer states: the broker does not offer DescribeProducers"


class NoBroker(BackendError):
    """No broker that can be judged listens at the address; the message says where, and what
    to do."""


def address_of(text: str) -> Address:
    """The address in `wire://HOST:PORT`; `impl.addresses` defines its form. Raises NoBroker."""
    try:
        return parse_address(text.removeprefix("wire://"))
    except InvalidAddress as error:
        raise NoBroker(
            f"{text!r} names no broker ({error}); write wire://HOST:PORT, as wire://localhost:9092"
        ) from None


class ListeningBroker:
    """A broker at an address, without faults. `timeout_ms` applies to each answer. `replicas` are
    the brokers on which its topics are placed, the leader first; empty for any placement.

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
        """The address of its listener."""
        return self._address

    @property
    def shows_producers(self) -> bool:
        """Whether it describes its producers."""
        return ApiKey.DESCRIBE_PRODUCERS in self.supported.versions

    @property
    def produce_version(self) -> int:
        """The newest version that both sides know; -1 if it is below OLDEST_PRODUCE."""
        oldest, newest = self.supported.versions.get(ApiKey.PRODUCE, (0, -1))
        version = min(newest, NEWEST_PRODUCE)
        return version if version >= max(oldest, OLDEST_PRODUCE) else -1

    @property
    def tells_log_start(self) -> bool:
        """Whether its answers to Produce have the log start offset."""
        return self.produce_version >= TELLS_LOG_START

    def check_alone(self) -> None:
        """Ask for Metadata, which names all brokers of a cluster; a listener with SASL does not
        answer it. Raises NoBroker, BackendFailed."""
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
        """Open one more connection. Raises ConnectionLost."""
        return BrokerConnection(*self.address, timeout_ms=self._timeout_ms)

    def fresh(self, word: str) -> str:
        """A name that was never used, not even by an earlier run."""
        return f"kafka-eos-{word}-{self._run}-{next(self._names)}"

    def topic(
        self,
        partitions: int = 1,
        *,
        on: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> list[TopicPartition]:
        """The partitions of a new topic, which this broker leads; `on` is its id. Raises
        KafkaError."""
        name = self.fresh("topic")
        with self.open_connection() as connection:
            self._topics.append(name)
            create_topic(connection, name, partitions, replicas=self.replicas, configs=configs)
        return [(name, index) for index in range(partitions)]

    def close(self) -> None:
        """Delete the topics that were made here, so that the broker is left as it was found. Prints
        a message if that fails."""
        topics, self._topics = self._topics, []
        if not topics:
            return
        try:
            with self.open_connection() as connection:
                delete_topics(connection, topics)
        except (KafkaError, DecodeError) as error:
            note(f"{len(topics)} topics kafka-eos-topic-{self._run}-* stay at {self}: {error}")

    def inject(self, fault: str) -> None:
        """Inject a fault, and wait until the broker answers again. Raises LookupError if it takes
        no faults."""
        raise LookupError(fault)

    def _ask_supported(self) -> Supported:
        """The versions that it supports. Raises NoBroker, BackendFailed."""
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
