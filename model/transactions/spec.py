"""The abstract specification of transactions: all that a user needs to believe, on one page.

Each partition is a row of slots, one for each record. A write adds a pending slot at the row's end.
One step decides all slots of a transaction together, in all rows: they become committed, if the
application asked for it, or aborted. A decision never changes. No slot joins a committed
transaction; a record that arrives after its transaction's abort is aborted from the start. A reader
of committed records sees a growing part of the row, up to the first pending slot; each partition
decides by itself how fast it grows.

`view` maps a world of the protocol to these rows. `is_step` says which changes of them are allowed,
and `STEPS` which events of the protocol make each change. `kafka-eos refine` checks that every step
of the protocol is one of these or changes nothing, and that each of these happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from model.language import AtMost, Map, record
from model.releases import NEWEST
from model.transactions.client import present
from model.transactions.client_state import Client, ClientState, Outcome, is_sent
from model.transactions.configuration import Configuration
from model.transactions.coordinator import TransactionState, decided
from model.transactions.fates import Log, asked_to_commit, is_aborted, is_committed
from model.transactions.leader import Kind, Leader, last_stable_offset
from model.transactions.messages import (
    Instance,
    Offset,
    Partition,
    Transaction,
    WriteCount,
    WriteNumber,
    is_of_group,
)
from model.transactions.world import World


class Fate(IntEnum):
    """The decision on a slot."""

    PENDING = 0
    COMMITTED = 1
    ABORTED = 2


@record
class Slot:
    """One record, and the fate of its transaction."""

    instance: Instance
    transaction: Transaction
    number: WriteNumber
    fate: Fate


@record
class Row:
    """One partition; readers of committed records see the first `readable` slots."""

    slots: Annotated[tuple[Slot, ...], AtMost("log")]
    readable: Offset


@record
class View:
    """All that a user knows: the rows, the outcomes that applications asked for, whether their last
    call was a commit that has failed, and the number of records that they have sent."""

    rows: Map[Partition, Row]
    outcomes: Map[Instance, Map[Transaction, Outcome]]
    failed_commits: Map[Instance, bool]
    sent: Map[Instance, Map[Partition, Map[Transaction, WriteCount]]]


# The view of a world


def decided_fate(w: World, partition: Partition, leader: Leader, offset: int) -> Fate:
    """The fate by the marker after the record; before the marker is written, by the end that the
    coordinator has prepared."""
    metadata = decided(w.coordinator)
    stored = leader.log[offset]
    awaited = metadata.partitions[partition] and metadata.producer_id == stored.producer_id
    if is_committed(leader.log, offset):
        return Fate.COMMITTED
    if is_aborted(leader.log, offset):
        return Fate.ABORTED
    if awaited and metadata.state == TransactionState.PREPARE_COMMIT:
        return Fate.COMMITTED
    if awaited and metadata.state == TransactionState.PREPARE_ABORT:
        return Fate.ABORTED
    return Fate.PENDING


def is_told_again(log: Log, offset: int) -> bool:
    """Whether the same record stands again at a later offset."""
    told = log[offset]
    return any(
        s.kind == Kind.DATA
        and s.instance == told.instance
        and s.transaction == told.transaction
        and s.number == told.number
        for s in log[offset + 1 :]
    )


def has_slot(k: Configuration, partition: Partition, log: Log, offset: int) -> bool:
    """Whether the offset has a slot: markers and other ids' records have none. If a group receives
    an offset again, only the last copy has a slot."""
    hidden = is_of_group(k, partition) and is_told_again(log, offset)
    return log[offset].kind == Kind.DATA and not hidden


def row(k: Configuration, w: World, partition: Partition, leader: Leader) -> Row:
    """The row that stands for a partition."""
    stable = last_stable_offset(k, leader)
    return Row(
        slots=tuple(
            Slot(
                instance=s.instance,
                transaction=s.transaction,
                number=s.number,
                fate=decided_fate(w, partition, leader, i),
            )
            for i, s in enumerate(leader.log)
            if has_slot(k, partition, leader.log, i)
        ),
        readable=sum(
            1
            for i, _ in enumerate(leader.log)
            if i < stable and has_slot(k, partition, leader.log, i)
        ),
    )


def commit_has_failed(client: Client) -> bool:
    """Whether commitTransaction has returned with an error: each batch that was sent has its
    outcome, or the instance is finished."""
    asked = client.begun > 0 and client.outcomes[present(client)] == Outcome.COMMIT_ASKED
    in_flight = any(is_sent(there) for there in client.partitions.values())
    failed = client.state == ClientState.ABORTABLE_ERROR and not in_flight
    return asked and (failed or client.state == ClientState.FATAL_ERROR)


def view(k: Configuration, w: World) -> View:
    """The view that stands for a world."""
    return View(
        rows=Map(tuple(row(k, w, p, leader) for p, leader in w.leaders.items())),
        outcomes=Map(tuple(client.outcomes for client in w.clients.values())),
        failed_commits=Map(tuple(commit_has_failed(client) for client in w.clients.values())),
        sent=Map(
            tuple(
                Map(tuple(there.sent for there in client.partitions.values()))
                for client in w.clients.values()
            )
        ),
    )


# Allowed changes


def is_of(slot: Slot, other: Slot) -> bool:
    """Whether both slots are of one transaction."""
    return slot.instance == other.instance and slot.transaction == other.transaction


def is_same(slot: Slot, other: Slot) -> bool:
    """Whether both slots are the same record."""
    return slot.number == other.number and is_of(slot, other)


def is_before(slot: Slot, other: Slot) -> bool:
    """Whether `slot` comes before `other`, if both are of one transaction."""
    return slot.number < other.number or not is_of(slot, other)


def is_decided_slot(slot: Slot) -> bool:
    """Whether the slot's fate is decided."""
    return slot.fate != Fate.PENDING


