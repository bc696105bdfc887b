"""Transactions across partitions: torn ones, and those that hang.

The ends that partitions have are put together as transactions:

- A marker of a newer epoch than its records ends one transaction alone (KIP-890, and whenever a
  coordinator ends a transaction by itself): all markers of that producer id and epoch belong
  together.
- Of one epoch, many transactions may end. Which ends belong together is known where the
  coordinator's decisions are: by order and by time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.audit.decisions import Coordinators, StateRecord
from conformance.audit.kinds import AuditFinding
from conformance.audit.partition import AuditSettings, Ending, PartitionAudit

At = tuple[str, int]
"""A topic's partition."""


@dataclass(slots=True)
class AuditedTransaction:
    """One transaction: its ends by partition, and what its coordinator decided, if that is
    known."""

    producer_id: int
    decision: StateRecord | None = None
    ends: dict[At, Ending] = field(default_factory=dict)

    @property
    def outcomes(self) -> dict[At, str | None]:
        """The outcome of its records at each partition that has some."""
        return {at: end.outcome for at, end in self.ends.items() if end.first_offset >= 0}

    @property
    def decided(self) -> str | None:
        """The coordinator's decision; without it what markers say, if they agree."""
        if self.decision is not None:
            return self.decision.outcome
        said = {end.outcome for end in self.ends.values()} - {None}
        return said.pop() if len(said) == 1 else None

    @property
    def is_torn(self) -> bool:
        """Whether some of its records are shown and others are not, or not as was decided."""
        said = set(self.outcomes.values())
        if self.decision is not None:
            said.add(self.decision.outcome)
        return len(said) > 1 and (None not in said or "COMMIT" in said)


def judge_outcomes(
    audits: Sequence[PartitionAudit], coordinators: Coordinators, settings: AuditSettings
) -> Iterator[AuditFinding]:
    """Findings about transactions, in the order of their first partitions."""
    judge = OutcomeJudge(audits, coordinators, settings)
    torn = [transaction for transaction in judge.transactions() if transaction.is_torn]
    yield from map(finding_of_torn, torn)
    told = {(at, end) for one in torn for at, end in one.ends.items()}
    for at, end in judge.open:
        if (at, end) not in told:
            yield judge.finding_of_open(at, end)


