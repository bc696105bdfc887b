"""The guarantees that a transactional run shows: compares the outcomes that its application
received with the records that a read_committed consumer sees in the logs.

A run counts only if its client ended, and no other producer took its transactional id: in that case
the transaction under way may end either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from conformance.adapters.clients.trace import (
    ABORTED,
    COMMITTED,
    ClientTrace,
    CoordinatorRequested,
    Record,
    WireBatch,
)
from conformance.adapters.clients.transactional_plan import TransactionalPlan
from conformance.judging.guaranteed import HOLDS, NOT_EXERCISED, VIOLATED, ObservedProperties
from impl.protocol.schemas import ApiKey


@dataclass(frozen=True, slots=True)
class Visible:
    """A run as its reader sees it: `records` has the committed ones, partition by partition."""

    trace: ClientTrace
    plan: TransactionalPlan
    records: Sequence[Record]

    def of(self, transaction: int) -> list[Record]:
        """The visible records of one transaction."""
        known = self.plan.transaction_of
        return [record for record in self.records if known.get(record) == transaction]

    def told(self, end: str) -> list[int]:
        """The transactions whose end was reported to the application in this way."""
        return [number for number, told in self.trace.ends.items() if told == end]

    def has_all(self, transaction: int) -> bool:
        """Whether each record of a transaction is visible."""
        return len(set(self.of(transaction))) == len(self.plan.transactions[transaction].sends)


def visible_of(trace: ClientTrace) -> Visible:
    """The records that a read_committed consumer sees."""
    assert isinstance(trace.plan, TransactionalPlan)
    found: list[Record] = []
    open_batches: dict[tuple[int, int], list[WireBatch]] = {}
    for batch in trace.stored:
        key = (batch.partition, batch.producer_id)
        if batch.marker:
            ended = open_batches.pop(key, [])
            found += records_in(ended) if batch.marker == "COMMIT" else []
        elif batch.is_transactional:
            open_batches.setdefault(key, []).append(batch)
        else:
            found += records_in([batch])
    return Visible(trace, trace.plan, found)


def records_in(batches: Sequence[WireBatch]) -> list[Record]:
    """The records of some batches."""
    return [(batch.partition, number) for batch in batches for number in batch.records]


# The guarantees, named as in the model


def no_lost_write(seen: Visible) -> bool:
    """Of whom the application was told that it is committed, all is visible."""
    return all(seen.has_all(number) for number in seen.told(COMMITTED))


def no_aborted_read(seen: Visible) -> bool:
    """Of whom the application was told that it is aborted, nothing is visible."""
    return not any(seen.of(number) for number in seen.told(ABORTED))


def all_or_none(seen: Visible) -> bool:
    """Of each transaction all is visible, or nothing."""
    numbers = range(len(seen.plan.transactions))
    return all(seen.has_all(number) or not seen.of(number) for number in numbers)


def acked_once(seen: Visible) -> bool:
    """No record is visible twice."""
    return len(set(seen.records)) == len(seen.records)


def order_kept(seen: Visible) -> bool:
    """In each partition records are visible in the order in which they were sent."""
    pairs = pairwise(seen.records)
    return all(a[1] < b[1] for a, b in pairs if a[0] == b[0])


def offsets_with_outcome(seen: Visible) -> bool:
    """The group's offset is that of the last transaction that was committed with one."""
    given = {n: one.offset for n, one in enumerate(seen.plan.transactions)}
    unknown = [n for n in given if seen.trace.ends.get(n) not in (COMMITTED, ABORTED)]
    committed = [given[n] for n in seen.told(COMMITTED) if given[n] is not None]
    allowed = {committed[-1] if committed else None, *(given[n] for n in unknown)}
    return seen.trace.offset in allowed


GUARANTEES: Final[Mapping[str, Callable[[Visible], bool]]] = {
    check.__name__: check
    for check in (
        no_lost_write,
        no_aborted_read,
        all_or_none,
        acked_once,
        order_kept,
        offsets_with_outcome,
    )
}

NEEDS: Final = {"no_lost_write": COMMITTED, "no_aborted_read": ABORTED}
"""The outcomes that an application must have received for a guarantee to be exercised."""


def observe_transactions(trace: ClientTrace) -> ObservedProperties:
    """The guarantees that a run breaks; `met` are those that it exercises."""
    if trace.problem:
        return ObservedProperties()
    seen = visible_of(trace)
    tested = {name for name in GUARANTEES if is_tested(name, trace)}
    broken = {name for name in tested if not GUARANTEES[name](seen)}
    return ObservedProperties(frozenset(broken), frozenset(tested))


def is_tested(name: str, trace: ClientTrace) -> bool:
    """Whether a run exercises a guarantee."""
    if name in NEEDS:
        return NEEDS[name] in trace.ends.values()
    if name == "offsets_with_outcome":
        offsets = ApiKey.TXN_OFFSET_COMMIT.name
        return any(isinstance(e, CoordinatorRequested) and e.api == offsets for e in trace.events)
    return COMMITTED in trace.ends.values()


def states(seen: ObservedProperties) -> dict[str, str]:
    """Each guarantee: violated, holds, or not exercised."""
    return {
        name: VIOLATED if name in seen.broken else HOLDS if name in seen.met else NOT_EXERCISED
        for name in GUARANTEES
    }
