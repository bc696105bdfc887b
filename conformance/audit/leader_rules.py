"""The model's rules of a leader: as plain functions of one producer, and lifted to arrays.

A leader's state of a producer is in two compositions of the model: the idempotent one has the
sequences of the last batches; the transactional one has the epoch, the coordinator's epoch and the
start of the open transaction. The functions here call both; they contain no rule of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from impl.protocol.control_records import ControlType
from impl.protocol.record_batch import MAX_SEQUENCE, TRANSACTIONAL
from model.idempotent import configuration as idempotent
from model.idempotent import leader as sequences
from model.idempotent import messages as produced
from model.idempotent import variants as idempotent_variants
from model.transactions import configuration as transactional
from model.transactions import leader as transactions
from model.transactions import messages as written
from model.transactions import variants as transactional_variants
from model.transactions.faults import Faults
from proofs.lift.dag import ARITHMETIC, Node, reachable
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import load_package
from proofs.lift.values import Rec

MAX_EPOCH: Final = 32_767
LONG_LOG: Final = 1 << 60
"""More offsets than any log has."""

STATE: Final = (
    "producer_epoch",
    "coordinator_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "remembered",
    "first_offset",
)
"""A leader's state of a producer before a batch, as columns."""

Columns = dict[str, Any]
"""Arrays by name."""


class WrittenBatch(NamedTuple):
    """A batch or a marker, with the values that the rules need."""

    base_offset: int
    last_offset_delta: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    max_timestamp: int
    control_type: int
    coordinator_epoch: int

    @property
    def is_marker(self) -> bool:
        """Whether the batch ends a transaction."""
        return self.control_type >= 0

    @property
    def is_transactional(self) -> bool:
        """Bit 4 of the attributes."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def has_sequence(self) -> bool:
        """Whether the batch has a sequence: coordinators write offsets without sequences."""
        return self.base_sequence >= 0


class AuditedProducer(NamedTuple):
    """A leader's state of one producer, in the records of both compositions."""

    of_sequences: sequences.ProducerStateEntry
    of_transactions: transactions.ProducerStateEntry


