"""Which broker is judged: one that listens somewhere, or one that is fetched, started and stopped.

Opening a broker that cannot be judged is bad use (`NoBroker`); one that takes the connection and
then says nothing leaves the question open (`BackendFailed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from conformance.backends import BackendError, BackendFailed
from conformance.kafka.admin import Supported, api_versions
from conformance.kafka.broker import KafkaBroker
from conformance.kafka.cluster import KafkaCluster
from conformance.kafka.connection import ANSWER_TIMEOUT_MS, BrokerConnection
from conformance.kafka.errors import AnswerTimeout, ConnectionLost, KafkaError
from conformance.systems.brokers.idempotent.judged_brokers import (
    Address,
    ListeningBroker,
    OneBroker,
    TwoReplicas,
)
from conformance.systems.brokers.idempotent.testbed_of_leaders import Broker
from impl import ApiKey, DecodeError
from proofs.java import JavaError

NEEDED = (ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.CREATE_TOPICS)
"""Without these there is nothing to judge."""

MAX_PORT = 2**16 - 1


class NoBroker(BackendError):
    """Nothing that can be judged listens there; the message says where, and what to do."""


def address_of(text: str) -> Address:
    """The address in `wire://HOST:PORT`; an IPv6 host stands in brackets. Raises NoBroker."""
    host, colon, port = text.removeprefix("wire://").rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise NoBroker(
            f"{text!r} names no broker; write wire://HOST:PORT, as wire://localhost:9092"
        )
    return host, int(port)


def running(text: str, timeout_ms: int = ANSWER_TIMEOUT_MS) -> Broker:
    """The broker at `wire://HOST:PORT`; `timeout_ms` is for each of its answers.

    Raises NoBroker, BackendFailed.
    """
    address = address_of(text)
    where = f"{address[0]}:{address[1]}"
    try:
        connection = BrokerConnection(*address, timeout_ms=timeout_ms)
    except ConnectionLost as error:
        raise NoBroker(
            f"nothing listens at {where} ({error}); start the broker, or name the address of its"
            " listener without TLS or SASL"
        ) from error
    with connection:
        supported = supported_by(connection, where)
    broker = Broker(ListeningBroker(address), supported, timeout_ms)
    missing = [api.name for api in NEEDED if api not in supported.versions]
    if missing or broker.produce_version < 0:
        raise NoBroker(f"{where} does not offer {', '.join(missing) or 'Produce 3 to 12'}")
    return broker


def supported_by(connection: BrokerConnection, where: str) -> Supported:
    """What a broker says of itself. Raises NoBroker, BackendFailed."""
    try:
        return api_versions(connection)
    except AnswerTimeout as error:
        raise BackendFailed(f"{where} takes a connection but answers nothing: {error}") from error
    except (KafkaError, DecodeError) as error:
        raise NoBroker(
            f"what listens at {where} does not answer ApiVersions as a broker does: {error};"
            " name the address of a listener without TLS or SASL"
        ) from error


@contextmanager
def started(release: str, level: int, nodes: int = 1) -> Iterator[Broker]:
    """Apache Kafka of that release, a broker or a cluster, stopped at the end. Raises NoBroker."""
    servers = (KafkaBroker if nodes == 1 else KafkaCluster)(release, level=level)
    try:
        servers.start()
    except (KafkaError, JavaError) as error:
        servers.close()
        raise NoBroker(str(error)) from error
    with servers:
        done = OneBroker(servers) if isinstance(servers, KafkaBroker) else TwoReplicas(servers)
        yield replace(running("wire://{}:{}".format(*done.address)), nodes=done)
