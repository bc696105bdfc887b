"""Logs with planted defects: exactly these an audit must find.

`PLANTS` has a function for each kind. It writes a few batches of new producers that show the kind,
or, with `broken=False`, the same batches without the defect. Segments, batches and the
coordinators' log have the form in which a broker writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from typing import Final, NamedTuple

from conformance.audit.decisions import TOPIC
from conformance.audit.partition_audit import DAY_MS
from impl.coordinator.config import TransactionConfig
from impl.coordinator.log_records import encode_key, encode_value
from impl.coordinator.metadata import TopicPartition, TransactionImage
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.coordinator.states import TransactionState
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.record_batch import (
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    Record,
    RecordBatch,
    assemble_batch,
    encode_batch,
)
from impl.protocol.records import encode_record

SEGMENT_BYTES: Final = 256 << 20
NEWEST: Final = 1_750_000_000_000
"""The time at which the logs begin, in ms."""
TOPIC_OF_PLANTS: Final = "planted"
OTHER: Final = "planted-too"

State = TransactionState


class PlantedFinding(NamedTuple):
    """A finding that an audit must have."""

    kind: str
    topic: str
    partition: int
    offset: int


class PlantedPartition:
    """One partition that is being written; a segment ends when it is full."""

    def __init__(self, folder: Path, clock: PlantedClock, first_offset: int = 0) -> None:
        self.topic, _, number = folder.name.rpartition("-")
        self.number = int(number)
        self.end_offset = first_offset
        self._folder, self._clock = folder, clock
        self._file: BufferedWriter | None = None

    @property
    def at(self) -> TopicPartition:
        """The name of the partition."""
        return TopicPartition(self.topic, self.number)

    def write(self, batch: bytes, offsets: int) -> int:
        """Append bytes that take this many offsets; returns the first of them."""
        if self._file is None or self._file.tell() + len(batch) > SEGMENT_BYTES:
            self.close()
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = (self._folder / f"{self.end_offset:020}.log").open("wb")
        self._file.write(batch)
        base_offset, self.end_offset = self.end_offset, self.end_offset + offsets
        return base_offset

    def data(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        *,
        records: int = 1,
        in_transaction: bool = False,
        payload: tuple[bytes, ...] = (),
        change: bytes = b"",
    ) -> int:
        """Write a batch of some records; returns its base offset. `change` replaces the bytes at
        its end, and leaves the checksum unchanged."""
        now = self._clock.tick()
        written = payload or tuple(
            encode_record(number, 0, None, b"planted", ()) for number in range(records)
        )
        batch = assemble_batch(
            written,
            base_timestamp=now,
            max_timestamp=now,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL if in_transaction else 0,
            base_offset=self.end_offset,
            partition_leader_epoch=0,
            last_offset_delta=records - 1,
        )
        return self.write(batch[: len(batch) - len(change)] + change, records)

    def marker(self, producer_id: int, epoch: int, outcome: str = "COMMIT") -> int:
        """Write the end of a transaction; returns its offset."""
        marker = marker_batch(
            EndTransactionMarker(ControlType[outcome], 0),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=self._clock.tick(),
        )
        return self.write(encode_batch(marker._replace(base_offset=self.end_offset)), 1)

    def keyed(self, key: bytes, value: bytes | None) -> int:
        """Write a record of an internal topic; returns its offset."""
        now = self._clock.tick()
        batch = RecordBatch(
            records=(Record(0, now, key, value),),
            base_offset=self.end_offset,
            base_timestamp=now,
            max_timestamp=now,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
        )
        return self.write(encode_batch(batch), 1)

    def remove(self, offsets: int) -> None:
        """Remove offsets, as compaction does."""
        self.end_offset += offsets

    def close(self) -> None:
        """End the segment."""
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass(slots=True)
class PlantedClock:
    """A clock that advances with each batch, in ms."""

    now: int = NEWEST

    def tick(self, ms: int = 1) -> int:
        """Advance the clock by this many ms."""
        self.now += ms
        return self.now


@dataclass(slots=True)
class PlantedCluster:
    """The logs of a cluster, with the findings that an audit must have; with `logs_states`, also
    the logs of its coordinator."""

    directory: Path
    logs_states: bool = True
    clock: PlantedClock = field(default_factory=PlantedClock)
    expected: list[PlantedFinding] = field(default_factory=list)
    _partitions: dict[tuple[str, int], PlantedPartition] = field(default_factory=dict)
    _producers: int = 0

    def partition(
        self, topic: str = TOPIC_OF_PLANTS, number: int = 0, first_offset: int = 0
    ) -> PlantedPartition:
        """A partition; it is made at its first use."""
        key = (topic, number)
        if key not in self._partitions:
            folder = self.directory / f"{topic}-{number}"
            self._partitions[key] = PlantedPartition(folder, self.clock, first_offset)
        return self._partitions[key]

    def producer_id(self) -> int:
        """An unused producer id."""
        self._producers += 1
        return self._producers

    def expect(self, kind: str, log: PlantedPartition, offset: int) -> None:
        """Note a finding that an audit must have."""
        self.expected.append(PlantedFinding(kind, log.topic, log.number, offset))

    def state(
        self,
        producer_id: int,
        epoch: int,
        state: TransactionState,
        *partitions: PlantedPartition,
    ) -> None:
        """Write a record of the coordinator."""
        if not self.logs_states:
            return
        image = TransactionImage(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_timeout_ms=60_000,
            state=state,
            partitions=frozenset(log.at for log in partitions),
            start_timestamp_ms=self.clock.now,
            last_update_timestamp_ms=self.clock.tick(),
        )
        value = encode_value(image, TransactionConfig())
        self.partition(TOPIC).keyed(encode_key(f"id-{producer_id}"), value)

    def end(self, producer_id: int, epoch: int, outcome: str, *logs: PlantedPartition) -> None:
        """End a transaction as a coordinator does; `epoch` is that of the markers."""
        commits = outcome == "COMMIT"
        self.state(producer_id, epoch, prepared(commits), *logs)
        for log in logs:
            log.marker(producer_id, epoch, outcome)
        self.state(producer_id, epoch, completed(commits))

    def close(self) -> None:
        """Write everything that is left."""
        for log in self._partitions.values():
            log.close()


def prepared(commits: bool) -> TransactionState:
    """The state that prepares this decision."""
    return State.PREPARE_COMMIT if commits else State.PREPARE_ABORT


def completed(commits: bool) -> TransactionState:
    """The state after it is complete."""
    return State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT


# The plants

Plant = Callable[[PlantedCluster, PlantedPartition, bool], None]


def plant_gap(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Sequence 1 is missing."""
    producer_id = cluster.producer_id()
    log.data(producer_id, 0, 0)
    if not broken:
        log.data(producer_id, 0, 1)
    offset = log.data(producer_id, 0, 2)
    log.data(producer_id, 0, 3)
    if broken:
        cluster.expect("gap", log, offset)


