"""The decisions of coordinators: the remaining records of `__transaction_state`.

The topic is compacted: it has the latest record of each transactional id, and all records of some
time before the end of the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from impl.coordinator.log_records import decode_key, decode_value
from impl.coordinator.states import PREPARED, TransactionState
from impl.protocol.errors import ProtocolError, UnknownRecordVersion
from impl.protocol.record_batch import CONTROL, check_crc, decode_batch, read_header

TOPIC: Final = "__transaction_state"

OUTCOMES: Final = {
    TransactionState.PREPARE_COMMIT: "COMMIT",
    TransactionState.PREPARE_ABORT: "ABORT",
}


class StateRecord(NamedTuple):
    """One record; `partitions` are those of the transaction that is open or being ended, each as
    (topic, partition). A transactional id that expired has state None."""

    transactional_id: str
    place: tuple[int, int]
    state: TransactionState | None
    producer_id: int = -1
    producer_epoch: int = -1
    partitions: frozenset[tuple[str, int]] = frozenset()
    timestamp: int = -1

    @property
    def outcome(self) -> str | None:
        """The decision, if the state is one."""
        return None if self.state is None else OUTCOMES.get(self.state)


def read_states(partition: int, segments: Iterable[memoryview]) -> Iterator[StateRecord]:
    """The records of a partition of the topic; unreadable ones are left out."""
    for data in segments:
        for batch in whole_batches(bytes(data)):
            for record in batch.records:
                offset = batch.base_offset + record.offset_delta
                state = state_record(record, (partition, offset))
                if state is not None:
                    yield state


def whole_batches(data: bytes) -> Iterator[Any]:
    """The batches of a segment that can be decoded, without control batches."""
    position = 0
    while position < len(data):
        try:
            header = read_header(data, position)
            check_crc(data, header, position)
            if not header.attributes & CONTROL:
                yield decode_batch(data, position)
        except ProtocolError:
            return
        position += header.size_bytes


def state_record(record: Any, place: tuple[int, int]) -> StateRecord | None:
    """A record as a state; None if it is not the state of a transactional id."""
    try:
        transactional_id = decode_key(record.key or b"")
        if record.value is None:
            return StateRecord(transactional_id, place, None)
        image = decode_value(record.value)
    except (ProtocolError, UnknownRecordVersion):
        return None
    return StateRecord(
        transactional_id,
        place,
        image.state,
        image.producer_id,
        image.producer_epoch,
        frozenset((at.topic, at.partition) for at in image.partitions),
        image.last_update_timestamp_ms,
    )


class CoordinatorLogs:
    """The content of the coordinators' logs, for the partitions of the topic that are present.

    `is_complete` if these partitions are numbered without a gap, and none of them is damaged or cut
    off. No log says how many partitions the topic has.
    """

    def __init__(
        self, records: Iterable[StateRecord], partitions: Collection[int], *, is_whole: bool = True
    ) -> None:
        """`is_whole`: each log could be read to its end."""
        self.is_there = len(partitions) > 0
        is_numbered = self.is_there and set(partitions) == set(range(max(partitions) + 1))
        self.is_complete = is_numbered and is_whole
        self.latest: dict[int, StateRecord] = {}
        """The latest record that names a producer id."""
        self._decided: dict[tuple[int, int], list[StateRecord]] = defaultdict(list)
        newest: dict[str, StateRecord] = {}
        for record in sorted(records, key=lambda one: one.place):
            newest[record.transactional_id] = record
            if record.outcome is not None:
                self._decided[record.producer_id, record.producer_epoch].append(record)
        for record in newest.values():
            if record.state is not None:
                self.latest[record.producer_id] = record

    @property
    def decisions(self) -> Mapping[tuple[int, int], list[StateRecord]]:
        """All decisions, by producer id and the epoch of their markers."""
        return self._decided

    def is_pending(self, decision: StateRecord) -> bool:
        """Whether its markers may still be under way."""
        latest = self.latest.get(decision.producer_id)
        return latest is not None and latest.place == decision.place and latest.state in PREPARED