def is_decided_whole(seen: View, slot: Slot) -> bool:
    """Whether all slots of the decided slot's transaction have its fate."""
    return all(
        all(not is_of(s, slot) or s.fate == slot.fate for s in row.slots)
        for row in seen.rows.values()
    )


def stays(was: Slot, now: Slot) -> bool:
    """Whether the slot is the same as before; a decided fate never changes."""
    return is_same(now, was) and (now.fate == was.fate or not is_decided_slot(was))


def may_come(before: View, was: Row, slot: Slot) -> bool:
    """Whether the slot may be new: a record is written once, behind those sent before it, and
    pending; after the abort of its transaction it is aborted from the start."""
    too_late = slot.fate == Fate.ABORTED and is_decided_whole(before, slot)
    return (too_late or not is_decided_slot(slot)) and all(is_before(s, slot) for s in was.slots)


def only_grows(before: View, was: Row, now: Row) -> bool:
    """Whether no slot has changed or moved, and at most one is new."""
    size = len(was.slots)
    return (
        len(now.slots) >= size
        and len(now.slots) <= size + 1
        and all(
            stays(was.slots[i], s) if i < size else may_come(before, was, s)
            for i, s in enumerate(now.slots)
        )
    )


def is_readable(before: Row, after: Row) -> bool:
    """Whether readers see at least as much as before, and no pending slot."""
    return after.readable >= before.readable and all(
        i >= after.readable or is_decided_slot(s) for i, s in enumerate(after.slots)
    )


def has_cause(after: View, slot: Slot) -> bool:
    """Whether the slot is committed only if its application asked for it."""
    asked = after.outcomes[slot.instance][slot.transaction]
    return slot.fate != Fate.COMMITTED or asked_to_commit(asked)


def is_kept(after: View, slot: Slot) -> bool:
    """Whether the slot's fate is what its application was told."""
    told = after.outcomes[slot.instance][slot.transaction]
    committed = told != Outcome.COMMITTED or slot.fate == Fate.COMMITTED
    return committed and (told != Outcome.ABORTED or slot.fate == Fate.ABORTED)


def is_complete(after: View, row: Row, partition: Partition) -> bool:
    """Whether the row has all records of each transaction that was reported as committed."""
    return all(
        outcome != Outcome.COMMITTED
        or after.sent[instance][partition][transaction]
        == sum(1 for s in row.slots if (s.instance, s.transaction) == (instance, transaction))
        for instance, outcomes in after.outcomes.items()
        for transaction, outcome in outcomes.items()
    )


FOLLOWS = {
    Outcome.OPEN: frozenset(Outcome),
    Outcome.COMMIT_ASKED: frozenset((Outcome.COMMITTED, Outcome.ABORT_ASKED)),
    Outcome.COMMITTED: frozenset[Outcome](),
    Outcome.ABORT_ASKED: frozenset((Outcome.ABORTED,)),
    Outcome.ABORTED: frozenset[Outcome](),
}
"""The outcomes that may follow each outcome. A commit that fails must be aborted."""


