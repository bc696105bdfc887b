"""The state of the proofs: one producer at one partition. Only batches in flight and remembered
batches are bounded, both by five.

Theory of operation. The theorems are about any one producer id p at any one partition.

1. The log is a function with a length. Only the batches of p matter; any others may stand between
   them.
2. The network is two predicates that only grow: `sent`, every request p ever sent, and `answers`,
   every success the leader ever answered. Any sent request may arrive at any time, any number of
   times, in any order, and so may any answer that the high watermark permits. Every behaviour of
   connections is one of these.
3. The batches in flight and the batches remembered are five slots each, as in Kafka.
4. No rule reads the ghosts. Ghosts of batches: `numbered`, the batches numbered in an epoch, sent
   in it or not; `position`, a batch's position in its epoch, by epoch and first record (the
   sequence that it would have if sequences had no end); `previous`, the batch that each batch
   followed. Ghosts of the log: `begins`, the position of the batch at a place; `where`, the place
   of the batch that ends at an offset; `cover`, the place of the batch with a position; `told`, the
   place of a success's batch; `place`, the place of an acknowledged record; `history`, what a
   leader knows of p after a replay of a prefix. Ghosts of the open connection: `handled`, how many
   of its requests were handled while their answers are on their way; `refused`, whether any was
   ever refused; `fenced`, whether any was refused for an older epoch; and `epoch_in_turn`: no
   request that the connection still carries has an older epoch, and no late request a newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from proofs.lift.containers import FocusMap, FunctionSeq
from proofs.lift.dag import INFINITE, ZERO, Node, const, ite, leaf
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, Seq
from proofs.prove.engine.assumptions import claimed_by
from proofs.prove.engine.formulas import LiftedGoal, Lifter, RecordSet
from proofs.prove.engine.sizes import PREFIX, Overrides, unknown_sizes
from proofs.prove.engine.smt import Formula
from proofs.prove.engine.step_evaluator import StepEvaluator
from proofs.prove.engine.unknowns import Predicate, Unknowns, function, number, truth
from proofs.prove.idempotent.assumptions import ASSUMPTIONS, OF_CLIENTS, OF_ONE_PRODUCER
from proofs.prove.idempotent.proof_state import (
    FlyingBatch,
    LogEntry,
    Memory,
    PlacedBatch,
    StoredAnswer,
    memory,
)
from proofs.prove.idempotent.sequence_arithmetic import NO_WRAP, SequenceArithmetic

P = leaf("p", 0, INFINITE)
"""The producer id that the theorems are about."""


PRODUCER = leaf("producer", -INFINITE, INFINITE)
"""The producer with this id, whose application sent the records."""
REPLICAS = leaf("replicas", -INFINITE, INFINITE)
RECORDS_IN = leaf("records_in", -INFINITE, INFINITE)
"""The number of records of the application's next batch: any number."""

VARIANT = {
    "first_sequence": leaf("first_sequence", 0, 2),
    "restart_window": leaf("restart_window", 0, 1),
}
"""Rules of the variant that are unknown: the helpers hold for all their values."""
BEFORE_KIP_360 = {
    "recovery": leaf("recovery", 1, 2),
    "head_truncation": leaf("head_truncation", 0, 1),
    "expiry": leaf("expiry", 0, 1),
}
"""Rules that are unknown as well for producers that recover by another producer id."""


CLAIMED = claimed_by(ASSUMPTIONS, (*OF_ONE_PRODUCER, *OF_CLIENTS))
"""The sizes that each theorem about one producer claims."""
IN_FLIGHT, TIMEOUTS = f"{PREFIX}in_flight", f"{PREFIX}faults.timeouts"


def resets(variant: Any) -> bool:
    """Whether a producer recovers by another producer id. See the model's `Recovery`."""
    return bool(variant.recovery > 0)


@dataclass(frozen=True, slots=True)
class ModelText:
    """The parts of the model's text that clauses need: its replay, an entry that knows nothing, and
    guarantees about clients, by name."""

    replayed: Callable[[FocusMap, Rec], FocusMap]
    nothing: Rec
    guaranteed: Callable[[str, Rec], Node]