class OutcomeJudge:
    """Puts ends together as transactions."""

    def __init__(
        self,
        audits: Sequence[PartitionAudit],
        coordinators: Coordinators,
        settings: AuditSettings,
    ) -> None:
        self._coordinators, self._settings = coordinators, settings
        self._newest = max((audit.newest_timestamp for audit in audits), default=-1)
        self.open = list[tuple[At, Ending]]()
        self._own_epoch = defaultdict[tuple[int, int], list[tuple[At, Ending]]](list)
        self._shared = defaultdict[tuple[int, int, At], list[Ending]](list)
        for audit in audits:
            for end in audit.endings:
                self._sort(((audit.topic, audit.partition)), end)
        self._open_of = defaultdict[int, dict[At, Ending]](dict)
        for at, end in self.open:
            self._open_of[end.producer_id][at] = end

    def _sort(self, at: At, end: Ending) -> None:
        if end.outcome is None:
            self.open.append((at, end))
        elif end.has_own_epoch:
            self._own_epoch[end.producer_id, end.marker_epoch].append((at, end))
        else:
            self._shared[end.producer_id, end.marker_epoch, at].append(end)

    def transactions(self) -> Iterator[AuditedTransaction]:
        """All transactions that are known to be one."""
        for key, ends in self._own_epoch.items():
            decisions = self._coordinators.decided(*key)
            one = AuditedTransaction(key[0], decisions[0] if len(decisions) == 1 else None)
            one.ends.update(ends)
            self._add_open(one, {at for at, _ in ends}, key[1])
            yield one
        for (producer_id, epoch), decisions in self._coordinators.decisions.items():
            yield from self._of_shared_epoch(producer_id, epoch, decisions)

    def _add_open(self, one: AuditedTransaction, known: set[At], marker_epoch: int) -> None:
        """Records that no marker ended, although the transaction is over elsewhere."""
        pending = one.decision is not None and self._coordinators.is_pending(one.decision)
        for at, end in self._open_of.get(one.producer_id, {}).items():
            is_its = at not in known and end.producer_epoch == marker_epoch - 1
            if is_its and not pending and self._is_old(end):
                one.ends[at] = end

    def _is_old(self, end: Ending) -> bool:
        """Whether its marker should be there: coordinators and partitions were not read at one
        moment where they were at work."""
        if self._coordinators.is_there and not self._settings.is_live:
            return True
        return self._newest - end.first_timestamp > self._settings.max_transaction_ms

    def _of_shared_epoch(
        self, producer_id: int, epoch: int, decisions: Sequence[StateRecord]
    ) -> Iterator[AuditedTransaction]:
        """Transactions that ended with the epoch of their records."""
        found = {one.place: AuditedTransaction(producer_id, one) for one in decisions}
        for at in sorted(set().union(*(one.partitions for one in decisions))):
            here = [one for one in decisions if at in one.partitions]
            ends = self._shared.get((producer_id, epoch, at), [])
            for decision, end in align(here, ends):
                found[decision.place].ends[at] = end
            is_open = self._open_of.get(producer_id, {}).get(at)
            if is_open is not None and self._is_skipped(here[-1], ends, is_open):
                found[here[-1].place].ends[at] = is_open
        yield from (one for one in found.values() if one.ends)

    def _is_skipped(self, decision: StateRecord, ends: Sequence[Ending], is_open: Ending) -> bool:
        """Whether the open records came before the decision, whose marker is not there."""
        key = (decision.producer_id, decision.producer_epoch)
        is_its = is_open.producer_epoch in (key[1], key[1] - 1) and key not in self._own_epoch
        return (
            is_its
            and is_open.first_timestamp <= decision.timestamp
            and not any(end.timestamp >= decision.timestamp for end in ends)
            and not self._coordinators.is_pending(decision)
        )

    # Open transactions

    def finding_of_open(self, at: At, end: Ending) -> AuditFinding:
        """Whether a transaction without an end hangs, and since when."""
        is_hanging, why = self._hangs(at, end)
        known = self._coordinators.latest.get(end.producer_id)
        details: dict[str, Any] = {
            "open_since_ms": end.first_timestamp,
            "coordinator": why,
            "transactional_id": None if known is None else known.transactional_id,
        }
        if end.behind >= 0:
            details["behind_marker"] = end.behind
        return AuditFinding(
            "hanging" if is_hanging else "in_progress",
            *at,
            end.first_offset,
            end.producer_id,
            end.producer_epoch,
            details,
        )

    def _hangs(self, at: At, end: Ending) -> tuple[bool, str]:
        if not self._coordinators.is_there:
            return self._is_old(end), "no coordinator's log is there"
        known = self._coordinators.latest.get(end.producer_id)
        if known is None or known.state is None:
            return self._is_old(end), "knows no such producer id"
        title = known.state.title
        if at in known.partitions and known.producer_epoch >= end.producer_epoch:
            return False, f"{title}, with this partition"
        return self._is_old(end), f"{title} at epoch {known.producer_epoch}, without this partition"


def align(
    decisions: Sequence[StateRecord], ends: Sequence[Ending]
) -> Iterable[tuple[StateRecord, Ending]]:
    """Which end is of which decision: by time, or, where clocks differ, from the last one on. Where
    neither explains the log, by time."""
    timed = list(by_time(decisions, ends))
    if all(decision.outcome == end.outcome for decision, end in timed):
        return timed
    ordered = list(zip(reversed(decisions), reversed(ends), strict=False))
    explains = all(decision.outcome == end.outcome for decision, end in ordered)
    return ordered if explains else timed


def by_time(
    decisions: Sequence[StateRecord], ends: Sequence[Ending]
) -> Iterator[tuple[StateRecord, Ending]]:
    """Each decision with the first marker between it and the next."""
    following = [one.timestamp for one in decisions[1:]] + [1 << 62]
    for decision, until in zip(decisions, following, strict=True):
        fitting = (end for end in ends if decision.timestamp <= end.timestamp < until)
        end = next(fitting, None)
        if end is not None:
            yield decision, end


def finding_of_torn(one: AuditedTransaction) -> AuditFinding:
    """At the partition that differs from what was decided, or from the first."""
    outcomes = one.outcomes
    first = one.decided or outcomes[min(outcomes)]
    at = min(at for at, outcome in outcomes.items() if outcome != first)
    end = one.ends[at]
    return AuditFinding(
        "torn",
        *at,
        end.first_offset,
        end.producer_id,
        end.producer_epoch,
        {
            "transactional_id": one.decision.transactional_id if one.decision else None,
            "decided": one.decision.outcome if one.decision else None,
            "outcomes": {f"{t}-{p}": said or "none" for (t, p), said in sorted(outcomes.items())},
        },
    )
