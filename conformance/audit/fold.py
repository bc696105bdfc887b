"""A leader's state of each producer before each batch of a partition.

1. *Guess*: computes columns with the expected state, for all rows at once.
2. *Check*: the lifted rules say for all rows at once whether the batch is in order, and whether the
   state after it is the guess for the producer's next row. By induction, a guess is right if its
   row and all rows before it fit.
3. *Ask*: from a row that is refused or does not fit, the plain functions continue row by row, until
   their state equals the guess again. Their result replaces the guess.

So no guess is trusted, and only few rows are computed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from conformance.audit.headers import ROW, Rows
from conformance.audit.leader_rules import (
    STATE,
    UNKNOWN,
    AuditedProducer,
    Columns,
    LiftedRule,
    Rules,
    WrittenBatch,
    leaves_of,
    lift,
)
from impl.protocol.record_batch import CONTROL, MAX_SEQUENCE, TRANSACTIONAL
from model.idempotent import leader as sequences
from model.releases import MAX_BATCHES_TO_REMEMBER
from model.transactions import leader as transactions

BLOCK: Final = 1 << 16
"""The number of rows for one call of the lifted rules, so that their columns stay in the cache."""

INITIAL: Final = {
    "producer_epoch": transactions.UNKNOWN_PRODUCER.producer_epoch,
    "coordinator_epoch": transactions.UNKNOWN_PRODUCER.coordinator_epoch,
    "last_sequence": transactions.UNKNOWN_PRODUCER.last_sequence,
    "last_offset": 0,
    "offset_delta": 0,
    "remembered": transactions.UNKNOWN_PRODUCER.remembered,
    "first_offset": transactions.UNKNOWN_PRODUCER.current_txn_first_offset,
}
NOTHING: Final = sequences.BatchMetadata(last_sequence=-1, last_offset=0, offset_delta=0)
ONLY_OF_A_SEQUENCE: Final = ("last_offset", "offset_delta")
"""Columns without meaning where `last_sequence` is -1."""


class RefusedRow(NamedTuple):
    """A row that a leader would not have appended; `number` is its place among the sorted rows."""

    number: int
    batch: WrittenBatch
    state: AuditedProducer
    error: int
    is_remembered: bool


@dataclass(frozen=True, slots=True)
class Folded:
    """Rows sorted by producer, the state before and after each, and the refused rows.

    `is_taken` is False where a row left the state unchanged.
    """

    rows: Columns
    before: Columns
    after: Columns
    is_last: Any
    is_taken: Any
    refused: tuple[RefusedRow, ...]


def fold(rows: Rows, rules: Rules, *, trust_guesses: bool = True) -> Folded:
    """Fold a partition's rows, which are in the order of offsets. Without `trust_guesses` each row
    is computed by the plain functions, which is slow and has the same result."""
    judged = (rows["producer_id"] >= 0) & (
        (rows["control_type"] >= 0) | (rows["attributes"] & CONTROL == 0)
    )
    chosen = rows[judged]
    order = np.argsort(chosen["producer_id"], kind="stable")
    columns = {name: chosen[name][order].astype(np.int64) for name in ROW.names or ()}
    before = guess(columns)
    is_first = first_of_producer(columns)
    is_last = np.append(is_first[1:], True)[: len(is_first)]
    after, fits = check(columns, before, is_last, rules)
    asked = _RowByRow(columns, before, after, is_first, is_last, rules)
    todo = ~fits if trust_guesses else np.ones(len(fits), bool)
    return asked.run(todo)


def first_of_producer(rows: Columns) -> Any:
    """The first rows of each producer."""
    ids = rows["producer_id"]
    return np.append(True, ids[1:] != ids[:-1])[: len(ids)]


# The guess


def guess(rows: Columns) -> Columns:
    """The expected state before each row, if no row is out of order."""
    count = len(rows["producer_id"])
    numbers = np.arange(count)
    is_first = first_of_producer(rows)
    begin = latest(numbers, is_first)
    marker = rows["control_type"] >= 0
    data = ~marker & (rows["base_sequence"] >= 0)
    epoch = previous(rows["producer_epoch"], is_first, INITIAL["producer_epoch"])
    changes = rows["producer_epoch"] != epoch
    last_data = before_it(numbers, data, begin)
    last_reset = before_it(numbers, marker & changes, begin)
    known = last_data > last_reset
    return {
        "producer_epoch": epoch,
        "coordinator_epoch": valued(
            rows["coordinator_epoch"], before_it(numbers, marker, begin), begin
        ),
        "last_sequence": np.where(known, valued(last_sequences(rows), last_data, begin), -1),
        "last_offset": valued(rows["base_offset"] + rows["last_offset_delta"], last_data, begin, 0),
        "offset_delta": valued(rows["last_offset_delta"], last_data, begin, 0),
        "remembered": guess_remembered(numbers, ~marker, changes, begin),
        "first_offset": guess_first_offset(rows, numbers, marker, begin),
    }


def latest(numbers: Any, chosen: Any) -> Any:
    """The number of the latest chosen row at or before each; -1 if there is no such row."""
    return np.maximum.accumulate(np.where(chosen, numbers, -1))


def before_it(numbers: Any, chosen: Any, begin: Any) -> Any:
    """The number of the producer's latest chosen row before each; below `begin` if there is no such
    row."""
    found = np.append(-1, latest(numbers, chosen)[:-1])[: len(numbers)]
    return np.where(found >= begin, found, -1)


def previous(values: Any, is_first: Any, initial: int) -> Any:
    """The value of the producer's row before each."""
    return np.where(is_first, initial, np.append(initial, values[:-1])[: len(values)])