def plant_duplicate(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Sequence 1 is stored twice."""
    producer_id = cluster.producer_id()
    for sequence in range(3):
        log.data(producer_id, 0, sequence)
    if broken:
        cluster.expect("duplicate", log, log.data(producer_id, 0, 1))
    log.data(producer_id, 0, 3)


def plant_old_duplicate(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Sequence 1 is stored twice, more than five batches apart: no leader recognises the
    duplicate."""
    producer_id = cluster.producer_id()
    for sequence in range(8):
        log.data(producer_id, 0, sequence)
    if broken:
        cluster.expect("duplicate", log, log.data(producer_id, 0, 1))
    log.data(producer_id, 0, 8)


def plant_order(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Sequence 2 overtakes sequence 1."""
    producer_id = cluster.producer_id()
    for sequence in (0, 2, 1, 3) if broken else (0, 1, 2, 3):
        offset = log.data(producer_id, 0, sequence)
        if broken and sequence == 1:
            cluster.expect("order", log, offset)


def plant_epoch_back(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A batch of epoch 0 after one of epoch 1."""
    producer_id = cluster.producer_id()
    log.data(producer_id, 0, 0)
    log.data(producer_id, 1, 0)
    if broken:
        cluster.expect("epoch_back", log, log.data(producer_id, 0, 1))
    log.data(producer_id, 1, 1)


def plant_late(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A record after the marker that ended its transaction."""
    producer_id = cluster.producer_id()
    cluster.state(producer_id, 0, State.ONGOING, log)
    log.data(producer_id, 0, 0, in_transaction=True)
    if not broken:
        log.data(producer_id, 0, 1, in_transaction=True)
    cluster.end(producer_id, 1, "COMMIT", log)
    if broken:
        cluster.expect("late", log, log.data(producer_id, 0, 1, in_transaction=True))


def plant_late_marker(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A marker of epoch 1 in the transaction of epoch 2."""
    producer_id = cluster.producer_id()
    for epoch in (0, 1, 2):
        cluster.state(producer_id, epoch, State.ONGOING, log)
        log.data(producer_id, epoch, 0, in_transaction=True)
        if broken and epoch == 2:
            cluster.expect("late_marker", log, log.marker(producer_id, 1, "ABORT"))
        cluster.end(producer_id, epoch + 1, "COMMIT", log)


def plant_hanging(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A record of the next transaction of its epoch, which the coordinator does not know."""
    producer_id = cluster.producer_id()
    cluster.state(producer_id, 0, State.ONGOING, log)
    log.data(producer_id, 0, 0, in_transaction=True)
    cluster.end(producer_id, 0, "ABORT", log)
    if not broken:
        cluster.state(producer_id, 0, State.ONGOING, log)
    offset = log.data(producer_id, 0, 1, in_transaction=True)
    cluster.expect("hanging" if broken else "in_progress", log, offset)


def plant_torn(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """One partition commits, the other aborts; both markers have the transaction's own epoch."""
    producer_id, other = cluster.producer_id(), cluster.partition(OTHER, log.number)
    cluster.state(producer_id, 0, State.ONGOING, log, other)
    log.data(producer_id, 0, 0, in_transaction=True)
    offset = other.data(producer_id, 0, 0, in_transaction=True)
    cluster.state(producer_id, 1, State.PREPARE_COMMIT, log, other)
    log.marker(producer_id, 1, "COMMIT")
    other.marker(producer_id, 1, "ABORT" if broken else "COMMIT")
    cluster.state(producer_id, 1, State.COMPLETE_COMMIT)
    if broken:
        cluster.expect("torn", other, offset)


def plant_torn_of_shared_epoch(
    cluster: PlantedCluster, log: PlantedPartition, broken: bool
) -> None:
    """The second of three transactions of one epoch; only the coordinator's log tells."""
    producer_id, other = cluster.producer_id(), cluster.partition(OTHER, log.number)
    for sequence, outcome in enumerate(("COMMIT", "COMMIT", "ABORT")):
        cluster.state(producer_id, 0, State.ONGOING, log, other)
        offsets = [one.data(producer_id, 0, sequence, in_transaction=True) for one in (log, other)]
        commits = outcome == "COMMIT"
        cluster.state(producer_id, 0, prepared(commits), log, other)
        log.marker(producer_id, 0, outcome)
        is_torn = broken and sequence == 1
        other.marker(producer_id, 0, "ABORT" if is_torn else outcome)
        for one in (log, other) if sequence > 0 else ():
            cluster.expect("shared_epoch", one, one.end_offset - 1)
        cluster.state(producer_id, 0, completed(commits))
        if is_torn:
            cluster.expect("torn", other, offsets[1])


def plant_skipped_marker(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A partition of a committed transaction gets no marker (KAFKA-20734)."""
    other = cluster.partition(OTHER, log.number)
    commit_with_markers(cluster, (log, other), other if broken else None)


def plant_skipped_then_ended(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A marker is skipped, and the marker of the next transaction ends the records of both."""
    other = cluster.partition(OTHER, log.number)
    producer_id = commit_with_markers(cluster, (log, other), other if broken else None)
    cluster.state(producer_id, 1, State.ONGOING, other)
    other.data(producer_id, 1, 0, in_transaction=True)
    cluster.end(producer_id, 2, "ABORT", other)


def commit_with_markers(
    cluster: PlantedCluster,
    logs: tuple[PlantedPartition, ...],
    skipped: PlantedPartition | None,
) -> int:
    """A producer id whose transaction commits at all partitions, or at all but one, which is torn
    then."""
    producer_id = cluster.producer_id()
    cluster.state(producer_id, 0, State.ONGOING, *logs)
    offsets = {log: log.data(producer_id, 0, 0, in_transaction=True) for log in logs}
    cluster.state(producer_id, 1, State.PREPARE_COMMIT, *logs)
    for log in logs:
        if log is not skipped:
            log.marker(producer_id, 1, "COMMIT")
    cluster.state(producer_id, 1, State.COMPLETE_COMMIT)
    if skipped is not None:
        cluster.expect("torn", skipped, offsets[skipped])
    return producer_id


def plant_torn_offsets(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A transaction's records are committed, but the offsets of its group are not."""
    producer_id, offsets = cluster.producer_id(), cluster.partition(OFFSETS_TOPIC)
    cluster.state(producer_id, 0, State.ONGOING, log, offsets)
    log.data(producer_id, 0, 0, in_transaction=True)
    offset = offsets.data(producer_id, 0, 0, in_transaction=True)
    offsets.data(producer_id, 0, 0, in_transaction=True)
    cluster.state(producer_id, 1, State.PREPARE_COMMIT, log, offsets)
    log.marker(producer_id, 1, "COMMIT")
    offsets.marker(producer_id, 1, "ABORT" if broken else "COMMIT")
    cluster.state(producer_id, 1, State.COMPLETE_COMMIT)
    if broken:
        cluster.expect("torn", offsets, offset)


def plant_flipped_bit(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A byte of a batch has changed; the producer's next batches are not blamed."""
    producer_id = cluster.producer_id()
    log.data(producer_id, 0, 0)
    if not broken:
        log.data(producer_id, 0, 1)
    else:
        offset = log.data(producer_id, 0, 1, change=b"pl4nted")
        cluster.expect("crc", log, offset)
    offset = log.data(producer_id, 0, 2)
    for kind in ("missing_offsets", "may_be_compacted") if broken else ():
        cluster.expect(kind, log, offset)


def plant_wrap(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Sequences wrap within a batch."""
    producer_id = cluster.producer_id()
    last = MAX_SEQUENCE if broken else MAX_SEQUENCE - 5
    cluster.expect("unknown_first", log, log.data(producer_id, 0, last - 3, records=3))
    offset = log.data(producer_id, 0, last, records=2)
    log.data(producer_id, 0, (last + 2) & MAX_SEQUENCE)
    if broken:
        cluster.expect("wrap", log, offset)


def plant_compacted(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Compaction took two batches."""
    producer_id, compacted = cluster.producer_id(), cluster.partition("compacted", log.number)
    compacted.data(producer_id, 0, 0)
    if broken:
        compacted.remove(2)
    else:
        compacted.data(producer_id, 0, 1, records=2)
    offset = compacted.data(producer_id, 0, 3)
    for kind in ("missing_offsets", "may_be_compacted") if broken else ():
        cluster.expect(kind, compacted, offset)


def plant_deleted(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Retention took the head of a log, and the first batches of its producer."""
    producer_id, number = cluster.producer_id(), cluster.producer_id()
    begin = 1_000 if broken else 0
    deleted = cluster.partition("deleted", number, begin)
    deleted.data(producer_id, 0, begin)
    deleted.data(producer_id, 0, begin + 1)
    for kind, offset in (("deleted_head", 0), ("unknown_first", begin)) if broken else ():
        cluster.expect(kind, deleted, offset)


def plant_forgotten(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Sequences are missing after two days."""
    producer_id = cluster.producer_id()
    log.data(producer_id, 0, 0)
    cluster.clock.tick(2 * DAY_MS)
    offset = log.data(producer_id, 0, 5 if broken else 1)
    if broken:
        cluster.expect("may_be_forgotten", log, offset)


def plant_empty(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """A marker ends a transaction that wrote nothing here."""
    producer_id = cluster.producer_id()
    cluster.state(producer_id, 0, State.ONGOING, log)
    if not broken:
        log.data(producer_id, 0, 0, in_transaction=True)
    offset = log.end_offset
    cluster.end(producer_id, 1, "COMMIT", log)
    if broken:
        cluster.expect("marker_without_data", log, offset)


def plant_shared_epoch(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Two transactions of one epoch."""
    producer_id = cluster.producer_id()
    for number in range(2):
        epoch = 0 if broken else number
        cluster.state(producer_id, epoch, State.ONGOING, log)
        log.data(producer_id, epoch, number if broken else 0, in_transaction=True)
        offset = log.end_offset
        cluster.end(producer_id, epoch if broken else epoch + 1, "COMMIT", log)
    if broken:
        cluster.expect("shared_epoch", log, offset)


def plant_overlap(cluster: PlantedCluster, log: PlantedPartition, broken: bool) -> None:
    """Two batches have one offset."""
    log.data(cluster.producer_id(), 0, 0)
    if broken:
        log.end_offset -= 1
    offset = log.data(cluster.producer_id(), 0, 0)
    if broken:
        cluster.expect("overlap", log, offset)


PLANTS: Final[Mapping[str, Plant]] = {
    "gap": plant_gap,
    "duplicate": plant_duplicate,
    "old_duplicate": plant_old_duplicate,
    "order": plant_order,
    "epoch_back": plant_epoch_back,
    "late": plant_late,
    "late_marker": plant_late_marker,
    "hanging": plant_hanging,
    "torn": plant_torn,
    "torn_of_shared_epoch": plant_torn_of_shared_epoch,
    "skipped_marker": plant_skipped_marker,
    "skipped_then_ended": plant_skipped_then_ended,
    "torn_offsets": plant_torn_offsets,
    "flipped_bit": plant_flipped_bit,
    "wrap": plant_wrap,
    "compacted": plant_compacted,
    "deleted": plant_deleted,
    "forgotten": plant_forgotten,
    "empty": plant_empty,
    "shared_epoch": plant_shared_epoch,
    "overlap": plant_overlap,
}
