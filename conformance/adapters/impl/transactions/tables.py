"""The model's transactional actors as tables, and the part of them that is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from conformance.adapters.impl.transactions.client import seen_offsets, seen_partition
from conformance.adapters.impl.transactions.coordinator import NOTHING
from conformance.adapters.impl.transactions.messages import NONE, UNSTABLE, requests_of
from conformance.generate.models import model_of_configuration
from conformance.judging.lockstep.events import Events
from conformance.judging.system import View
from conformance.judging.tables import MAX_ROWS, ActorTables, InternedState
from proofs.lift.source import Model


class TransactionTables(ActorTables):
    """Instances, their coordinator and leaders: the initial state of the scope, and all that
    follow."""

    def __init__(self, k: Any, model: Model) -> None:
        super().__init__(k, model)
        self.is_v2 = bool(model.messages.speaks_v2(k))
        self._state_views: dict[type[Any], Callable[[Any], View]] = {
            model.client.Client: self._client_view,
            model.coordinator.Coordinator: coordinator_view,
            model.leader.Leader: self._leader_view,
        }
        self._message_views: dict[type[Any], Callable[[Any], View]] = {
            model.messages.Request: self._request_view,
            model.messages.Answer: answer_view,
            model.messages.ProduceAnswer: produce_answer_view,
            model.messages.Marker: marker_view,
            model.messages.Error: int,
            bool: bool,
        }
        self._shown: dict[tuple[str, InternedState], View] = {}

    @cached_property
    def world(self) -> Events:
        """The events of the configuration."""
        return Events(self.model, self.k, self.model.scopes.initial(self.k), self.message)

    def view_of(self, kind: str, node: InternedState) -> View:
        """A state in the shape of its kind."""
        if kind not in ("leader", "group"):
            return node.view
        view = self._shown.get((kind, node))
        if view is None:
            if len(self._shown) > MAX_ROWS:
                self._shown.clear()
            view = self._shown[kind, node] = self._with_reads(kind, node)
        return view

    def _with_reads(self, kind: str, node: InternedState) -> View:
        log, stable = node.state.log, node.view[-1]
        view = (*node.view, read_committed(log, stable))
        return view if kind == "leader" else (*view, offsets_view(log))

    def state_view(self, state: Any) -> View:
        """Shaped as CLIENT, COORDINATOR or LEADER."""
        return self._state_views[type(state)](state)

    def message_view(self, value: Any) -> View:
        """Shaped as REQUEST, ANSWER or MARKER; an error as its number."""
        return self._message_views[type(value)](value)

    def errors_in(self, sends: Sequence[Any]) -> Iterator[str]:
        """The errors of all answers."""
        for message in sends:
            error = getattr(message, "error", message)
            if isinstance(error, self.model.messages.Error):
                yield error.name

    def _client_view(self, client: Any) -> View:
        state, outcomes = client.state.name, outcomes_of(client)
        who = client.producer_id, client.producer_epoch
        if state == "FATAL_ERROR":
            return (state, *who, None, (), outcomes)
        bump = client.must_bump and state != "INITIALIZING"
        is_of_group = self.model.messages.is_of_group
        partitions = tuple(
            seen_offsets(state, p.membership.name, p.write.name, self.is_v2)
            if is_of_group(self.k, number)
            else seen_partition(
                state,
                p.membership.name,
                p.write.name,
                tuple(b.base_sequence for b in p.earlier),
                p.next_sequence,
                self.is_v2,
                bump,
            )
            for number, p in client.partitions.items()
        )
        return (state, *who, bump, partitions, outcomes)

    def _request_view(self, request: Any) -> View:
        api_key = int(request.api)
        return (api_key, requests_of(api_key, self.is_v2), *content_view(request))

    def _leader_view(self, leader: Any) -> View:
        return (
            tuple(stored_view(stored) for stored in leader.log),
            tuple(
                (
                    e.producer_epoch,
                    e.coordinator_epoch,
                    e.last_sequence,
                    e.remembered,
                    e.current_txn_first_offset,
                )
                for e in leader.producers.values()
            ),
            tuple((v.producer_epoch, v.lowest_sequence) for v in leader.verifications.values()),
            self.model.leader.last_stable_offset(self.k, leader),
        )


def tables_of(k: Any) -> TransactionTables:
    """The tables of a configuration."""
    return TransactionTables(k, model_of_configuration(k))


def outcomes_of(client: Any) -> View:
    """The outcomes of the transactions that have begun. An abort that takes a new epoch ends when
    the epoch has arrived, or never."""
    told = [outcome.name for outcome in client.outcomes.values()[: client.begun]]
    takes_epoch = client.state.name in ("INITIALIZING", "FATAL_ERROR") and not client.too_late
    if takes_epoch and told[-1:] == ["ABORTED"]:
        told[-1] = "ABORT_ASKED"
    return tuple(told)


def metadata_view(known: Any) -> View:
    """Shaped as METADATA; the previous producer id is shown only if it is a different one."""
    metadata = known.metadata
    partitions = metadata.partitions.values()
    if metadata.state.name == "ABSENT":
        return (*NOTHING, partitions)
    previous = known.previous_producer_id
    return (
        metadata.state.name,
        metadata.producer_id,
        metadata.producer_epoch,
        known.last_producer_epoch,
        NONE if previous == metadata.producer_id else previous,
        known.next_producer_id,
        partitions,
    )


def coordinator_view(coordinator: Any) -> View:
    """Shaped as COORDINATOR."""
    metadata = coordinator.known.metadata
    nothing = (*NOTHING, (False,) * len(metadata.partitions.values()))
    waits = metadata.state.name.startswith("PREPARE") and not coordinator.is_stopped
    return (
        coordinator.leadership.name,
        metadata_view(coordinator.known),
        metadata_view(coordinator.log),
        metadata_view(coordinator.image) if coordinator.is_appending else nothing,
        metadata.partitions.values() if waits else nothing[-1],
        coordinator.coordinator_epoch,
        coordinator.given_producer_ids,
    )


def stored_view(stored: Any) -> View:
    """One offset of a log."""
    who = stored.producer_id, stored.producer_epoch
    if stored.kind.name != "DATA":
        return (stored.kind.name, *who, None, None)
    return (stored.kind.name, *who, stored.sequence, record_in(stored))


def record_in(stored: Any) -> tuple[int, int, int]:
    """The content of a record."""
    return stored.instance, stored.transaction, stored.number


def read_committed(log: Sequence[Any], stable: int) -> View:
    """The records that a reader of committed records gets: those below the last stable offset whose
    producer's next marker is a COMMIT. `CompletedFetch.nextFetchedRecord`, KIP-98."""
    committed: set[int] = set()
    found = []
    for offset in reversed(range(len(log))):
        stored = log[offset]
        if stored.kind.name == "COMMIT":
            committed.add(stored.producer_id)
        elif stored.kind.name == "ABORT":
            committed.discard(stored.producer_id)
        elif stored.kind.name == "DATA" and stored.producer_id in committed and offset < stable:
            found.append(record_in(stored))
    return tuple(reversed(found))


