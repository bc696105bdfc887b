"""Finds transactions that are torn across partitions, and those that hang.

The ends in all partitions are joined to transactions:

- A marker whose epoch is newer than its records' ends only one transaction (KIP-890, and whenever a
  coordinator ends a transaction by itself). All markers with this producer id and epoch belong to
  it.
- With one epoch, many transactions may end. If the coordinator's decisions are present, they tell
  which ends belong together: by order and by time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.audit.decisions import CoordinatorLogs, StateRecord
from conformance.audit.kinds import AuditFinding
from conformance.audit.partition_audit import AuditSettings, PartitionAudit, TransactionEnd

At = tuple[str, int]
"""A topic's partition."""
EpochOfMarkers = tuple[int, int]
"""A producer id, and the epoch of its markers."""


@dataclass(slots=True)
class AuditedTransaction:
    """One transaction: its ends by partition, and the coordinator's decision, if known."""

    producer_id: int
    decision: StateRecord | None = None
    ends: dict[At, TransactionEnd] = field(default_factory=dict)

    @property
    def outcomes(self) -> dict[At, str | None]:
        """The outcome of its records at each partition that has any."""
        return {at: end.outcome for at, end in self.ends.items() if end.first_offset >= 0}

    @property
    def decided(self) -> str | None:
        """The coordinator's decision; if it is unknown, the outcome of the markers, if they
        agree."""
        if self.decision is not None:
            return self.decision.outcome
        said = {end.outcome for end in self.ends.values()} - {None}
        return said.pop() if len(said) == 1 else None

    @property
    def is_torn(self) -> bool:
        """Whether readers get only some of its records, or another outcome than the decision."""
        said = set(self.outcomes.values())
        if self.decision is not None:
            said.add(self.decision.outcome)
        return len(said) > 1 and (None not in said or "COMMIT" in said)


def judge_outcomes(
    audits: Sequence[PartitionAudit], coordinators: CoordinatorLogs, settings: AuditSettings
) -> Iterator[AuditFinding]:
    """Findings about transactions, in the order of their first partitions."""
    judge = OutcomeJudge(audits, coordinators, settings)
    torn = [transaction for transaction in judge.transactions() if transaction.is_torn]
    yield from map(finding_of_torn, torn)
    reported = {(at, end) for one in torn for at, end in one.ends.items()}
    for at, end in judge.open:
        if (at, end) not in reported:
            yield judge.finding_of_open(at, end)


