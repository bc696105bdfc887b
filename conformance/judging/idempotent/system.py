"""The interface of producers and leaders under test: rules as methods, and the shapes of views.

`WireNumbers` maps the model's sequences to those of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from conformance.judging.system import Actor, Many, Payload, Reaction, Shape, View
from model.idempotent.configuration import Configuration, Idempotence

WIRE_MAX_SEQUENCE = 2**31 - 1


class ClientUnderTest(Actor, Protocol):
    """A producer; its view has the shape CLIENT. Its methods are the rules of
    `model.idempotent.client`."""

    def send_new(self, partition: int, record_count: int) -> Reaction:
        """The application sends this many records, numbered after those that it has sent."""

    def send_again(self, partition: int) -> Reaction:
        """Time passes until the producer retries the first waiting batch."""

    def bump_epoch(self) -> Reaction:
        """Time passes for what the producer does by itself, without a word to any broker."""

    def on_answer(self, partition: int, answer: Payload, overdue: int) -> Reaction:
        """The producer receives the answer to its oldest open request."""

    def on_disconnect(self, partition: int, overdue: int) -> Reaction:
        """The producer's connection to the partition's leader breaks."""

    def wait(self, partition: int) -> None:
        """Time passes while nothing may be sent to this partition. Fails if the producer sends
        something."""

    def offer(self, partition: int) -> None:
        """The application sends one more record, which has to wait. Fails if the producer sends it.
        A copy of the producer gets the record; this producer is not affected."""

    def ask_copies(self) -> None:
        """Copies of the producer get inputs that no scope has. Fails if a copy does what it must
        not."""


class LeaderUnderTest(Actor, Protocol):
    """The leader of a partition; its view has the shape LEADER. Its methods are the rules of
    `model.idempotent.leader`."""

    def on_produce(self, request: Payload) -> Reaction:
        """A Produce request arrives."""

    def on_produce_without_replicas(self, request: Payload) -> Reaction:
        """A Produce request arrives while too few replicas are in sync."""

    def on_invalid_produce(self, request: Payload) -> Reaction:
        """A Produce request arrives with records that the topic does not accept."""

    def on_produce_then_unreplicated(self, request: Payload, timed_out: int) -> Reaction:
        """A Produce request arrives; its batch is stored but not replicated."""

    def advance_high_watermark(self) -> Reaction:
        """The followers have fetched the whole log."""

    def restart(self) -> Reaction:
        """The leader's broker stops and comes back."""

    def recover(self, covered: int) -> Reaction:
        """The leader's broker is killed and comes back; the newest snapshot covers this many
        batches."""

    def fail_over(self, kept: int) -> Reaction:
        """A replica that has the first `kept` batches becomes leader."""

    def expire_producer(self, producer_id: int) -> Reaction:
        """The leader forgets a producer id from which it has heard nothing for long."""

    def delete_records(self, deleted: int) -> Reaction:
        """The leader deletes the first `deleted` batches."""


class SystemUnderTest(Protocol):
    """A system under test. `clients` is empty if the model plays them."""

    @property
    def clients(self) -> Sequence[ClientUnderTest]:
        """The producers under test, by producer."""

    @property
    def leaders(self) -> Sequence[LeaderUnderTest]:
        """The leaders under test, by partition."""

    def reset(self, memoised: bool) -> None:
        """Put all actors into the initial state of the scope. If `memoised`, the result of an
        actor's step may be looked up by its inputs; else the actor computes each step anew."""

    def request(self, partition: int, request: View) -> Payload:
        """A Produce request of a client that the model plays, as the system represents it.
        `request` has the shape REQUEST."""


REQUEST: Mapping[str, Shape] = dict.fromkeys(
    ("producer_id", "producer_epoch", "base_sequence", "record_count", "first_record")
)
ANSWER: Mapping[str, Shape] = dict.fromkeys(
    ("first_record", "error", "base_offset", "required_offset", "log_start_offset")
)
IN_FLIGHT: Mapping[str, Shape] = {
    **REQUEST,
    "outstanding": None,
    "sequence_has_been_reset": None,
}
PARTITION_ENTRY: Mapping[str, Shape] = {
    "producer_epoch": None,
    "next_sequence": None,
    "last_acked_sequence": None,
    "unresolved_sequence": None,
    "in_flight": Many(IN_FLIGHT),
    "records_sent": None,
    "acknowledged": None,
    "failed": None,
}
"""`acknowledged` and `failed` have bit n set if record n is in them."""
CLIENT: Mapping[str, Shape] = {
    "producer_id": None,
    "producer_epoch": None,
    "bump_is_due": None,
    "partitions": Many(PARTITION_ENTRY),
}
STORED_BATCH: Mapping[str, Shape] = {**REQUEST, "base_offset": None}
BATCH_METADATA: Mapping[str, Shape] = dict.fromkeys(
    ("last_sequence", "last_offset", "offset_delta")
)
PRODUCER_STATE_ENTRY: Mapping[str, Shape] = {
    "producer_epoch": None,
    "batches": Many(BATCH_METADATA),
}
LEADER: Mapping[str, Shape] = {
    "log": Many(STORED_BATCH),
    "log_start_offset": None,
    "high_watermark": None,
    "producers": Many(PRODUCER_STATE_ENTRY),
}
SHAPES: Mapping[str, Mapping[str, Shape]] = {"client": CLIENT, "leader": LEADER}
"""The shape of each actor's state."""
SENT: Mapping[str, Mapping[str, Shape]] = {"client": REQUEST, "leader": ANSWER}
"""The shape of the messages that each actor sends."""


class WireNumbers:
    """Maps the model's sequences to those of the wire.

    The lower half of the model's sequences keep their numbers; the upper half are counted down from
    the last sequence. So 0 and the wrap are where they are on the wire, and sequences keep their
    order. Without idempotence batches have no sequences (`are_given`), and views do not list the
    batches in flight by sequence.
    """

    def __init__(self, k: Configuration) -> None:
        self.are_given = k.variant.idempotence == Idempotence.ENABLED
        last = k.bounds.max_sequence
        high = WIRE_MAX_SEQUENCE - last
        self._wire = (*(s if s <= last // 2 else s + high for s in range(last + 1)), -1)

    def __getitem__(self, sequence: int) -> int:
        """The wire's number of one of the model's sequences; -1, which stands for none, stays
        -1."""
        return self._wire[sequence]
