"""Probes: requests after a trace that distinguish states which the trace's answers do not.

1. A probe needs a coordinator at rest: an open transaction is aborted first.
2. Its requests are the model's, made for the producer that the coordinator knows now. It ends with
   a comparison of the observable state.
3. The last probe ends the transaction that it begins, so that none stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from conformance.adapters.impl.transactions.tables import TransactionTables
from model.language import Map

ROOM: Final = 8
"""The most batches that all endings append to a log."""
SPARE_PRODUCER_IDS: Final = 2
"""The most producer ids that the endings use."""
LAST_BATCHES: Final = 6
"""One more than leaders remember of a producer."""


def with_room(k: Any) -> Any:
    """The configuration with larger logs and more producer ids, on which nothing else depends."""
    bounds = k.bounds
    ids = bounds.producer_ids + SPARE_PRODUCER_IDS
    return replace(k, bounds=replace(bounds, log=bounds.log + ROOM, producer_ids=ids))


@dataclass(frozen=True, slots=True)
class Situation:
    """The model's world, and the producer that the coordinator knows."""

    tables: TransactionTables
    world: Any

    @property
    def leaders(self) -> Sequence[Any]:
        """The leaders, by partition."""
        leaders: Sequence[Any] = self.world.leaders.values()
        return leaders

    @property
    def metadata(self) -> Any:
        """The coordinator's metadata of the transactional id."""
        return self.world.coordinator.known.metadata

    @property
    def who(self) -> tuple[int, int]:
        """Producer id and epoch of the known producer."""
        return self.metadata.producer_id, self.metadata.producer_epoch

    @property
    def is_known(self) -> bool:
        """Whether the coordinator knows the transactional id."""
        return cast(str, self.metadata.state.name) != "ABSENT"

    @property
    def is_ongoing(self) -> bool:
        """Whether a transaction is open."""
        return cast(str, self.metadata.state.name) == "ONGOING"

    def partitions(self, *, of_group: bool = False) -> list[int]:
        """The partitions of data, or the partition of the group's offsets."""
        is_of_group, k = self.tables.model.messages.is_of_group, self.tables.k
        return [p for p in range(len(self.leaders)) if bool(is_of_group(k, p)) is of_group]

    def request(self, api: str, who: tuple[int, int], **more: Any) -> Any:
        """A request of the model with the fields that its API has."""
        messages = self.tables.model.messages
        given = {
            "partitions": Map.filled(len(self.leaders), False),
            "committed": False,
            "partition": 0,
            "batch": messages.NO_BATCH,
            "guard": messages.NO_OFFSET,
        }
        producer_id, producer_epoch = who
        return messages.Request(
            api=messages.Api[api],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            **(given | more),
        )

    def adding(self, api: str, partitions: Sequence[int]) -> Any:
        """AddPartitionsToTxn, or AddOffsetsToTxn."""
        there = tuple(p in partitions for p in range(len(self.leaders)))
        return self.request(api, self.who, partitions=Map(there))

    def writing(self, api: str, who: tuple[int, int], partition: int, sequence: int) -> Any:
        """Produce, or TxnOffsetCommit."""
        batch = self.tables.model.messages.Batch(
            producer_id=who[0],
            producer_epoch=who[1],
            base_sequence=sequence,
            instance=0,
            transaction=0,
            number=0,
        )
        return self.request(api, who, partition=partition, batch=batch)

    def next_sequence(self, partition: int) -> int:
        """The next sequence that the leader expects of the known producer."""
        producer_id, epoch = self.who
        entry = self.leaders[partition].producers[producer_id]
        last: int = entry.last_sequence
        return last + 1 if entry.producer_epoch == epoch else 0


Requests = Iterator[Any]
Probe = Callable[[Situation], Requests]


def settle(situation: Situation) -> Requests:
    """The next instance finds an open transaction, and has it aborted."""
    if situation.is_ongoing:
        yield situation.request("INIT_PRODUCER_ID", (-1, -1))


def old_epoch(situation: Situation) -> Requests:
    """A zombie writes, and commits."""
    producer_id, epoch = situation.who
    if epoch > 0:
        old = producer_id, epoch - 1
        for partition in situation.partitions():
            yield situation.writing("PRODUCE", old, partition, 0)
        yield situation.request("END_TXN", old, committed=True)


def duplicates(situation: Situation) -> Requests:
    """The last batches of each log, sent again."""
    for partition in situation.partitions():
        batches = [b for b in situation.leaders[partition].log if b.kind.name == "DATA"]
        for stored in dict.fromkeys(batches[-LAST_BATCHES:]):
            who = stored.producer_id, stored.producer_epoch
            yield situation.writing("PRODUCE", who, partition, stored.sequence)


def end_txn_again(situation: Situation) -> Requests:
    """A transaction that is over is committed, and aborted."""
    for committed in (True, False):
        yield situation.request("END_TXN", situation.who, committed=committed)


def next_transaction(situation: Situation) -> Requests:
    """A transaction that continues after the last sequences, and is aborted."""
    is_v2, data, groups = (
        situation.tables.is_v2,
        situation.partitions(),
        situation.partitions(of_group=True),
    )
    who, sequences = situation.who, {p: situation.next_sequence(p) for p in data}
    if not is_v2:
        yield situation.adding("ADD_PARTITIONS_TO_TXN", data)
    for partition in data:
        yield situation.writing("PRODUCE", who, partition, sequences[partition])
    for partition in groups:
        if not is_v2:
            yield situation.adding("ADD_OFFSETS_TO_TXN", [partition])
        yield situation.writing("TXN_OFFSET_COMMIT", who, partition, 0)
    yield situation.request("END_TXN", who, committed=False)


SETTLE: Final = "settle"
PROBES: Final[Mapping[str, Probe]] = {
    "probe_old_epoch": old_epoch,
    "probe_duplicates": duplicates,
    "probe_end_txn_again": end_txn_again,
    "probe_next_transaction": next_transaction,
}
"""The probes by name, in the order in which they are played."""