UNKNOWN: Final = AuditedProducer(sequences.UNKNOWN_PRODUCER, transactions.UNKNOWN_PRODUCER)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one release. Transactions are judged by the rules of V1 requests, which brokers
    of any level accept: a log does not say which requests its clients sent."""

    release: str

    # Configurations: sizes are those of the protocol

    def idempotent(self, window: int, **rules: Any) -> idempotent.Configuration:
        """The configuration of the idempotent composition, with some rules replaced."""
        bounds = replace(
            idempotent.Bounds(),
            max_sequence=MAX_SEQUENCE,
            max_epoch=MAX_EPOCH,
            max_batch=MAX_SEQUENCE + 1,
            log=LONG_LOG // (MAX_SEQUENCE + 1),
            window=window,
            first_sequence=0,
        )
        variant = replace(idempotent_variants.parse(self.release), **rules)
        return idempotent.Configuration(variant, bounds, idempotent.Budgets())

    def transactional(self) -> transactional.Configuration:
        """The configuration of the transactional composition. For releases before its oldest one,
        leaders treated batches and markers of V1 in the same way."""
        bounds = replace(
            transactional.Bounds(),
            max_epoch=MAX_EPOCH,
            log=LONG_LOG,
            transactions=1,
            writes=MAX_SEQUENCE,
            faults=Faults(moves=MAX_SEQUENCE),
        )
        known = transactional_variants.RELEASES
        release = self.release if self.release in known else list(known)[-1]
        variant = transactional_variants.parse(f"{release}/requests=v1")
        return transactional.Configuration(variant, bounds, transactional.Budgets())

    # One producer, one batch

    def check(self, state: AuditedProducer, batch: WrittenBatch, **rules: Any) -> int:
        """The error with which a leader would refuse the batch; 0 if it would append it."""
        if batch.is_marker:
            k = transactional_of(self)
            return int(transactions.check_marker(k, state.of_transactions, marker_of(batch)))
        if not batch.has_sequence:
            rules = {"validation": idempotent.Validation.EPOCH_ONLY}
        k_of = idempotent_of(self, tuple(sorted(rules.items())))
        return int(sequences.check_append(k_of, state.of_sequences, produced_of(batch)))

    def is_remembered(self, state: AuditedProducer, batch: WrittenBatch) -> bool:
        """Whether a leader would recognise the batch as a duplicate, and not append it."""
        k = idempotent_of(self, ())
        found = sequences.find_duplicates(k, state.of_sequences, produced_of(batch))
        return batch.has_sequence and len(found) > 0

    def append(self, state: AuditedProducer, batch: WrittenBatch) -> AuditedProducer:
        """A leader's state after it has appended the batch or marker. Batches of the transactional
        composition have one record each: the last sequence comes from the idempotent one."""
        if batch.is_marker:
            ended = transactions.ended(state.of_transactions, marker_of(batch))
            kept = state.of_sequences.batches if ended.remembered > 0 else ()
            return AuditedProducer(
                sequences.ProducerStateEntry(producer_epoch=ended.producer_epoch, batches=kept),
                ended,
            )
        entry = transactions.remember(state.of_transactions, written_of(batch), batch.base_offset)
        if not batch.is_transactional:
            begins = state.of_transactions.current_txn_first_offset
            entry = replace(entry, current_txn_first_offset=begins)
        known = replace(state.of_sequences, producer_epoch=entry.producer_epoch)
        if batch.has_sequence:
            stored = sequences.StoredBatch(batch=produced_of(batch), base_offset=batch.base_offset)
            known = sequences.remember(idempotent_of(self, ()), state.of_sequences, stored)
        last = known.batches[-1].last_sequence if known.batches else produced.NO_SEQUENCE
        return AuditedProducer(known, replace(entry, last_sequence=last))

    def next_sequence(self, state: AuditedProducer) -> int:
        """The sequence that must follow."""
        batches = state.of_sequences.batches
        last = batches[-1].last_sequence if batches else produced.NO_SEQUENCE
        k = idempotent_of(self, ())
        return produced.increment_sequence(k, last, 1) if batches else 0


@cache
def idempotent_of(rules: Rules, replaced: tuple[tuple[str, Any], ...]) -> idempotent.Configuration:
    """The configuration with the release's own window; it is made once."""
    return rules.idempotent(idempotent.Bounds().window, **dict(replaced))


@cache
def transactional_of(rules: Rules) -> transactional.Configuration:
    """The configuration; it is made once."""
    return rules.transactional()


def produced_of(batch: WrittenBatch) -> produced.Batch:
    """A batch of the idempotent composition; compaction keeps its last offset delta."""
    return produced.Batch(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=batch.last_offset_delta + 1,
        producer=0,
        first_record=0,
    )


def written_of(batch: WrittenBatch) -> written.Batch:
    """A batch of the transactional composition."""
    return replace(
        written.NO_BATCH, producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence
    )


def marker_of(batch: WrittenBatch) -> written.Marker:
    """A marker of the transactional composition."""
    return written.Marker(
        producer_id=0,
        producer_epoch=batch.producer_epoch,
        committed=batch.control_type == ControlType.COMMIT,
        coordinator_epoch=batch.coordinator_epoch,
        partition=0,
    )


# The same rules over arrays

OPERATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **ARITHMETIC,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "ite": np.where,
}
"""The array function for each operation of the graph."""


def evaluate(roots: Iterable[Node], leaves: Mapping[str, Any]) -> list[Any]:
    """The values of the roots: arrays, or numbers where they are constant."""
    wanted = list(roots)
    known: dict[int, Any] = {}
    for node in reachable(wanted):
        if node.op == "const":
            known[node.serial] = node.value
        elif node.op == "leaf":
            known[node.serial] = leaves[node.name]
        else:
            known[node.serial] = OPERATIONS[node.op](*(known[a.serial] for a in node.args))
    return [known[root.serial] for root in wanted]


class LiftedRule(NamedTuple):
    """A lifted rule: its error, and the state after it, as columns."""

    error: Node
    after: Mapping[str, Node]

    def apply(self, leaves: Mapping[str, Any]) -> tuple[Any, Columns]:
        """(error, state after) of each row."""
        error, *after = evaluate([self.error, *self.after.values()], leaves)
        return error, dict(zip(self.after, after, strict=True))