class OutcomeJudge:
    """Joins ends to transactions."""

    def __init__(
        self,
        audits: Sequence[PartitionAudit],
        coordinators: CoordinatorLogs,
        settings: AuditSettings,
    ) -> None:
        self._coordinators, self._settings = coordinators, settings
        self._newest = max((audit.newest_timestamp for audit in audits), default=-1)
        self.open = list[tuple[At, TransactionEnd]]()
        self._of_producer = defaultdict[int, dict[At, list[TransactionEnd]]](dict)
        self._own_epoch = defaultdict[EpochOfMarkers, dict[At, TransactionEnd]](dict)
        self._by_epoch = defaultdict[EpochOfMarkers, dict[At, list[TransactionEnd]]](dict)
        for audit in audits:
            at = (audit.topic, audit.partition)
            for end in audit.endings:
                self._of_producer[end.producer_id].setdefault(at, []).append(end)
                if end.outcome is None:
                    self.open.append((at, end))
                    continue
                key = (end.producer_id, end.marker_epoch)
                self._by_epoch[key].setdefault(at, []).append(end)
                if end.has_own_epoch:
                    self._own_epoch[key][at] = end

    def transactions(self) -> Iterator[AuditedTransaction]:
        """All ends that are known to be one transaction: by decisions, or by an epoch of its
        own."""
        decided = self._coordinators.decisions
        for key, decisions in decided.items():
            yield from self._of_decisions(key, decisions)
        for key, ends in self._own_epoch.items():
            if key not in decided:
                yield self._of_own_epoch(key, ends)

    def _of_own_epoch(
        self, key: EpochOfMarkers, ends: Mapping[At, TransactionEnd]
    ) -> AuditedTransaction:
        """One transaction, including records that no marker ended although it is over elsewhere."""
        one = AuditedTransaction(key[0], None, dict(ends))
        for at, all_ends in self._of_producer[key[0]].items():
            last = all_ends[-1]
            is_its = last.outcome is None and last.producer_epoch == key[1] - 1
            if at not in ends and is_its and self._is_old(last):
                one.ends[at] = last
        return one

    def _of_decisions(
        self, key: EpochOfMarkers, decisions: Sequence[StateRecord]
    ) -> Iterator[AuditedTransaction]:
        """The transactions whose markers share an epoch, as the coordinator decided them."""
        found = {one.place: AuditedTransaction(key[0], one) for one in decisions}
        for at in sorted(frozenset[At]().union(*(one.partitions for one in decisions))):
            here = [one for one in decisions if at in one.partitions]
            ends = dict(align(here, self._by_epoch[key].get(at, [])))
            all_ends = self._of_producer[key[0]].get(at, [])
            for decision in here:
                end = ends.get(decision) or self._ended_otherwise(decision, all_ends)
                if end is not None:
                    found[decision.place].ends[at] = end
        yield from (one for one in found.values() if one.ends)

    def _ended_otherwise(
        self, decision: StateRecord, ends: Iterable[TransactionEnd]
    ) -> TransactionEnd | None:
        """The fate of records whose partition lacks the decision's marker: they are open, or the
        marker of a later transaction ended them."""
        if self._coordinators.is_pending(decision) or not self._is_settled(decision):
            return None
        return next((end for end in ends if is_open_at(end, decision)), None)

    def _is_settled(self, decision: StateRecord) -> bool:
        """Whether its markers must have been written before the partitions were read."""
        age_ms = self._newest - decision.timestamp
        return not self._settings.is_live or age_ms > self._settings.max_transaction_ms

    def _is_old(self, end: TransactionEnd) -> bool:
        """Whether its marker is overdue. If coordinators were working, or not all of their logs are
        present, age alone decides."""
        if self._coordinators.is_complete and not self._settings.is_live:
            return True
        return self._newest - end.first_timestamp > self._settings.max_transaction_ms

    # Open transactions

    def finding_of_open(self, at: At, end: TransactionEnd) -> AuditFinding:
        """The finding for a transaction without an end: whether it hangs, and since when."""
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

    def _hangs(self, at: At, end: TransactionEnd) -> tuple[bool, str]:
        if not self._coordinators.is_there:
            return self._is_old(end), "no coordinator's log is there"
        known = self._coordinators.latest.get(end.producer_id)
        if known is None or known.state is None:
            return self._is_old(end), "knows no such producer id"
        title = known.state.title
        if at in known.partitions and known.producer_epoch >= end.producer_epoch:
            return False, f"{title}, with this partition"
        return self._is_old(end), f"{title} at epoch {known.producer_epoch}, without this partition"


def is_open_at(end: TransactionEnd, decision: StateRecord) -> bool:
    """Whether records were open at the time of a decision, under its epoch or the one before."""
    is_its = end.producer_epoch <= decision.producer_epoch and end.first_offset >= 0
    is_begun = is_its and end.first_timestamp <= decision.timestamp
    return is_begun and (end.outcome is None or end.timestamp > decision.timestamp)


def align(
    decisions: Sequence[StateRecord], ends: Sequence[TransactionEnd]
) -> Iterable[tuple[StateRecord, TransactionEnd]]:
    """Assigns ends to decisions: by time, or, if clocks differ, from the last one backwards. If
    neither explains the log, by time."""
    timed = list(by_time(decisions, ends))
    if len(timed) == len(decisions) and agree(timed):
        return timed
    ordered = list(zip(reversed(decisions), reversed(ends), strict=False))
    return ordered if len(ordered) == len(decisions) and agree(ordered) else timed


def agree(pairs: Iterable[tuple[StateRecord, TransactionEnd]]) -> bool:
    """Whether each end has the decision's outcome."""
    return all(decision.outcome == end.outcome for decision, end in pairs)


def by_time(
    decisions: Sequence[StateRecord], ends: Sequence[TransactionEnd]
) -> Iterator[tuple[StateRecord, TransactionEnd]]:
    """Each decision with the first marker between it and the next decision."""
    following = [one.timestamp for one in decisions[1:]] + [1 << 62]
    for decision, until in zip(decisions, following, strict=True):
        fitting = (end for end in ends if decision.timestamp <= end.timestamp < until)
        end = next(fitting, None)
        if end is not None:
            yield decision, end


def finding_of_torn(one: AuditedTransaction) -> AuditFinding:
    """The finding at the partition that differs from the decision, or at the first partition."""
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
