"""The names of topics, values and clients in the load.

A value names its writer: `LIBRARY/ROLE/INSTANCE/NUMBER`. An instance is one producer from its start
to its end. Numbers increase within an instance, and instances increase, too. Records of a
transaction have one number, followed by their place in it: `.../NUMBER.PLACE`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TOPIC: Final = "records"
PARTITIONS: Final = 4
OUTPUT_PARTITIONS: Final = 2
SEGMENT_BYTES: Final = 1 << 18

RECORDS_IN_TRANSACTION: Final = 3
ABORTED_OF_TEN: Final = 3
"""This many of ten transactions are aborted, at random."""
TRANSACTION_TIMEOUT_MS: Final = 5_000
"""A short time-out, because a transaction that a client leaves open stops the readers of committed
records."""

SESSION_TIMEOUT_MS: Final = 2_500
HEARTBEAT_INTERVAL_MS: Final = 300
MEMBERS: Final = 2
"""The members of each group that only reads."""

MOST_RECORDS: Final = 100
"""The most records that a consumer receives at once, and that one transaction transforms."""

IDEMPOTENT: Final = "idempotent"
TRANSACTIONAL: Final = "transactional"
GROUP: Final = "group"
CONSUMER_GROUP: Final = "consumer_group"
"""The protocol of KIP-848."""
PROCESSING: Final = "processing"
"""Consume, transform, produce."""

GROUP_ROLES: Final = (GROUP, CONSUMER_GROUP, PROCESSING)
CLASSIC_ROLES: Final = (IDEMPOTENT, TRANSACTIONAL, GROUP, PROCESSING)
LIBRARIES: Final = {
    "own": (*CLASSIC_ROLES, CONSUMER_GROUP),
    "confluent": (*CLASSIC_ROLES, CONSUMER_GROUP),
    "kafka_python": CLASSIC_ROLES,
    "asyncio_kafka": CLASSIC_ROLES,
}
"""The roles of each library: ours, confluent-kafka (librdkafka), kafka-python and aiokafka."""


class Delivered(NamedTuple):
    """A record as a consumer receives it."""

    partition: int
    offset: int
    value: str


def output_topic(library: str) -> str:
    """The topic to which a library writes its results."""
    return f"output-{library}"


def group_id(library: str, role: str) -> str:
    """The group of a library's readers."""
    return f"{library}-{role}"


def transformed(record: Delivered) -> str:
    """The result for a record."""
    return f"{record.partition}:{record.offset}:{record.value}"