class LiftedRules(NamedTuple):
    """The rules that `Rules` calls, over arrays. The first batch must begin at 0, so that any other
    first batch is examined."""

    of_batch: LiftedRule
    of_unsequenced: LiftedRule
    of_marker: LiftedRule


@cache
def lift(rules: Rules) -> LiftedRules:
    """Lift the functions. Raises LiftError."""
    unsequenced = rules.idempotent(1, validation=idempotent.Validation.EPOCH_ONLY)
    strict = rules.idempotent(1, first_sequence=idempotent.FirstSequence.STRICT)
    transaction = _transactions_after(rules)
    return LiftedRules(
        of_batch=_of_batch(strict, transaction),
        of_unsequenced=_of_batch(unsequenced, transaction),
        of_marker=_of_marker(rules),
    )


def _of_batch(k: idempotent.Configuration, transaction: Mapping[str, Node]) -> LiftedRule:
    """A batch without a sequence leaves the state of sequences unchanged."""
    evaluator = Evaluator(load_package("model.idempotent"), k)
    known = evaluator.shapes.leaves(sequences.ProducerStateEntry, "known")
    stored = evaluator.shapes.leaves(sequences.StoredBatch, "stored")
    error = evaluator.call(sequences.check_append, [k, known, stored.fields["batch"]])
    after = evaluator.call(sequences.remember, [k, known, stored])
    has_sequence = k.variant.validation == idempotent.Validation.FULL
    last = after.fields["batches"].slots[0].fields if has_sequence else {}
    return LiftedRule(
        error, {**last, **transaction, "producer_epoch": after.fields["producer_epoch"]}
    )


def _transactions_after(rules: Rules) -> Mapping[str, Node]:
    evaluator = Evaluator(load_package("model.transactions"), rules.transactional())
    entry, batch = (
        evaluator.shapes.leaves(cls, name)
        for cls, name in ((transactions.ProducerStateEntry, "entry"), (written.Batch, "batch"))
    )
    offset = evaluator.shapes.leaves(written.Offset, "offset")
    after = evaluator.call(transactions.remember, [entry, batch, offset])
    names = ("remembered", "coordinator_epoch")
    return {**{name: after.fields[name] for name in names}, "first_offset": _begins(after)}


def _of_marker(rules: Rules) -> LiftedRule:
    k = rules.transactional()
    evaluator = Evaluator(load_package("model.transactions"), k)
    entry = evaluator.shapes.leaves(transactions.ProducerStateEntry, "entry")
    marker = evaluator.shapes.leaves(written.Marker, "marker")
    error = evaluator.call(transactions.check_marker, [k, entry, marker])
    after = evaluator.call(transactions.ended, [entry, marker])
    names = ("producer_epoch", "coordinator_epoch", "last_sequence", "remembered")
    return LiftedRule(
        error, {**{name: after.fields[name] for name in names}, "first_offset": _begins(after)}
    )


def _begins(entry: Rec) -> Node:
    begins: Node = entry.fields["current_txn_first_offset"]
    return begins


def leaves_of(before: Columns, rows: Columns) -> Columns:
    """The leaves of the lifted rules, by name, for a producer's state and a batch or marker."""
    return {
        "known.producer_epoch": before["producer_epoch"],
        "len(known.batches)": (before["last_sequence"] >= 0).astype(np.int64),
        **{
            f"known.batches[0].{name}": before[name]
            for name in ("last_sequence", "last_offset", "offset_delta")
        },
        "entry.producer_epoch": before["producer_epoch"],
        "entry.coordinator_epoch": before["coordinator_epoch"],
        "entry.last_sequence": before["last_sequence"],
        "entry.remembered": before["remembered"],
        "entry.current_txn_first_offset": before["first_offset"],
        "stored.base_offset": rows["base_offset"],
        "stored.batch.producer_epoch": rows["producer_epoch"],
        "stored.batch.base_sequence": rows["base_sequence"],
        "stored.batch.record_count": rows["last_offset_delta"] + 1,
        "batch.producer_epoch": rows["producer_epoch"],
        "batch.base_sequence": rows["base_sequence"],
        "offset": rows["base_offset"],
        "marker.producer_epoch": rows["producer_epoch"],
        "marker.coordinator_epoch": rows["coordinator_epoch"],
    }
