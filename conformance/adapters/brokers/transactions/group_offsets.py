"""A group whose offsets a trace commits: the model's view of it, and the server's.

1. All traces share the partition of the group's offsets. Of its log only the batches of a trace's
   own producers count, and offsets are indices among these batches.
2. A committed offset is a number that stands for a record of the model.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.reading import (
    Fetched,
    ObservedOffset,
    OffsetRecord,
    offset_records,
    see,
)
from conformance.adapters.impl.transactions.messages import UNSTABLE
from conformance.adapters.impl.transactions.tables import TransactionTables
from conformance.judging.system import Many, Shape, View
from impl.protocol.errors import ErrorCode

GROUP_SHOWN: Final[Mapping[str, Shape]] = {
    "log": Many(dict.fromkeys(("kind", "producer_id", "producer_epoch", "record"))),
    "producers": Many(
        dict.fromkeys(
            ("producer_id", "producer_epoch", "coordinator_epoch", "current_txn_first_offset")
        )
    ),
    "committed": None,
    "stable": None,
}
"""The values that Fetch and DescribeProducers show of the group's partition, and that OffsetFetch
shows of the group, without and with `require_stable`."""

NOTHING: Final = -1
_BASE: Final = 100
"""More than the instances, transactions, or records of any scope."""

Record = tuple[int, int, int]
"""Instance, transaction, number."""


class Entry(NamedTuple):
    """A batch of the trace in the group's partition."""

    offset: int
    kind: str
    producer_id: int
    producer_epoch: int
    record: Record | None


def offset_of(record: Record) -> int:
    """The offset that stands for a record; later records of an instance have larger offsets."""
    instance, transaction, number = record
    return (instance * _BASE + transaction) * _BASE + number


def record_of(offset: int) -> Record:
    """The record that an offset stands for."""
    rest, number = divmod(offset, _BASE)
    return (*divmod(rest, _BASE), number)


def group_shown(tables: TransactionTables, leader: Any) -> View:
    """The view of the model's group, shaped as GROUP_SHOWN."""
    log, producers, *_, offsets = tables.view_of("group", tables.node(leader))
    committed, stable, _ = offsets
    return (
        tuple((kind, who, epoch, record) for kind, who, epoch, _, record in log),
        tuple(
            (who, epoch, coordinator_epoch, first)
            for who, (epoch, coordinator_epoch, _, _, first) in enumerate(producers)
            if epoch != NOTHING
        ),
        committed,
        stable,
    )


def entries(fetched: Fetched, producer_ids: Container[int]) -> Iterator[Entry]:
    """The batches of some producers in the log of the group's partition."""
    for batch in fetched.batches:
        if batch.producer_id not in producer_ids:
            continue
        who = batch.producer_id, batch.producer_epoch
        if batch.is_control:
            yield Entry(batch.base_offset, str(see(batch).marker), *who, None)
            continue
        for row in offset_records(replace(fetched, batches=(batch,))):
            assert isinstance(row, OffsetRecord), "it is no control batch"
            offset = NOTHING if row.committed_offset is None else row.committed_offset
            yield Entry(batch.base_offset, "DATA", *who, record_of(offset))


def told(seen: Mapping[TopicPartition, ObservedOffset], source: TopicPartition) -> View:
    """The answer of OffsetFetch about the source's offset, in the model's form."""
    row = seen[source]
    if row.error is not ErrorCode.NONE:
        return UNSTABLE if row.error is ErrorCode.UNSTABLE_OFFSET_COMMIT else row.error.name
    return None if row.committed_offset == NOTHING else record_of(row.committed_offset)
