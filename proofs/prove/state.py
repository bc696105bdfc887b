"""The state of the proofs: one producer at one partition, with nothing bounded but five.

Theory of operation. The theorems are about any one producer id p at any one partition.

1. The log is a function with a length; of its batches those of p matter, all others may stand
   between them.
2. The network is two predicates that only grow: `sent`, every request p ever sent, and `answers`,
   every success the leader ever answered. Any sent request may arrive at any time, any number of
   times, in any order; so may any answer that the high watermark lets go. Every behaviour of
   connections is among these.
3. The batches in flight and the batches remembered are five slots each, as in Kafka.
4. Ghosts, which no rule reads: which batches were `numbered` in an epoch, sent there or not; the
   `position` of a batch in its epoch (its sequence, had sequences no end), by epoch and first
   record; at which position each batch of the log `begins`; `where` in the log the batch stands
   that ends at an offset, and which batch has a position in it (`cover`); the place that a success
   speaks of (`told`) and each acknowledged record's `place`; which batch each batch followed
   (`previous`); `history`, what a leader that replays so many batches of the log knows of p; and of
   the open connection how many of its requests were `handled`, their answers on their way, whether
   any was ever `refused`, or refused as of an older epoch (`fenced`), and the `epoch_in_turn`: no
   request that it still carries is of an older one, and what comes late is of no newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from proofs.lift.containers import FocusMap, FunctionSeq, contains
from proofs.lift.dag import INFINITE, ZERO, Node, const, leaf
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec, Seq
from proofs.prove.sequence_arithmetic import NO_WRAP, SequenceArithmetic
from proofs.prove.unknowns import Predicate, Unknowns, function, number, truth

P = leaf("p", 0, INFINITE)
"""The producer id that the theorems are about."""


PRODUCER = leaf("producer", -INFINITE, INFINITE)
"""The producer that has this id: whose application sent the records."""
REPLICAS = leaf("replicas", -INFINITE, INFINITE)
RECORDS_IN = leaf("records_in", -INFINITE, INFINITE)
"""How many records the application's next batch has: any number."""

VARIANT = {
    "first_sequence": leaf("first_sequence", 0, 2),
    "restart_window": leaf("restart_window", 0, 1),
}
"""Rules of the variant that are unknown: the helpers hold whatever they are."""
BEFORE_KIP_360 = {
    "recovery": leaf("recovery", 1, 2),
    "head_truncation": leaf("head_truncation", 0, 1),
    "expiry": leaf("expiry", 0, 1),
}
"""Rules that are unknown too where a producer recovers by another producer id."""


def resets(variant: Any) -> bool:
    """Whether a producer recovers by another producer id. See the model's `Recovery`."""
    return bool(variant.recovery > 0)


@dataclass(frozen=True, slots=True)
class ModelText:
    """What the clauses need of the model's text: its replay, an entry that knows nothing, and what
    a guarantee about clients says, by name, of one."""

    replayed: Callable[[FocusMap, Rec], FocusMap]
    nothing: Rec
    guaranteed: Callable[[str, Rec], Node]


@dataclass(frozen=True)
class ProofState:
    """One state. A batch that p sent is its epoch, its record count and its first record."""

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

    def changed(self, **changes: Any) -> ProofState:
        """The state with parts replaced."""
        return replace(self, **changes)

    # Names for what the clauses speak of

    @property
    def entry(self) -> Rec:
        """The client's entry of the partition."""
        result: Rec = self.client.partitions.slots[0]
        return result

    @property
    def in_flight(self) -> Seq:
        """The batches in flight."""
        result: Seq = self.entry.in_flight
        return result

    def acknowledged(self, record: Node) -> Node:
        """Whether the application was told that a record is stored."""
        return contains(self.entry.acknowledged, record)

    @property
    def known(self) -> Rec:
        """What the leader knows of p."""
        result: Rec = self.leader.producers.value
        return result

    @property
    def window(self) -> Seq:
        """The batches of p that the leader remembers."""
        result: Seq = self.known.batches
        return result

    @property
    def log(self) -> FunctionSeq:
        """The log."""
        result: FunctionSeq = self.leader.log
        return result

    @property
    def high_watermark(self) -> Node:
        """The offset below which all is replicated."""
        result: Node = self.leader.high_watermark
        return result


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A log position, seen as numbers; `begin` and `end` are positions in the batch's epoch."""

    mine: Node
    producer: Node
    epoch: Node
    base_sequence: Node
    begin: Node
    count: Node
    first: Node
    offset: Node

    @property
    def end(self) -> Node:
        """The position after the batch's last."""
        return self.begin + self.count

    @property
    def last(self) -> Node:
        """The record after the batch's last."""
        return self.first + self.count

    @property
    def end_offset(self) -> Node:
        """The offset after the batch's last."""
        return self.offset + self.count


