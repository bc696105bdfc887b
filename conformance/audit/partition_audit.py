"""The audit of one partition: its findings, and the ends of its transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from conformance.audit.decisions import TOPIC, StateRecord, read_states
from conformance.audit.fold import Folded, RefusedRow, fold, is_ahead, is_unknown
from conformance.audit.headers import ROW, Rows, SegmentBatches, read_batches
from conformance.audit.kinds import AuditFinding
from conformance.audit.leader_rules import UNKNOWN, Columns, Rules
from conformance.audit.segments import PartitionSource
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.protocol.control_records import ControlType
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import CONTROL, MAX_SEQUENCE, NO_SEQUENCE
from model.idempotent.messages import Error

DAY_MS: Final = 86_400_000

OUTCOMES: Final = {kind.value: kind.name for kind in (ControlType.ABORT, ControlType.COMMIT)}


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The assumptions of an audit; times in ms, as in the brokers' properties."""

    release: str
    producer_expiration_ms: int = DAY_MS
    max_transaction_ms: int = 900_000
    is_live: bool = False
    """Brokers were running while their logs were read, so the logs are not of one moment."""


class TransactionEnd(NamedTuple):
    """The end of a transaction at a partition; without `outcome`, an open transaction.

    `first_offset` is -1 if a marker ended nothing. `behind` is the offset of a marker of the same
    epoch that comes before an open transaction, -1 if there is none.
    """

    producer_id: int
    producer_epoch: int
    marker_epoch: int
    outcome: str | None
    first_offset: int
    offset: int
    first_timestamp: int
    timestamp: int
    behind: int = -1

    @property
    def has_own_epoch(self) -> bool:
        """Whether the marker's epoch is newer than the records': then it ended no other
        transaction."""
        return self.outcome is not None and self.marker_epoch > self.producer_epoch


UNREADABLE: Final = frozenset({"crc", "damaged", "truncated_tail"})
"""Findings that may hide further ones in the unreadable part."""


class PartitionAudit(NamedTuple):
    """The result of the audit of one partition."""

    topic: str
    partition: int
    bytes: int
    segments: int
    replicas: int
    batches: int
    records: int
    producers: int
    first_offset: int
    end_offset: int
    newest_timestamp: int
    findings: tuple[AuditFinding, ...]
    endings: tuple[TransactionEnd, ...]
    states: tuple[StateRecord, ...] = ()

    @property
    def is_damaged(self) -> bool:
        """Whether some of its batches are unreadable."""
        return any(finding.kind in UNREADABLE for finding in self.findings)


def audit_partition(log: PartitionSource, settings: AuditSettings) -> PartitionAudit:
    """Read a partition and audit it. Raises OSError.

    The coordinator writes the offsets that a transaction commits, and does not number these
    batches: each has base sequence 0 (`CoordinatorRuntime`), and no leader checks it
    (`AppendOrigin.COORDINATOR`).
    """
    segments = [read_batches(data) for data in log.read()]
    rows = np.concatenate([segment.rows for segment in segments]) if segments else np.empty(0, ROW)
    if log.topic == OFFSETS_TOPIC:
        rows["base_sequence"] = NO_SEQUENCE
    folded = fold(rows, Rules(settings.release))
    judge = PartitionJudge(log, settings, rows, folded)
    findings = (*judge.of_files(segments), *judge.of_offsets(), *judge.of_producers())
    return PartitionAudit(
        topic=log.topic,
        partition=log.partition,
        bytes=log.bytes,
        segments=len(segments),
        replicas=log.replicas,
        batches=len(rows),
        records=int(rows["record_count"].sum()),
        producers=len(np.unique(folded.rows["producer_id"])),
        first_offset=int(rows["base_offset"][0]) if len(rows) else 0,
        end_offset=judge.end_offset,
        newest_timestamp=int(rows["max_timestamp"].max(initial=-1)),
        findings=tuple(sorted(findings, key=lambda f: (f.offset, f.kind))),
        endings=tuple(judge.endings()),
        states=tuple(read_states(log.partition, log.read())) if log.topic == TOPIC else (),
    )