def outcome_changes(before: View, after: View) -> Iterator[tuple[Outcome, Outcome]]:
    """The outcomes that change, as pairs of before and after."""
    for instance, outcomes in after.outcomes.items():
        for was, now in zip(before.outcomes[instance].values(), outcomes.values(), strict=False):
            if was != now:
                yield was, now


def calls_return_first(before: View, after: View) -> bool:
    """Whether each application that asks for an abort after a commit has first seen the commit
    fail."""
    return all(
        before.failed_commits[instance]
        or (Outcome.COMMIT_ASKED, Outcome.ABORT_ASKED)
        not in zip(before.outcomes[instance].values(), outcomes.values(), strict=False)
        for instance, outcomes in after.outcomes.items()
    )


def is_step(before: View, after: View) -> bool:
    """Whether a user may see `after` follow `before`."""
    follows = all(now in FOLLOWS[was] for was, now in outcome_changes(before, after))
    return (
        follows
        and calls_return_first(before, after)
        and all(
            only_grows(before, before.rows[p], row)
            and is_readable(before.rows[p], row)
            and all(
                not is_decided_slot(s) or (is_decided_whole(after, s) and has_cause(after, s))
                for s in row.slots
            )
            and all(is_kept(after, s) for s in row.slots)
            and is_complete(after, row, p)
            for p, row in after.rows.items()
        )
    )


# Steps by name


@dataclass(frozen=True, slots=True)
class AbstractStep:
    """One way in which the view changes, and the events of the protocol that change it so."""

    name: str
    says: str
    happens: Callable[[View, View], bool]
    events: frozenset[str]


def is_written(fate: Fate) -> Callable[[View, View], bool]:
    """Whether a slot is new, and has this fate."""
    return lambda before, after: any(
        s.fate == fate
        for p, row in after.rows.items()
        for s in row.slots[len(before.rows[p].slots) :]
    )


def is_decided_as(fate: Fate) -> Callable[[View, View], bool]:
    """Whether slots that were pending have this fate now."""
    return lambda before, after: any(
        now.fate == fate and was.fate != fate
        for p, row in after.rows.items()
        for was, now in zip(before.rows[p].slots, row.slots, strict=False)
    )


def becomes(outcome: Outcome) -> Callable[[View, View], bool]:
    """Whether an application asks for this outcome, or is told it."""
    return lambda before, after: any(now == outcome for _, now in outcome_changes(before, after))


def reads_on(before: View, after: View) -> bool:
    """Whether readers see more than before."""
    return any(row.readable > before.rows[p].readable for p, row in after.rows.items())


def commit_fails(before: View, after: View) -> bool:
    """Whether a commit returns with an error."""
    return any(
        failed and not before.failed_commits[instance]
        for instance, failed in after.failed_commits.items()
    )


def sends(before: View, after: View) -> bool:
    """Whether an application sends a record."""
    return before.sent != after.sent


WRITES = frozenset(
    {
        "batch_is_produced",
        "batch_is_produced_again",
        "late_batch_arrives",
        "late_offsets_arrive",
        "offsets_are_committed",
        "verified_batch_arrives",
    }
)
APPENDS = frozenset(
    {
        "append_is_done",
        "append_is_refused",
        "coordinator_moves",
        "coordinator_moves_with_append",
    }
)
"""The events by which an end takes effect if appends to the transaction log take their time. The
next coordinator finds in the log appends whose outcome the former one did not know."""
ENDS = APPENDS | {"transaction_is_ended", "late_end_arrives"}
FENCES = frozenset({"producer_id_is_asked", "late_init_arrives", "transaction_times_out"})
MARKERS = frozenset({"marker_is_written", "late_marker_arrives", "former_writes_marker"})
REPORTS = frozenset({"transaction_is_ended", "append_is_done"})
FAILURES = frozenset(
    {
        "partitions_are_added",
        "batch_is_produced",
        "batch_is_produced_again",
        "batch_is_rejected",
        "batch_is_rejected_again",
        "batch_expires",
        "transaction_is_ended",
    }
)