def offsets_view(log: Sequence[Any]) -> View:
    """The visible and pending commits in a log of one key.
    `GroupMetadata.completePendingTxnOffsetCommit`, KIP-447."""
    committed, pending = (NONE, None), dict[int, tuple[int, Any]]()
    for offset, stored in enumerate(log):
        if stored.kind.name == "DATA":
            pending[stored.producer_id] = (offset, record_in(stored))
            continue
        ended = pending.pop(stored.producer_id, (NONE, None))
        if stored.kind.name == "COMMIT" and ended[0] > committed[0]:
            committed = ended
    waiting = tuple((who, record) for who, (_, record) in sorted(pending.items()))
    return (committed[1], UNSTABLE if waiting else committed[1], waiting)


def content_view(request: Any) -> View:
    """The content of a request, from REQUEST's `producer_id` on."""
    api, batch = request.api.name, request.batch
    if api == "PRODUCE":
        who, record = (batch.producer_id, batch.producer_epoch), record_in(batch)
        return (*who, None, None, request.partition, batch.base_sequence, record)
    if api == "TXN_OFFSET_COMMIT":
        who = batch.producer_id, batch.producer_epoch
        return (*who, None, None, request.partition, NONE, record_in(batch))
    adds, ends = api in ("ADD_PARTITIONS_TO_TXN", "ADD_OFFSETS_TO_TXN"), api == "END_TXN"
    return (
        request.producer_id,
        request.producer_epoch,
        request.partitions.values() if adds else None,
        request.committed if ends else None,
        None,
        None,
        None,
    )


def answer_view(answer: Any) -> View:
    """Shaped as ANSWER."""
    return (int(answer.error), answer.producer_id, answer.producer_epoch, NONE)


def produce_answer_view(answer: Any) -> View:
    """Shaped as ANSWER."""
    return (int(answer.error), NONE, NONE, answer.base_offset)


def marker_view(marker: Any) -> View:
    """Shaped as MARKER."""
    return (
        marker.producer_id,
        marker.producer_epoch,
        marker.committed,
        marker.coordinator_epoch,
        marker.partition,
    )