class PartitionJudge:
    """The findings in the rows of one partition."""

    def __init__(
        self, log: PartitionSource, settings: AuditSettings, rows: Rows, folded: Folded
    ) -> None:
        self._log, self._settings = log, settings
        self._rules = Rules(settings.release)
        self._rows, self._folded = rows, folded
        last = rows["base_offset"] + rows["last_offset_delta"]
        self._missing = np.append(rows["base_offset"], last[-1:] + 1) - np.append(
            rows["base_offset"][:1], last + 1
        )
        """Offsets that are missing before each row; negative if some offsets are given twice."""
        self._missing_before = np.cumsum(np.maximum(self._missing, 0))
        self.end_offset = int(last[-1]) + 1 if len(rows) else 0

    def _finding(self, kind: str, offset: int, **more: Any) -> AuditFinding:
        return AuditFinding(kind, self._log.topic, self._log.partition, int(offset), **more)

    # Files

    def of_files(self, segments: list[SegmentBatches]) -> Iterator[AuditFinding]:
        """Findings about files: checksums, unreadable parts, batches of older formats."""
        for number, (name, segment) in enumerate(zip(self._log.segments, segments, strict=True)):
            for offset, position in segment.corrupt:
                where = {"segment": name, "position": position}
                yield self._finding("crc", offset, details=where)
            place = segment.damaged_at if segment.torn_off_at is None else segment.torn_off_at
            if place is not None:
                is_tail = segment.torn_off_at is not None and number == len(segments) - 1
                yield self._finding(
                    "truncated_tail" if is_tail else "damaged",
                    self._end_of(segment, name),
                    details={"segment": name, "position": place},
                )
        if older := sum(segment.older_batches for segment in segments):
            yield self._finding("older_format", 0, places=older)

    @staticmethod
    def _end_of(segment: SegmentBatches, name: str) -> int:
        """The offset after the readable part."""
        if not len(segment.rows):
            return int(Path(name).stem)
        last = segment.rows[-1]
        return int(last["base_offset"] + last["last_offset_delta"]) + 1

    # Offsets

    def of_offsets(self) -> Iterator[AuditFinding]:
        """Findings about offsets: missing at the head, between batches and in them; offsets that go
        back."""
        rows = self._rows
        if not len(rows):
            return
        if rows["base_offset"][0] > 0:
            yield self._finding("deleted_head", 0, details={"begins": int(rows["base_offset"][0])})
        for number in np.flatnonzero(self._missing < 0):
            yield self._finding("overlap", rows["base_offset"][number])
        within = (rows["attributes"] & CONTROL == 0) * (
            rows["last_offset_delta"] + 1 - rows["record_count"]
        )
        places = np.flatnonzero((self._missing[:-1] > 0) | (within > 0))
        if len(places):
            total = int(self._missing_before[-1] + np.maximum(within, 0).sum())
            yield self._finding(
                "missing_offsets",
                rows["base_offset"][places[0]],
                details={"offsets": total},
                places=len(places),
            )

    # Producers

    def of_producers(self) -> Iterator[AuditFinding]:
        """Findings about producers: batches that the model's rules refuse, and accepted ones worth
        a remark."""
        counted = Counter[str]()
        first = dict[str, AuditFinding]()
        for refused in self._folded.refused:
            finding = self._of_refused(refused)
            if finding.kind == "gap" and self._is_filled(refused, **finding.details):
                continue  # a late batch is a finding at its place
            if finding.kind in SUMMED:
                counted[finding.kind] += 1
                first.setdefault(finding.kind, finding)
            else:
                yield finding
        for kind, count in counted.items():
            yield first[kind]._replace(places=count)
        yield from self._of_taken()

    def _of_refused(self, refused: RefusedRow) -> AuditFinding:
        batch = refused.batch
        kind, details = kind_of(self, refused)
        place = {} if batch.is_marker else {"base_sequence": batch.base_sequence}
        return self._finding(
            kind,
            batch.base_offset,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            details={**place, **details},
        )

    def _is_filled(
        self, refused: RefusedRow, expected_sequence: int, missing_sequences: int, **_: Any
    ) -> bool:
        """Whether the missing sequences come later."""
        rows, begin = self._folded.rows, refused.number + 1
        end = int(np.searchsorted(rows["producer_id"], refused.batch.producer_id, "right"))
        part = slice(begin, end)
        distance = (rows["base_sequence"][part] - expected_sequence) & MAX_SEQUENCE
        fills = (distance < missing_sequences) & (rows["control_type"][part] < 0)
        fills &= rows["producer_epoch"][part] == refused.batch.producer_epoch
        return int((rows["last_offset_delta"][part][fills] + 1).sum()) >= missing_sequences

    def missing_offsets_before(self, refused: RefusedRow) -> int:
        """Offsets missing between a batch and the producer's batch before it.

        If no earlier batch of its epoch is left, they are counted from the producer's last row of
        another epoch, or from the beginning: compaction leaves markers whose data is gone.
        """
        batches = refused.state.of_sequences.batches
        if batches:
            before = batches[-1].last_offset - batches[-1].offset_delta
        else:
            before = self._end_of_other_epochs(refused)
        offsets = self._rows["base_offset"]
        here, there = np.searchsorted(offsets, [refused.batch.base_offset, before])
        head = int(offsets[0]) if before < 0 else -int(self._missing_before[there])
        return int(self._missing_before[here]) + head

    def _end_of_other_epochs(self, refused: RefusedRow) -> int:
        """The offset of the producer's last row of another epoch before this one, -1 if there is
        none."""
        rows, batch = self._folded.rows, refused.batch
        begin = int(np.searchsorted(rows["producer_id"], batch.producer_id))
        part = slice(begin, refused.number)
        others = rows["base_offset"][part][rows["producer_epoch"][part] != batch.producer_epoch]
        return int(others[-1]) if len(others) else -1

    def is_behind_missing_offsets(self, refused: RefusedRow) -> bool:
        """Whether the producer's earlier batches may be among deleted or missing ones."""
        number = int(np.searchsorted(self._rows["base_offset"], refused.batch.base_offset))
        return bool(self._rows["base_offset"][0] > 0 or self._missing_before[number] > 0)

    def pause_ms(self, refused: RefusedRow) -> int:
        """How long the producer had written nothing before."""
        if not refused.number:
            return 0
        before = int(self._folded.rows["max_timestamp"][refused.number - 1])
        return refused.batch.max_timestamp - before

    def original_of(self, refused: RefusedRow) -> int | None:
        """The offset of an earlier batch with these sequences."""
        rows, batch, end = self._folded.rows, refused.batch, refused.number
        begin = int(np.searchsorted(rows["producer_id"], batch.producer_id))
        same = np.ones(end - begin, bool)
        for name in ("producer_epoch", "base_sequence", "last_offset_delta"):
            same &= rows[name][begin:end] == getattr(batch, name)
        found = np.flatnonzero(same & (rows["control_type"][begin:end] < 0))
        return int(rows["base_offset"][begin + found[0]]) if len(found) else None

    def accepts(self, refused: RefusedRow) -> bool:
        """Whether a leader that has forgotten the producer accepts the batch."""
        return not self._rules.check(UNKNOWN, refused.batch)

    def is_forgotten(self, refused: RefusedRow) -> bool:
        """Whether brokers may have forgotten the producer meanwhile."""
        long_ago = self.pause_ms(refused) >= self._settings.producer_expiration_ms
        return long_ago and self.accepts(refused)

    def sequence_after(self, refused: RefusedRow) -> int:
        """The sequence that was expected."""
        same = refused.batch.producer_epoch == refused.state.of_transactions.producer_epoch
        return self._rules.next_sequence(refused.state) if same else 0

    def is_ahead(self, refused: RefusedRow) -> bool:
        """Whether sequences are missing before the batch."""
        return is_ahead(self._rules, refused.state, refused.batch)

    def _of_taken(self) -> Iterator[AuditFinding]:
        rows, before, taken = self._folded.rows, self._folded.before, self._folded.is_taken
        marker = rows["control_type"] >= 0
        wraps = taken & ~marker & (before["last_sequence"] >= 0) & (rows["base_sequence"] >= 0)
        wraps &= rows["producer_epoch"] == before["producer_epoch"]
        begins_at_0 = (rows["base_sequence"] == 0) & (before["last_sequence"] == MAX_SEQUENCE)
        wraps &= begins_at_0 | (rows["base_sequence"] + rows["last_offset_delta"] > MAX_SEQUENCE)
        yield from self._summed("wrap", wraps)
        empty = taken & marker & (before["first_offset"] < 0)
        yield from self._summed("marker_without_data", empty)
        same = taken & marker & ~empty & (rows["producer_epoch"] == before["producer_epoch"])
        yield from self._summed("shared_epoch", same & self._has_ended_before(same))

    def _has_ended_before(self, ends: Any) -> Any:
        """The rows with an earlier end of the same producer id and epoch."""
        numbers = np.flatnonzero(ends)
        ids, epochs = (self._folded.rows[n][numbers] for n in ("producer_id", "producer_epoch"))
        again = np.zeros(len(ends), bool)
        again[numbers[1:]] = (ids[1:] == ids[:-1]) & (epochs[1:] == epochs[:-1])
        return again

    def _summed(self, kind: str, chosen: Any) -> Iterator[AuditFinding]:
        numbers = np.flatnonzero(chosen)
        if len(numbers):
            offsets = self._folded.rows["base_offset"][numbers]
            at = numbers[int(np.argmin(offsets))]
            yield self._finding(
                kind,
                offsets.min(),
                producer_id=int(self._folded.rows["producer_id"][at]),
                producer_epoch=int(self._folded.rows["producer_epoch"][at]),
                places=len(numbers),
            )

    # Transactions

    def endings(self) -> Iterator[TransactionEnd]:
        """All ends of transactions, and the open transactions."""
        folded, rows = self._folded, self._folded.rows
        ends = np.flatnonzero((rows["control_type"] >= 0) & folded.is_taken)
        epochs, kinds = (rows[name][ends] for name in ("producer_epoch", "control_type"))
        outcomes = map(OUTCOMES.get, kinds.tolist())
        yield from self._ends_at(ends, folded.before, epochs.tolist(), outcomes)
        is_open = np.flatnonzero(folded.is_last & (folded.after["first_offset"] >= 0))
        for number, end in zip(
            is_open, self._ends_at(is_open, folded.after, repeat(-1), repeat(None)), strict=True
        ):
            behind = self._marker_before(int(number), end.producer_epoch, end.first_offset)
            yield end._replace(behind=behind)

    def _ends_at(
        self,
        numbers: Any,
        state: Columns,
        epochs: Iterable[int],
        outcomes: Iterable[str | None],
    ) -> Iterator[TransactionEnd]:
        """The ends at these rows, by the state there; columns are made at once."""
        rows, first = self._folded.rows, state["first_offset"][numbers]
        return map(
            TransactionEnd,
            rows["producer_id"][numbers].tolist(),
            state["producer_epoch"][numbers].tolist(),
            epochs,
            outcomes,
            first.tolist(),
            rows["base_offset"][numbers].tolist(),
            self._timestamps_at(first).tolist(),
            rows["max_timestamp"][numbers].tolist(),
        )

    def _timestamps_at(self, offsets: Any) -> Any:
        """The timestamps of the batches at these offsets, -1 for no offset."""
        if not len(offsets):
            return offsets
        numbers = np.searchsorted(self._rows["base_offset"], offsets)
        return np.where(offsets >= 0, self._rows["max_timestamp"][numbers], -1)

    def _marker_before(self, number: int, epoch: int, offset: int) -> int:
        """The producer's last marker before a row and an offset, of this epoch or a newer one; -1
        if there is none."""
        rows = self._folded.rows
        begin = int(np.searchsorted(rows["producer_id"], rows["producer_id"][number]))
        part = slice(begin, number)
        markers = (rows["control_type"][part] >= 0) & (rows["producer_epoch"][part] >= epoch)
        found = rows["base_offset"][part][markers & (rows["base_offset"][part] < offset)]
        return int(found[-1]) if len(found) else -1

    def marker_before(self, refused: RefusedRow) -> int:
        """The last marker before a transactional batch that is late, -1 if there is none."""
        batch = refused.batch
        if not batch.is_transactional:
            return -1
        return self._marker_before(refused.number, batch.producer_epoch, batch.base_offset)