def valued(values: Any, numbers: Any, begin: Any, absent: int = -1) -> Any:
    """The values at these rows' numbers; `absent` where the number is no row."""
    return np.where(numbers >= begin, values[numbers], absent) if len(values) else values


def last_sequences(rows: Columns) -> Any:
    """The sequence of each batch's last record."""
    return (rows["base_sequence"] + rows["last_offset_delta"]) & MAX_SEQUENCE


def guess_remembered(numbers: Any, data: Any, changes: Any, begin: Any) -> Any:
    """The number of batches of the producer's present epoch before each row, at most as many as a
    leader remembers."""
    total = np.append(0, np.cumsum(data))[:-1] if len(data) else numbers
    change = before_it(numbers, changes, begin)
    since = np.where(change >= 0, change, begin)
    count = total - total[since] if len(data) else total
    return np.minimum(count, MAX_BATCHES_TO_REMEMBER)


def guess_first_offset(rows: Columns, numbers: Any, marker: Any, begin: Any) -> Any:
    """The first offset of the transaction that is open before each row; -1 if none is open."""
    if not len(numbers):
        return numbers
    writes = ~marker & (rows["attributes"] & TRANSACTIONAL != 0)
    last_marker = before_it(numbers, marker, begin)
    last_write = before_it(numbers, writes, begin)
    opens = writes & ~(last_write > last_marker)
    opened = before_it(numbers, opens, begin)
    is_open = (opened >= begin) & (opened > last_marker)
    return np.where(is_open, rows["base_offset"][opened], INITIAL["first_offset"])


# The check


def check(rows: Columns, before: Columns, is_last: Any, rules: Rules) -> tuple[Columns, Any]:
    """(the state after each row by the lifted rules, whether the row is in order and that state is
    the guess for the next)."""
    count = len(is_last)
    after = {name: before[name].copy() for name in STATE}
    errors = np.zeros(count, np.int64)
    lifted = lift(rules)
    marker = rows["control_type"] >= 0
    sequenced = ~marker & (rows["base_sequence"] >= 0)
    rule_of = (
        (sequenced, lifted.of_batch),
        (~marker & ~sequenced, lifted.of_unsequenced),
        (marker, lifted.of_marker),
    )
    for picked, rule in blocks(rule_of):
        part, known = ({n: c[picked] for n, c in x.items()} for x in (rows, before))
        errors[picked], moved = rule.apply(leaves_of(known, part))
        for name, column in outside(part, known, moved).items():
            after[name][picked] = column
    return after, (errors == 0) & fits_next(before, after, is_last)


def blocks(rule_of: Iterable[tuple[Any, LiftedRule]]) -> Iterator[tuple[Any, LiftedRule]]:
    """Numbers of rows with their rule, in blocks."""
    for chosen, rule in rule_of:
        picked = np.flatnonzero(chosen)
        for start in range(0, len(picked), BLOCK):
            yield picked[start : start + BLOCK], rule


def outside(rows: Columns, before: Columns, after: Columns) -> Columns:
    """A batch outside a transaction opens none."""
    plain = (rows["control_type"] < 0) & (rows["attributes"] & TRANSACTIONAL == 0)
    if not plain.any():
        return after
    first = np.where(plain, before["first_offset"], after["first_offset"])
    return {**after, "first_offset": first}


def fits_next(before: Columns, after: Columns, is_last: Any) -> Any:
    """Whether the state after each row is the one before the producer's next."""
    fits = np.ones(len(is_last), bool)
    if len(is_last) < 2:
        return fits
    known = after["last_sequence"][:-1] >= 0
    for name in STATE:
        same = after[name][:-1] == before[name][1:]
        fits[:-1] &= same | ~known if name in ONLY_OF_A_SEQUENCE else same
    return fits | is_last


# Row by row


