"""Why five: a leader must remember as many batches as may be in flight, and no more.

Theory of operation. The window of a leader and the list of a client are unbounded tuples here.
Their lengths depend on two unknown numbers: W, the number of batches that a leader remembers, and
F, the number that may be in flight. The batches of one epoch are counted 0, 1, 2, ... A leader that
has stored N of them remembers the last W (an induction over N, on the model's own `remember`). A
client's first unfinished batch is at most F before its newest (`send_new`). So if F <= W, a batch
that is sent again is the next one or a remembered one, and is answered correctly (`on_produce`).

The argument needs answers that arrive in the order of their batches. If an error refuses a batch
that is already stored, or arrives after the batch was stored, later batches may be acknowledged
before it. More than F batches can then be stored after a batch in flight, and the window is too
small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from proofs.lift import containers
from proofs.lift.containers import FocusMap, FunctionSeq
from proofs.lift.dag import FALSE, INFINITE, ZERO, Node, ite, leaf
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.engine.sizes import unknown_sizes
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.engine.unknowns import bound, function, number, within
from proofs.prove.idempotent.sequence_arithmetic import MAX_SEQUENCE
from proofs.prove.idempotent.symbolic_state import CLAIMED, PRODUCER, REPLICAS, VARIANT, Builder, P

WINDOW = leaf("window", 1, INFINITE)
IN_FLIGHT = leaf("in_flight", 1, INFINITE)
STORED, SENT, FINISHED = number("stored"), number("sent"), number("finished")
"""The numbers of batches of the epoch that are in the log, were given a sequence, and have
ended."""
BATCHES = leaf("batches", 0, INFINITE)
"""The number of batches of the epoch: finite but arbitrary, because no sequences would suffice for
infinitely many."""
EPOCH = leaf("epoch", 0, INFINITE)
BATCH, ANY, SLOT, OTHER = number("n"), bound("n"), bound("i"), bound("m")


@dataclass(frozen=True, slots=True)
class Numbered:
    """Batch number n of the epoch: its first sequence and its number of records."""

    begin: Node
    count: Node

    @property
    def end(self) -> Node:
        """The sequence after its last one."""
        return self.begin + self.count


def numbered(n: Node) -> Numbered:
    """Return batch number n."""
    return Numbered(function("begin")(n), function("count")(n))


def numbering() -> list[Formula]:
    """Return that batches follow each other without a gap, none is empty, and sequences suffice for
    all."""
    this, next_one, other = numbered(ANY), numbered(ANY + 1), numbered(OTHER)
    counted = (ANY >= 0) & (ANY < BATCHES)
    sound = (this.count >= 1) & (this.end <= MAX_SEQUENCE)
    before = counted & (ANY < OTHER) & (OTHER <= BATCHES)
    return [
        ((), numbered(ZERO).begin.eq(0)),
        ((ANY,), counted.implies(sound & next_one.begin.eq(this.end))),
        ((ANY, OTHER), before.implies(this.end <= other.begin)),
        ((ANY,), within(ANY, 0, BATCHES).implies(this.begin >= 0)),
    ]


class WhyFive:
    """The parts of the model with windows and lists of any length."""

    def __init__(self, model: Model, k: Any) -> None:
        self.model = model
        self.k = k
        self.builder = Builder(model, k)

    def evaluator(self) -> Evaluator:
        """Return an evaluator in which W and F are unknown."""
        return Evaluator(
            self.model,
            self.k,
            overrides={
                **unknown_sizes(self.k.bounds, CLAIMED),
                ("Bounds", "max_sequence"): MAX_SEQUENCE,
                ("Bounds", "replicas"): REPLICAS,
                ("Bounds", "wraps"): FALSE,
                ("Bounds", "window"): WINDOW,
                ("Bounds", "in_flight"): IN_FLIGHT,
                **{("Variant", rule): value for rule, value in VARIANT.items()},
            },
        )

    def sequence_of(self, cls: type, name: str) -> FunctionSeq:
        """Return a tuple of any length, whose elements' fields are functions of their places."""
        return FunctionSeq(number(f"{name}_length"), lambda i: self.builder.record(cls, name, (i,)))

    def entry(self) -> Rec:
        """Return what a leader knows, with a window of any length."""
        leader = self.model.leader
        batches = self.sequence_of(leader.BatchMetadata, "remembered")
        return Rec(
            leader.ProducerStateEntry, {"producer_epoch": number("known"), "batches": batches}
        )

    def batch(self, n: Node) -> Rec:
        """Return batch number n of the epoch, as it is sent."""
        made, described = self.builder.batch("batch"), numbered(n)
        own = {
            "producer_id": P,
            "producer": PRODUCER,
            "producer_epoch": EPOCH,
            "base_sequence": described.begin,
            "record_count": described.count,
        }
        return made.changed(**own)

    def remembers_the_last(self, entry: Rec, stored: Node, at: Node = SLOT) -> list[Formula]:
        """Return that the last W of the stored batches are remembered, in order: the epoch, the
        length, any slot."""
        batches = entry.batches
        if not isinstance(batches, FunctionSeq):
            batches = containers.as_function(self.builder.shapes, batches)
        begun = stored > 0
        epoch = ite(begun, EPOCH, -1)
        length = ite(stored < WINDOW, stored, WINDOW)
        slot = batches.at(at)
        described = numbered(stored - batches.length + at)
        used = (at >= 0) & (at < batches.length)
        is_it = slot.last_sequence.eq(described.end - 1) & slot.offset_delta.eq(described.count - 1)
        return [
            ((), entry.producer_epoch.eq(epoch)),
            ((), batches.length.eq(length)),
            ((SLOT,) if at is SLOT else (), used.implies(is_it)),
        ]

    def window(self) -> Iterator[ProofObligation]:
        """Prove that the window is the last W batches: initially, and after each further batch."""
        entry = self.entry()
        known = self.remembers_the_last(entry, STORED)
        unknown = self.evaluator().lift(self.model.leader.UNKNOWN_PRODUCER)
        stored = Rec(
            self.model.leader.StoredBatch,
            {"batch": self.batch(STORED), "base_offset": number("base_offset")},
        )
        call = self.model.leader.remember
        after = self.evaluator().call(call, [self.k, entry, stored])
        assumed = [*numbering(), *known, ((), (STORED >= 0) & (STORED < BATCHES))]
        begins = self.remembers_the_last(unknown, ZERO)
        goals = self.remembers_the_last(after, STORED + 1)
        for part, first, goal in zip(("epoch", "length", "batches"), begins, goals, strict=True):
            yield obligation(f"initial/window_is_the_last/{part}", numbering(), first)
            yield obligation(f"remember/window_is_the_last/{part}", assumed, goal)

    def sending(self) -> Iterator[ProofObligation]:
        """Prove that a client that sends has at most F batches in flight afterwards."""
        evaluator = self.evaluator()
        client = self.builder.client()
        entry = client.partitions.slots[0]
        in_flight = self.sequence_of(self.model.client.InFlightBatch, "flying")
        entry = entry.changed(in_flight=in_flight)
        slots = tuple(entry for _ in client.partitions.slots)
        partitions = replace(client.partitions, slots=slots)
        client = client.changed(partitions=partitions)
        arguments = [self.k, client, ZERO, number("records_in")]
        step = evaluator.call(self.model.client.send_new, arguments)
        after = step.actor.partitions.slots[0].in_flight
        guards: list[Formula] = [((), x.condition) for x in evaluator.limits if not x.by_scope]
        goal = (after.length <= IN_FLIGHT) & after.length.eq(in_flight.length + 1)
        yield obligation("send_new/at_most_F_in_flight", guards, ((), goal))

    def retry(self) -> Iterator[ProofObligation]:
        """Prove for an unfinished batch that arrives when none before it is missing: it is stored
        once, and answered without error."""
        leader = self.builder.leader()
        entry = self.entry()
        known = FocusMap(P, entry, leader.producers.elsewhere)
        leader = leader.changed(producers=known)
        request = Rec(self.model.messages.ProduceRequest, {"batch": self.batch(BATCH)})
        evaluator = self.evaluator()
        step = evaluator.call(self.model.leader.on_produce, [self.k, leader, request])
        answer = step.sends.slots[0]
        after = step.actor.log.length
        appended = leader.log.length < after
        slot = BATCH - (STORED - entry.batches.length)
        assumed: list[Formula] = [
            *numbering(),
            *self.remembers_the_last(entry, STORED),
            *self.remembers_the_last(entry, STORED, slot),
            *evaluator.choices,
            ((), IN_FLIGHT <= WINDOW),
            ((), within(FINISHED, 0, STORED)),
            ((), within(STORED, 0, SENT)),
            ((), SENT <= BATCHES),
            ((), SENT - FINISHED <= IN_FLIGHT),
            ((), within(BATCH, FINISHED, STORED)),
            ((), BATCH < SENT),
        ]
        is_next = BATCH.eq(STORED)
        for name, goal in (
            ("no_false_error", answer.error.eq(0)),
            ("no_second_copy", appended.implies(is_next)),
            ("next_is_stored", is_next.implies(appended)),
        ):
            yield obligation(f"on_produce/{name}", assumed, ((), goal))


def why_five_lemmas(model: Model, k: Any) -> Iterator[ProofObligation]:
    """Yield all obligations."""
    why = WhyFive(model, k)
    yield from why.window()
    yield from why.sending()
    yield from why.retry()