# The meaning of a refusal

Meaning = tuple[str, Mapping[str, Any]]

SUMMED: Final = ("unknown_first", "may_be_forgotten", "may_be_compacted")
"""Kinds that are counted, with their first place."""


def kind_of(judge: PartitionJudge, refused: RefusedRow) -> Meaning:
    """The kind of a refused row, and its details."""
    if refused.batch.is_marker:
        return "late_marker", {"error": ErrorCode(refused.error).name}
    if refused.error == Error.INVALID_PRODUCER_EPOCH:
        return of_older_epoch(judge, refused)
    if refused.is_remembered or not (is_unknown(refused.state) or judge.is_ahead(refused)):
        return of_older_sequence(judge, refused)
    return of_missing_sequences(judge, refused)


def of_older_epoch(judge: PartitionJudge, refused: RefusedRow) -> Meaning:
    """A zombie's batch, or a batch after the marker that ended its transaction."""
    marker = judge.marker_before(refused)
    newest = {"newest_epoch": refused.state.of_transactions.producer_epoch}
    return ("epoch_back", newest) if marker < 0 else ("late", {**newest, "marker_offset": marker})


def of_older_sequence(judge: PartitionJudge, refused: RefusedRow) -> Meaning:
    """A duplicate, or a batch that was overtaken."""
    original = judge.original_of(refused)
    if original is not None:
        return "duplicate", {"original_offset": original, "is_remembered": refused.is_remembered}
    return "order", {"expected_sequence": judge.sequence_after(refused)}


def of_missing_sequences(judge: PartitionJudge, refused: RefusedRow) -> Meaning:
    """A gap, or the reason for it."""
    expected = judge.sequence_after(refused)
    missing = (refused.batch.base_sequence - expected) & MAX_SEQUENCE
    details = {"expected_sequence": expected, "missing_sequences": missing}
    if is_unknown(refused.state):
        is_allowed = judge.accepts(refused) or judge.is_behind_missing_offsets(refused)
        return ("unknown_first" if is_allowed else "gap"), details
    checks: tuple[tuple[str, Callable[[RefusedRow], bool]], ...] = (
        ("may_be_forgotten", judge.is_forgotten),
        ("may_be_compacted", lambda r: covers(judge, r, missing)),
    )
    kind = next((kind for kind, explains in checks if explains(refused)), "gap")
    return kind, details


def covers(judge: PartitionJudge, refused: RefusedRow, missing: int) -> bool:
    """Whether as many offsets as sequences are missing."""
    return missing <= judge.missing_offsets_before(refused)