@dataclass(frozen=True)
class SymbolicState:
    """One state. A batch that p sent is identified by its epoch, record count and first record."""

    regime: SequenceArithmetic
    client: Rec
    leader: Rec
    next_position: Node
    handled: Node
    refused: Node
    fenced: Node
    epoch_in_turn: Node
    sent: Predicate
    numbered: Predicate
    position: Predicate
    answers: Predicate
    begins: Predicate
    where: Predicate
    cover: Predicate
    told: Predicate
    place: Predicate
    previous: Predicate
    history: Callable[[Node], Rec]
    text: ModelText

    def changed(self, **changes: Any) -> SymbolicState:
        """Return the state with parts replaced."""
        return replace(self, **changes)

    @property
    def entry(self) -> Rec:
        """The client's entry of the partition."""
        result: Rec = self.client.partitions.slots[0]
        return result

    @property
    def log(self) -> FunctionSeq:
        """The log."""
        result: FunctionSeq = self.leader.log
        return result


STANDS_AS = {
    "covers": "cover",
    "is_sent": "sent",
    "is_numbered": "numbered",
    "ends_at": "where",
    "copy_of": "place",
}
"""Names of the state's predicates and functions, by the names that clauses use."""


class Seen:
    """A symbolic state as clauses read it: see `proofs.prove.idempotent.proof_state.ProofState`."""

    producer_id, producer = P, PRODUCER

    def __init__(self, state: SymbolicState) -> None:
        self.state = state

    def __getattr__(self, name: str) -> Any:
        """Return the state's attribute of this name, perhaps under another name. Nothing is read
        before a clause asks for it: see `ClauseFormulas`."""
        return getattr(self.state, STANDS_AS.get(name, name))

    @property
    def acknowledged(self) -> Any:
        """The records that are acknowledged."""
        return self.entry.acknowledged

    @property
    def failed(self) -> Any:
        """The records that have failed."""
        return self.entry.failed

    @property
    def high_watermark(self) -> Node:
        """The leader's high watermark."""
        result: Node = self.state.leader.high_watermark
        return result

    @property
    def log(self) -> FunctionSeq:
        """The log."""
        return FunctionSeq(self.state.log.length, self.stored)

    def stored(self, place: Node) -> LogEntry:
        """Return the batch at a place of the log."""
        at = self.state.log.at(place)
        batch: Any = at.batch
        begin: Any = self.state.begins(place)
        return LogEntry(
            epoch=batch.producer_epoch,
            begin=begin,
            count=batch.record_count,
            first=batch.first_record,
            is_ours=batch.producer_id.eq(P),
            producer=batch.producer,
            base_sequence=batch.base_sequence,
            offset=at.base_offset,
        )

    def placed(self, epoch: Any, count: Any, first: Any) -> PlacedBatch:
        """Return the batch of an epoch that has these records."""
        begin: Any = self.position(epoch, first)
        return PlacedBatch(epoch, begin, count, first)

    def batches(self, holds: Predicate) -> RecordSet:
        """Return the set of the batches for which a predicate holds."""
        return RecordSet(holds, ("epoch", "count", "first"), self.placed)

    @property
    def sent(self) -> RecordSet:
        """The batches that p has sent."""
        return self.batches(self.is_sent)

    @property
    def numbered(self) -> RecordSet:
        """The batches that p has numbered."""
        return self.batches(self.is_numbered)

    @property
    def answers(self) -> RecordSet:
        """The successes that a leader has answered."""
        return RecordSet(
            self.state.answers, ("first", "base_offset", "required_offset"), StoredAnswer
        )

    def answered_place(self, answer: StoredAnswer) -> Node:
        """Return the place of a success's batch."""
        return self.state.told(answer.first, answer.base_offset, answer.required_offset)

    @property
    def in_flight(self) -> Seq:
        """The batches in flight, each with its place in the partition's epoch."""
        epoch: Any = self.entry.producer_epoch
        found = []
        for slot in self.entry.in_flight.slots:
            batch: Any = slot.batch
            begin: Any = self.position(epoch, batch.first_record)
            numbers = (epoch, begin, batch.record_count, batch.first_record)
            found.append(FlyingBatch(*numbers, batch, slot.outstanding))
        return Seq(self.entry.in_flight.length, tuple(found))

    @property
    def known(self) -> Memory:
        """The memory of the leader about p."""
        entry: Any = self.state.leader.producers.value
        length: Any = self.state.log.length
        return memory(entry, length)

    @property
    def window_size(self) -> int:
        """The number of batches that a leader remembers."""
        return len(self.state.leader.producers.value.batches.slots)

    def replayed_one_more(self, length: Node) -> Rec:
        """Return the result of the model's replay for the history and the next batch."""
        others = self.state.leader.producers.elsewhere
        producers = FocusMap(P, self.history(length), others)
        result: Rec = self.state.text.replayed(producers, self.state.log.at(length)).value
        return result

    def nothing_known(self) -> Rec:
        """Return what is known of a producer id that was never seen."""
        return self.state.text.nothing

    @property
    def sequences_follow(self) -> Node:
        """The guarantee, in the model's text."""
        return self.state.text.guaranteed("sequences_follow", self.client)


