"""The state of the proofs: one producer at one partition, with nothing bounded but five.

Theory of operation. The theorems are about any one producer id p at any one partition.

1. The log is a function with a length; of its batches those of p matter, all others may stand
   between them.
2. The network is two predicates that only grow: `sent`, every request p ever sent, and `answers`,
   every success the leader ever answered. Any sent request may arrive at any time, any number of
   times, in any order; so may any answer that the high watermark lets go. Every behaviour of
   connections is among these.
3. The batches in flight and the batches remembered are five slots each, as in Kafka.
4. Ghosts, which no rule reads: where each remembered batch stands in the log (`positions`), where
   each acknowledged record stands (`place`), which batch each batch followed (`previous`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from proofs.lift import dag
from proofs.lift.containers import FocusMap, FunctionSeq, PredicateSet, contains
from proofs.lift.dag import INFINITE, Node
from proofs.lift.text import Model
from proofs.lift.values import MapValue, Rec, Seq, SetValue, Shapes

Predicate = Callable[..., Node]

P = dag.leaf("p", -INFINITE, INFINITE)
"""The producer id that the theorems are about."""
MAX_SEQUENCE = dag.leaf("max_sequence", -INFINITE, INFINITE)
"""The last sequence; no epoch of these theorems has as many records."""


def number(name: str) -> Node:
    """An unknown int."""
    return dag.leaf(name, -INFINITE, INFINITE)


def truth(name: str) -> Node:
    """An unknown bool."""
    return dag.leaf(name, 0, 1, is_bool=True)


@dataclass(frozen=True)
class State:
    """One state. `candidates[i]` are log positions one of which is that of remembered batch i."""

    client: Rec
    leader: Rec
    sent: Predicate
    answers: Predicate
    place: Predicate
    previous: Predicate
    candidates: tuple[tuple[Node, ...], ...]

    def changed(self, **changes: Any) -> State:
        """The state with parts replaced."""
        return replace(self, **changes)

    # Names for what the clauses speak of

    @property
    def entry(self) -> Rec:
        """The client's entry of the partition."""
        result: Rec = self.client.fields["partitions"].slots[0]
        return result

    @property
    def in_flight(self) -> Seq:
        """The batches in flight."""
        result: Seq = self.entry.fields["in_flight"]
        return result

    def acknowledged(self, record: Node) -> Node:
        """Whether the application was told that a record is stored."""
        return contains(self.entry.fields["acknowledged"], record)

    @property
    def known(self) -> Rec:
        """What the leader knows of p."""
        result: Rec = self.leader.fields["producers"].value
        return result

    @property
    def window(self) -> Seq:
        """The batches of p that the leader remembers."""
        result: Seq = self.known.fields["batches"]
        return result

    @property
    def log(self) -> FunctionSeq:
        """The log."""
        result: FunctionSeq = self.leader.fields["log"]
        return result

    @property
    def high_watermark(self) -> Node:
        """The offset below which all is replicated."""
        result: Node = self.leader.fields["high_watermark"]
        return result


@dataclass(frozen=True, slots=True)
class Stored:
    """A log position, seen as numbers."""

    mine: Node
    epoch: Node
    base: Node
    count: Node
    first: Node
    offset: Node

    @property
    def end(self) -> Node:
        """The sequence after the batch's last."""
        return dag.add(self.base, self.count)

    @property
    def last(self) -> Node:
        """The record after the batch's last."""
        return dag.add(self.first, self.count)

    @property
    def end_offset(self) -> Node:
        """The offset after the batch's last."""
        return dag.add(self.offset, self.count)


def stored(state: State, position: Node) -> Stored:
    """What stands at a position of the log."""
    at = state.log.at(position)
    batch = at.fields["batch"].fields
    return Stored(
        mine=dag.eq(batch["producer_id"], P),
        epoch=batch["producer_epoch"],
        base=batch["base_sequence"],
        count=batch["record_count"],
        first=batch["first_record"],
        offset=at.fields["base_offset"],
    )


class Builder:
    """Makes values whose scalars are unknowns, for the records of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.shapes = Shapes(
            SimpleNamespace(producers=1, partitions=2, in_flight=5, window=5, records=0, log=0)
        )

    def record(self, cls: type, name: str) -> Rec:
        """A record of unknowns; lengths of bounded tuples are within their capacity."""
        hints = self.shapes.hints(cls)
        return Rec(cls, {f: self.value(hint, f"{name}.{f}") for f, hint in hints.items()})

    def value(self, hint: Any, name: str) -> Any:
        """A value of unknowns."""
        kind = self.shapes.kind(hint)
        if kind == "scalar":
            return truth(name) if hint is bool else number(name)
        if kind == "record":
            return self.record(hint, name)
        if kind == "tuple":
            capacity = self.shapes.capacity(hint)
            inner = self.shapes.element(hint)
            slots = tuple(self.value(inner, f"{name}[{i}]") for i in range(capacity))
            return Seq(dag.leaf(f"len({name})", 0, capacity), slots)
        if kind == "map":
            count = self.shapes.keys(hint)
            inner = hint.__args__[1]
            return MapValue(tuple(self.value(inner, f"{name}[{i}]") for i in range(count)))
        count = self.shapes.keys(hint)
        if count == 0:
            return PredicateSet(lambda r: dag.uninterpreted(name, (r,), is_bool=True))
        return SetValue(tuple(truth(f"{i} in {name}") for i in range(count)))

    def stored_batch(self, position: Node) -> Rec:
        """The log as uninterpreted functions of the position."""
        names = ("producer_id", "producer_epoch", "base_sequence", "record_count", "first_record")
        batch = {n: dag.uninterpreted(f"log_{n}", (position,)) for n in names}
        offset = dag.uninterpreted("log_base_offset", (position,))
        return Rec(
            self.model.leader.StoredBatch,
            {"batch": Rec(self.model.messages.Batch, batch), "base_offset": offset},
        )

    def client(self) -> Rec:
        """Producer p, with the partition of the theorems at index 0 and any other at 1."""
        client = self.record(self.model.client.Client, "client")
        return Rec(client.cls, {**client.fields, "producer_id": P})

    def leader(self) -> Rec:
        """The leader of that partition."""
        entry = self.model.leader.ProducerStateEntry
        producers = FocusMap(P, self.record(entry, "known"), self.record(entry, "others"))
        log = FunctionSeq(number("log_length"), self.stored_batch)
        return Rec(
            self.model.leader.Leader,
            {"log": log, "high_watermark": number("high_watermark"), "producers": producers},
        )

    def batch(self, name: str) -> Rec:
        """Any batch."""
        return self.record(self.model.messages.Batch, name)

    def state(self) -> State:
        """Any state."""

        def function(name: str, *, is_bool: bool) -> Predicate:
            return lambda *args: dag.uninterpreted(name, args, is_bool=is_bool)

        return State(
            client=self.client(),
            leader=self.leader(),
            sent=function("sent", is_bool=True),
            answers=function("answers", is_bool=True),
            place=function("place", is_bool=False),
            previous=function("previous", is_bool=False),
            candidates=tuple((number(f"position[{i}]"),) for i in range(5)),
        )