class _RowByRow:
    """Applies the plain functions where the guesses do not fit, and corrects the columns."""

    def __init__(
        self,
        rows: Columns,
        before: Columns,
        after: Columns,
        is_first: Any,
        is_last: Any,
        rules: Rules,
    ) -> None:
        self._rows, self._before, self._after = rows, before, after
        self._is_first, self._is_last = is_first, is_last
        self._rules = rules
        self._taken = np.ones(len(is_last), bool)

    def run(self, todo: Any) -> Folded:
        """Compute the rows in `todo`, and all that follow each until the guess fits again."""
        refused, done = list[RefusedRow](), -1
        for number in map(int, np.flatnonzero(todo)):
            if number > done:
                done = self._follow(number, todo, refused)
        return Folded(
            self._rows, self._before, self._after, self._is_last, self._taken, tuple(refused)
        )

    def _follow(self, number: int, todo: Any, refused: list[RefusedRow]) -> int:
        """Compute from a row on; returns the last row that was computed."""
        state = self._state_before(number)
        while True:
            batch = self._batch(number)
            state = self._step(number, batch, state, refused)
            self._write(self._after, number, state)
            if self._is_last[number]:
                return number
            fits = self._is_at(self._before, number + 1, state)
            if fits and not todo[number + 1]:
                return number
            number += 1
            self._write(self._before, number, state)

    def _step(
        self, number: int, batch: WrittenBatch, state: AuditedProducer, refused: list[RefusedRow]
    ) -> AuditedProducer:
        error = self._rules.check(state, batch)
        remembered = not batch.is_marker and self._rules.is_remembered(state, batch)
        is_strange = is_unknown(state) and batch.base_sequence > 0 and not batch.is_marker
        if error or remembered or is_strange:
            refused.append(RefusedRow(number, batch, state, error, remembered))
        if remembered or (error and not is_ahead(self._rules, state, batch)):
            self._taken[number] = False
            return state
        return self._rules.append(state, batch)

    def _batch(self, number: int) -> WrittenBatch:
        return WrittenBatch(*(int(self._rows[name][number]) for name in WrittenBatch._fields))

    def _state_before(self, number: int) -> AuditedProducer:
        """The state in the columns, with the batches that a leader remembers."""
        value = {name: int(self._before[name][number]) for name in STATE}
        entry = transactions.ProducerStateEntry(
            producer_epoch=value["producer_epoch"],
            coordinator_epoch=value["coordinator_epoch"],
            last_sequence=value["last_sequence"],
            remembered=value["remembered"],
            current_txn_first_offset=value["first_offset"],
        )
        state = AuditedProducer(
            sequences.ProducerStateEntry(
                producer_epoch=value["producer_epoch"] if value["remembered"] else -1, batches=()
            ),
            transactions.UNKNOWN_PRODUCER,
        )
        for batch in reversed(list(self._recent(number, value["remembered"]))):
            state = self._rules.append(state, batch)
        known = replace(state.of_sequences, producer_epoch=value["producer_epoch"])
        return AuditedProducer(known, entry)

    def _recent(self, number: int, count: int) -> Iterator[WrittenBatch]:
        """The producer's latest batches before a row, the newest first."""
        while count > 0 and not self._is_first[number]:
            number -= 1
            batch = self._batch(number)
            if not batch.is_marker and self._taken[number]:
                count -= 1
                yield batch

    def _write(self, columns: Columns, number: int, state: AuditedProducer) -> None:
        for name, value in zip(STATE, values_of(state), strict=True):
            columns[name][number] = value

    def _is_at(self, columns: Columns, number: int, state: AuditedProducer) -> bool:
        values = dict(zip(STATE, values_of(state), strict=True))
        skipped = ONLY_OF_A_SEQUENCE if values["last_sequence"] < 0 else ()
        return all(columns[n][number] == v for n, v in values.items() if n not in skipped)


def values_of(state: AuditedProducer) -> tuple[int, ...]:
    """A state as values of the columns."""
    entry, batches = state.of_transactions, state.of_sequences.batches
    last = batches[-1] if batches else NOTHING
    return (
        entry.producer_epoch,
        entry.coordinator_epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.remembered,
        entry.current_txn_first_offset,
    )


def is_unknown(state: AuditedProducer) -> bool:
    """Whether the producer has no state."""
    return state == UNKNOWN


def is_ahead(rules: Rules, state: AuditedProducer, batch: WrittenBatch) -> bool:
    """Whether a batch that is out of order continues after a gap: within half of all sequences, or
    in a newer epoch."""
    if batch.is_marker or batch.producer_epoch < state.of_transactions.producer_epoch:
        return False
    if batch.producer_epoch > state.of_transactions.producer_epoch:
        return True
    distance = (batch.base_sequence - rules.next_sequence(state)) & MAX_SEQUENCE
    return distance <= MAX_SEQUENCE // 2
