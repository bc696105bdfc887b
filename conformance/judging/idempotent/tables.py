"""The model's producers and leaders as tables, and their views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from conformance.judging.idempotent.system import WireNumbers
from conformance.judging.lockstep.events import Events
from conformance.judging.system import View
from conformance.judging.tables import ActorTables
from model.idempotent.client import Client, PartitionEntry
from model.idempotent.configuration import Configuration
from model.idempotent.leader import Leader, ProducerStateEntry
from model.idempotent.messages import Batch, Error, ProduceRequest, ProduceResponse
from model.idempotent.scopes import initial
from proofs.lift.source import load_model


def request_view(wire: WireNumbers, batch: Batch) -> View:
    """A batch of the model, shaped as REQUEST."""
    return (
        batch.producer_id,
        batch.producer_epoch,
        wire[batch.base_sequence],
        batch.record_count,
        batch.first_record,
    )


def answer_view(answer: ProduceResponse) -> View:
    """An answer of the model, shaped as ANSWER."""
    return (
        answer.first_record,
        int(answer.error),
        answer.base_offset,
        answer.required_offset,
        -1 if answer.error == Error.MESSAGE_TOO_LARGE else answer.log_start_offset,
    )


def partition_view(wire: WireNumbers, entry: PartitionEntry) -> View:
    """The knowledge of a model's client about a partition, shaped as PARTITION_ENTRY."""
    return (
        entry.producer_epoch,
        wire[entry.next_sequence],
        wire[entry.last_acked_sequence],
        wire[entry.unresolved_sequence],
        tuple(
            (*request_view(wire, b.batch), b.outstanding, b.sequence_has_been_reset)
            for b in entry.in_flight
            if wire.are_given
        ),
        entry.records_sent,
        sum(1 << n for n in range(entry.records_sent) if n in entry.acknowledged),
        sum(1 << n for n in range(entry.records_sent) if n in entry.failed),
    )


def client_view(wire: WireNumbers, client: Client) -> View:
    """A client of the model, shaped as CLIENT."""
    return (
        client.producer_id,
        client.producer_epoch,
        not client.bump_for.is_empty(),
        tuple(partition_view(wire, entry) for entry in client.partitions.values()),
    )


def entry_view(wire: WireNumbers, entry: ProducerStateEntry) -> View:
    """The state that a model's leader keeps of a producer, shaped as PRODUCER_STATE_ENTRY."""
    return (
        entry.producer_epoch,
        tuple((wire[b.last_sequence], b.last_offset, b.offset_delta) for b in entry.batches),
    )


def leader_view(wire: WireNumbers, leader: Leader) -> View:
    """A leader of the model, shaped as LEADER."""
    return (
        tuple(
            (*request_view(wire, b.batch), b.base_offset)
            for b in leader.log
            if b.base_offset >= leader.log_start_offset
        ),
        leader.log_start_offset,
        leader.high_watermark,
        tuple(entry_view(wire, entry) for entry in leader.producers.values()),
    )


STATE_VIEWS: Mapping[type, Callable[[WireNumbers, Any], View]] = {
    Client: client_view,
    Leader: leader_view,
}


class Tables(ActorTables):
    """Producers and leaders as tables. `world` has the events; `beginning` has the initial
    cells."""

    def __init__(self, k: Configuration) -> None:
        model = load_model("idempotent")
        super().__init__(k, model)
        self._wire = WireNumbers(k)
        self.world = Events(model, k, initial(k))
        self.beginning = tuple(
            self.node(cell.first) if number in self.world.actors else cell.first
            for number, cell in enumerate(self.world.cells)
        )

    def state_view(self, state: Any) -> View:
        """Shaped as CLIENT or LEADER."""
        return STATE_VIEWS[type(state)](self._wire, state)

    def message_view(self, value: Any) -> View:
        """Shaped as REQUEST or ANSWER."""
        is_request = isinstance(value, ProduceRequest)
        return request_view(self._wire, value.batch) if is_request else answer_view(value)

    def errors_in(self, sends: Sequence[Any]) -> Iterator[str]:
        """The errors in answers to Produce."""
        return (m.error.name for m in sends if isinstance(m, ProduceResponse))