def at_one_partition(client: Rec) -> Rec:
    """Return a client with only the partition of the theorems."""
    return client.changed(partitions=MapValue((client.partitions.slots[0],)))


class Builder(Unknowns):
    """Makes the state of unknowns, for one model."""

    def __init__(self, model: Model, k: Any, regime: SequenceArithmetic = NO_WRAP) -> None:
        super().__init__(k.bounds)
        self.model = model
        self.k = k
        self.regime = regime

    @property
    def unknown(self) -> dict[str, Node]:
        """The rules of the variant that are unknown."""
        return VARIANT | (BEFORE_KIP_360 if resets(self.k.variant) else {})

    @property
    def overrides(self) -> Overrides:
        """The unknowns of the configuration: all sizes except those that are claimed."""
        in_flight = leaf(IN_FLIGHT, 1, self.k.bounds.in_flight)
        given_up = ite(leaf(TIMEOUTS, 0, INFINITE) > 0, in_flight, 0)
        return {
            **unknown_sizes(self.k.bounds, CLAIMED),
            ("Bounds", "in_flight"): in_flight,
            ("Bounds", "given_up"): given_up,
            ("Bounds", "max_sequence"): self.regime.max_sequence,
            ("Bounds", "replicas"): REPLICAS,
            ("Bounds", "wraps"): const(self.regime.wraps),
            **{("Variant", rule): value for rule, value in self.unknown.items()},
        }

    def evaluator(self, **contracts: Callable[..., Any]) -> StepEvaluator:
        """Return an evaluator in which sequences and replicas are unknown."""
        called = {"filled": self.filled, **contracts}
        return StepEvaluator(self.model, self.k, overrides=self.overrides, contracts=called)

    @property
    def lifter(self) -> Lifter:
        """The lifter that reads clauses."""
        return Lifter(self.model, self.k, self.overrides, {}, Seen)

    def filled(self, _evaluator: StepEvaluator, _size: Node, value: Rec) -> FocusMap:
        """Return the map that gives each producer id the same value."""
        return FocusMap(P, value, value)

    def replayed(self, producers: FocusMap, stored: Rec) -> FocusMap:
        """Return the result of the model's replay of one batch."""
        call = self.model.leader.replayed
        result: FocusMap = self.evaluator().call(call, [self.k, producers, stored])
        return result

    def nothing(self) -> Rec:
        """Return what is known of a producer id that was never seen."""
        result: Rec = self.evaluator().lift(self.model.leader.UNKNOWN_PRODUCER)
        return result

    def guaranteed(self, name: str, client: Rec) -> Node:
        """Return a guarantee in the model's text, of a client at the partition of the theorems
        alone."""
        return self.guarantee(name, self.world(clients=MapValue((at_one_partition(client),))))

    def in_words(self, name: str, state: SymbolicState) -> tuple[list[Formula], LiftedGoal]:
        """Return a guarantee in the model's text, with its assumptions: p is the producer id of
        each batch that it reads, its producer has number 0, and sequences begin at 0."""
        lifter = self.lifter
        begun = {("Bounds", "first_sequence"): ZERO}
        lifter = replace(lifter, overrides={**lifter.overrides, **begun})
        clients = MapValue((at_one_partition(state.client).changed(producer=ZERO),))
        world = self.world(clients=clients, leaders=MapValue((state.leader,)))
        goal = lifter.goal(getattr(self.model.guarantees, name), world)
        ours: list[Formula] = [
            ((), e.batch.producer_id.eq(P)) for _, e in goal.records if "batch" in e.fields
        ]
        return [*goal.choices, *ours, ((), PRODUCER.eq(0))], goal

    def world(self, **parts: Any) -> Rec:
        """Return a world of which only some parts are read."""
        hints = self.shapes.hints(self.model.world.World)
        return Rec(self.model.world.World, {**dict.fromkeys(hints, ZERO), **parts})

    def guarantee(self, name: str, world: Rec) -> Node:
        """Return a guarantee in the model's text."""
        guarantee = getattr(self.model.guarantees, name)
        result: Node = self.evaluator().call(guarantee, [self.k, world])
        return result

    def client(self) -> Rec:
        """Return producer p, with the partition of the theorems at index 0 and any other one at
        1."""
        client = self.record(self.model.client.Client, "client")
        return client.changed(producer=PRODUCER, producer_id=P)

    def log(self, at: str = "") -> FunctionSeq:
        """Return any log: each field is a function of the place."""
        batch, name = self.model.leader.StoredBatch, f"{at}log"
        return FunctionSeq(
            number(f"{name}_length"), cache(lambda i: self.record(batch, name, (i,)))
        )

    def leader(self, at: str = "") -> Rec:
        """Return the leader of that partition. Nothing of its log is deleted."""
        entry = self.model.leader.ProducerStateEntry
        known, others = (self.record(entry, f"{at}{name}") for name in ("known", "others"))
        told = {
            "log": self.log(at),
            "log_start_offset": ZERO,
            "producers": FocusMap(P, known, others),
        }
        hints = self.shapes.hints(self.model.leader.Leader)
        rest = {f: self.value(hint, f"{at}{f}") for f, hint in hints.items() if f not in told}
        return Rec(self.model.leader.Leader, {f: {**rest, **told}[f] for f in hints})

    def batch(self, name: str) -> Rec:
        """Return any batch."""
        return self.record(self.model.messages.Batch, name)

    def state(self) -> SymbolicState:
        """Return any state."""
        return self.state_at("", self.client())

    def state_elsewhere(self) -> SymbolicState:
        """Return the same client's state at another partition."""
        client = self.client()
        here, there = client.partitions.slots
        return self.state_at("elsewhere.", client.changed(partitions=MapValue((there, here))))

    def state_at(self, at: str, client: Rec) -> SymbolicState:
        """Return any state at the first of a client's partitions; names begin with `at`."""
        entry = self.model.leader.ProducerStateEntry
        ghosts: dict[str, Any] = {}
        ghosts |= {n: number(f"{at}{n}") for n in ("next_position", "handled", "epoch_in_turn")}
        ghosts |= {n: truth(f"{at}{n}") for n in ("refused", "fenced")}
        ghosts |= {n: function(f"{at}{n}", is_bool=True) for n in ("sent", "numbered", "answers")}
        places = ("position", "begins", "where", "cover", "told", "place", "previous")
        ghosts |= {n: function(f"{at}{n}") for n in places}
        return SymbolicState(
            regime=self.regime,
            client=client,
            leader=self.leader(at),
            history=cache(lambda length: self.record(entry, f"{at}history", (length,))),
            text=ModelText(self.replayed, self.nothing(), self.guaranteed),
            **ghosts,
        )
