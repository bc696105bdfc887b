"""Producers and leaders under test: their rules as methods, and the shapes of their views.

The model's sequences are mapped to those of the wire (`WireNumbers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from conformance.judging.system import Actor, Many, Payload, Reaction, Shape, View
from model.idempotent.configuration import Configuration, Idempotence

WIRE_MAX_SEQUENCE = 2**31 - 1


class ClientUnderTest(Actor, Protocol):
    """A producer, shaped as CLIENT. Its methods are the rules of `model.idempotent.client`."""

    def send_new(self, partition: int, record_count: int) -> Reaction:
        """The application sends so many records, numbered from those that it has sent."""

    def send_again(self, partition: int) -> Reaction:
        """Time passes until the first batch that waits goes out again."""

    def bump_epoch(self) -> Reaction:
        """Time for what the producer does by itself, without a word to any broker."""

    def on_answer(self, partition: int, answer: Payload, overdue: int) -> Reaction:
        """The answer to its oldest open request arrives."""

    def on_disconnect(self, partition: int, overdue: int) -> Reaction:
        """Its connection to the partition's leader breaks."""

    def wait(self, partition: int) -> None:
        """Time passes while nothing may go to this partition. Fails if something does."""

    def offer(self, partition: int) -> None:
        """The application sends one more record, which has to wait. Fails if it goes out. A copy
        of the producer gets it: this one takes no notice."""

    def ask_copies(self) -> None:
        """Copies of the producer get what no scope has. Fails if they do what they must not."""


class LeaderUnderTest(Actor, Protocol):
    """A partition's leader, shaped as LEADER. Its methods are the rules of
    `model.idempotent.leader`."""

    def on_produce(self, request: Payload) -> Reaction:
        """A request arrives."""

    def on_produce_without_replicas(self, request: Payload) -> Reaction:
        """A request arrives while too few replicas are in sync."""

    def on_invalid_produce(self, request: Payload) -> Reaction:
        """A request arrives whose records the topic does not take."""

    def on_produce_then_unreplicated(self, request: Payload, timed_out: int) -> Reaction:
        """A request arrives, and its batch is stored but not replicated."""

    def advance_high_watermark(self) -> Reaction:
        """The followers have fetched all."""

    def restart(self) -> Reaction:
        """Its broker stops and comes back."""

    def recover(self, covered: int) -> Reaction:
        """Its broker is killed and comes back; the newest snapshot covers so many batches."""

    def fail_over(self, kept: int) -> Reaction:
        """A replica that has the first `kept` batches leads."""

    def expire_producer(self, producer_id: int) -> Reaction:
        """It forgets a producer id that it has not heard of for long."""

    def delete_records(self, deleted: int) -> Reaction:
        """The first `deleted` batches go."""


class SystemUnderTest(Protocol):
    """A system under test. `clients` is empty if the model plays them."""

    @property
    def clients(self) -> Sequence[ClientUnderTest]:
        """By producer."""

    @property
    def leaders(self) -> Sequence[LeaderUnderTest]:
        """By partition."""

    def reset(self, memoised: bool) -> None:
        """All actors begin again, where the scope begins. `memoised`: what one did after the same
        inputs may be looked up; else they do it anew."""

    def request(self, partition: int, request: View) -> Payload:
        """A Produce request, shaped as REQUEST, as a client that the model plays sends it."""


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
"""`acknowledged` and `failed` have bit n set if record n is."""
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
"""The shape of what each actor sends."""


class WireNumbers:
    """The model's sequences as those of the wire.

    The lower half of the model's stay what they are, the upper half are counted from the last one
    down; so 0 and the wrap are where they are on the wire, and sequences keep their order.
    Without idempotence there are none (`are_given`), and nobody lists what is in flight by them.
    """

    def __init__(self, k: Configuration) -> None:
        self.are_given = k.variant.idempotence == Idempotence.ENABLED
        last = k.bounds.max_sequence
        high = WIRE_MAX_SEQUENCE - last
        self._wire = (*(s if s <= last // 2 else s + high for s in range(last + 1)), -1)

    def __getitem__(self, sequence: int) -> int:
        """The wire's number for one of the model; -1, for none, stays."""
        return self._wire[sequence]