STEPS: tuple[AbstractStep, ...] = (
    AbstractStep("record_is_given", "an application sends", sends, frozenset({"record_is_sent"})),
    AbstractStep("slot_is_added", "a record is written", is_written(Fate.PENDING), WRITES),
    AbstractStep(
        "dead_slot_is_added",
        "a record comes after its transaction's abort",
        is_written(Fate.ABORTED),
        WRITES,
    ),
    AbstractStep("slots_commit", "a transaction commits", is_decided_as(Fate.COMMITTED), ENDS),
    AbstractStep("slots_abort", "a transaction aborts", is_decided_as(Fate.ABORTED), ENDS | FENCES),
    AbstractStep(
        "slots_are_readable",
        "readers see more: behind a marker, or as another transaction ends",
        reads_on,
        MARKERS | {"other_writes"},
    ),
    AbstractStep(
        "commit_is_requested",
        "an application asks for a commit",
        becomes(Outcome.COMMIT_ASKED),
        frozenset({"commit_is_asked"}),
    ),
    AbstractStep(
        "abort_is_requested",
        "an application asks for an abort",
        becomes(Outcome.ABORT_ASKED),
        frozenset({"abort_is_asked"}),
    ),
    AbstractStep(
        "commit_is_reported",
        "an application hears that it is committed; of nothing, at once",
        becomes(Outcome.COMMITTED),
        REPORTS | {"commit_is_asked"},
    ),
    AbstractStep(
        "commit_failure_is_reported",
        "an application hears that its commit has failed: it can only abort, or end",
        commit_fails,
        FAILURES,
    ),
    AbstractStep(
        "abort_is_reported",
        "an application hears that it is aborted; of nothing, at once",
        becomes(Outcome.ABORTED),
        REPORTS | {"abort_is_asked"},
    ),
)
"""All ways in which the view changes."""


# Assumptions


@dataclass(frozen=True, slots=True)
class RefinementAssumption:
    """An assumption that the specification makes of the protocol, with a configuration that lacks
    it and departs from the specification, and a twin that has it and does not."""

    name: str
    says: str
    scope: str
    variant: str
    twin_scope: str
    twin_variant: str


def by_variant(
    name: str, says: str, scope: str, variant: str, twin_variant: str
) -> RefinementAssumption:
    """An assumption that some variant lacks; its twin is another variant in the same scope."""
    return RefinementAssumption(name, says, scope, variant, scope, twin_variant)


ASSUMPTIONS: dict[str, RefinementAssumption] = {
    assumption.name: assumption
    for assumption in (
        by_variant(
            "epoch_for_each_transaction",
            "a late EndTxn is known by its epoch: V2, or no EndTxn is late (KAFKA-17754)",
            "transactions-default",
            f"{NEWEST}/level=2/requests=v1",
            f"{NEWEST}/level=2/requests=v2",
        ),
        by_variant(
            "writes_are_verified",
            "a leader asks before the first write of a transaction (KIP-890)",
            "transactions-offsets/begun=1/timeouts=0",
            "3.3.2",
            "3.3.2/verification=asks",
        ),
        by_variant(
            "marker_epochs_are_newer",
            "a marker has a newer epoch than what it ends, or ends nothing (KIP-1228)",
            "transactions-markers/moves=0/marker_losses=0",
            "4.1.2/level=2/requests=v2",
            "4.1.2/level=2/requests=v2/marker_epoch=newer",
        ),
        by_variant(
            "markers_wait_for_leaders",
            "a partition that has no leader gets its marker when it has one (KAFKA-20734)",
            "transactions-leaderless/begun=1",
            f"{NEWEST}/level=2/requests=v2",
            f"{NEWEST}/level=2/requests=v2/leaderless_marker=waits",
        ),
        by_variant(
            "fences_take_an_epoch",
            "a coordinator that ends a transaction of itself takes the next epoch (KAFKA-6119)",
            "transactions-small/delays=0/moves=0/unheard=0",
            f"{NEWEST}/level=2/requests=v1/fence=same_epoch",
            f"{NEWEST}/level=2/requests=v1",
        ),
        RefinementAssumption(
            "offsets_come_in_order",
            "no TxnOffsetCommit is late that a newer one of its transaction has overtaken: it has"
            " no sequence",
            "transactions-offsets-again",
            f"{NEWEST}/level=2/requests=v2",
            "transactions-offsets-again/delays=0",
            f"{NEWEST}/level=2/requests=v2",
        ),
    )
}