def stored(state: ProofState, place: Node) -> LogEntry:
    """What stands at a place of the log."""
    at = state.log.at(place)
    batch = at.batch
    return LogEntry(
        mine=batch.producer_id.eq(P),
        producer=batch.producer,
        epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        begin=state.begins(place),
        count=batch.record_count,
        first=batch.first_record,
        offset=at.base_offset,
    )


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

    def evaluator(self, **contracts: Callable[..., Any]) -> Evaluator:
        """An evaluator in which sequences and replicas are unknown."""
        return Evaluator(
            self.model,
            self.k,
            overrides={
                ("Bounds", "max_sequence"): self.regime.max_sequence,
                ("Bounds", "replicas"): REPLICAS,
                ("Bounds", "wraps"): const(self.regime.wraps),
                **{("Variant", rule): value for rule, value in self.unknown.items()},
            },
            contracts={"filled": self.filled, **contracts},
        )

    def filled(self, _evaluator: Evaluator, _size: Node, value: Rec) -> FocusMap:
        """The map that gives each producer id the same."""
        return FocusMap(P, value, value)

    def replayed(self, producers: FocusMap, stored: Rec) -> FocusMap:
        """The model's replay of one batch."""
        call = self.model.leader.replayed
        result: FocusMap = self.evaluator().call(call, [self.k, producers, stored])
        return result

    def nothing(self) -> Rec:
        """What is known of a producer id that was never seen."""
        result: Rec = self.evaluator().lift(self.model.leader.UNKNOWN_PRODUCER)
        return result

    def guaranteed(self, name: str, client: Rec) -> Node:
        """A guarantee in its own words, of a client at the partition of the theorems alone."""
        entry = client.partitions.slots[0]
        alone = client.changed(partitions=MapValue((entry,)))
        return self.guarantee(name, self.world(clients=MapValue((alone,))))

    def world(self, **parts: Any) -> Rec:
        """A world of which only some parts are looked at."""
        hints = self.shapes.hints(self.model.world.World)
        return Rec(self.model.world.World, {**dict.fromkeys(hints, ZERO), **parts})

    def guarantee(self, name: str, world: Rec) -> Node:
        """A guarantee in its own words."""
        guarantee = getattr(self.model.guarantees, name)
        result: Node = self.evaluator().call(guarantee, [self.k, world])
        return result

    def client(self) -> Rec:
        """Producer p, with the partition of the theorems at index 0 and any other at 1."""
        client = self.record(self.model.client.Client, "client")
        return client.changed(producer=PRODUCER, producer_id=P)

    def log(self) -> FunctionSeq:
        """Any log: each field is a function of the place."""
        batch = self.model.leader.StoredBatch
        return FunctionSeq(number("log_length"), cache(lambda i: self.record(batch, "log", (i,))))

    def leader(self) -> Rec:
        """The leader of that partition. Nothing of its log is deleted."""
        entry = self.model.leader.ProducerStateEntry
        producers = FocusMap(P, self.record(entry, "known"), self.record(entry, "others"))
        known = {"log": self.log(), "log_start_offset": ZERO, "producers": producers}
        hints = self.shapes.hints(self.model.leader.Leader)
        rest = {f: self.value(hint, f) for f, hint in hints.items() if f not in known}
        return Rec(self.model.leader.Leader, {f: {**rest, **known}[f] for f in hints})

    def batch(self, name: str) -> Rec:
        """Any batch."""
        return self.record(self.model.messages.Batch, name)

    def state(self) -> ProofState:
        """Any state."""
        entry = self.model.leader.ProducerStateEntry
        return ProofState(
            regime=self.regime,
            client=self.client(),
            leader=self.leader(),
            next_position=number("next_position"),
            handled=number("handled"),
            refused=truth("refused"),
            fenced=truth("fenced"),
            epoch_in_turn=number("epoch_in_turn"),
            sent=function("sent", is_bool=True),
            numbered=function("numbered", is_bool=True),
            position=function("position"),
            answers=function("answers", is_bool=True),
            begins=function("begins"),
            where=function("where"),
            cover=function("cover"),
            told=function("told"),
            place=function("place"),
            previous=function("previous"),
            history=cache(lambda length: self.record(entry, "history", (length,))),
            text=ModelText(self.replayed, self.nothing(), self.guaranteed),
        )
