"""The clauses of transactions, checked on every world of small scopes, each with a past.

Here the ghosts are what they are said to be: read off the worlds on the way by which a world was
first found, and off its logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from proofs.explore.source import SourceGraph, source_graph
from proofs.lift.dag import Node
from proofs.lift.source import Model
from proofs.prove.composition import Composition
from proofs.prove.in_scope import ScopeCheck
from proofs.prove.transactions.steps import Transactions
from proofs.prove.valuation import Row, check_formulas, flat

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Past:
    """What a run has left: see `proofs.prove.transactions.state`."""

    given: frozenset[Pair] = frozenset()
    sent: frozenset[tuple[int, int, int, int]] = frozenset()
    decision: dict[Pair, int] = field(default_factory=dict)
    turn: int = 0
    outcomes: dict[int, int] = field(default_factory=dict)
    turns: dict[Pair, int] = field(default_factory=dict)
    reign: Pair = (-1, -1)
    repeated: bool = False
    went_back: bool = False
    contradicted: bool = False
    trespassed: bool = False


def prepared(known: Any) -> int | None:
    """The outcome that an image prepares: 1 is commit."""
    return {2: 1, 3: 0}.get(int(known.metadata.state))


def with_markers(past: Past, world: Any) -> Past:
    """The markers that are in logs, or late."""
    late = {
        (m.producer_id, m.producer_epoch, int(m.committed), m.coordinator_epoch)
        for m in world.late_markers
    }
    return replace(past, sent=past.sent | late)


def with_decision(past: Past, known: Any) -> Past:
    """What is known to be prepared is decided."""
    outcome = prepared(known)
    if outcome is None:
        return past
    key = (known.metadata.producer_id, known.metadata.producer_epoch)
    earlier = past.decision.get(key, outcome)
    return replace(
        past,
        decision={**past.decision, key: outcome},
        contradicted=past.contradicted or earlier != outcome,
    )


def with_reign(past: Past, before: Any, after: Any) -> Past:
    """A client has heard of a producer id: by InitProducerId if it was waiting for one."""
    for old, new in zip(before.clients.values(), after.clients.values(), strict=True):
        told = (new.producer_id, new.producer_epoch)
        if told == (old.producer_id, old.producer_epoch):
            continue
        if old.state.name == "INITIALIZING":
            anew = old.producer_id == -1 or (old.producer_id, old.producer_epoch) == known(before)
            past = replace(
                past,
                repeated=past.repeated or (anew and told in past.given),
                went_back=past.went_back or told < past.reign,
                reign=told,
            )
        past = replace(past, given=past.given | {told})
    return past


def with_turn(past: Past, before: Any, after: Any) -> Past:
    """Records are of the present transaction; once it is complete the next one's turn comes."""
    new = {
        (partition, offset): past.turn
        for partition, leader in after.leaders.items()
        for offset in range(len(before.leaders[partition].log), len(leader.log))
    }
    now = after.coordinator.known
    outcome = prepared(now)
    decided = {} if outcome is None else {past.turn: outcome}
    over = is_complete(now) and not is_complete(before.coordinator.known)
    written = [after.leaders[partition].log[offset] for partition, offset in new]
    old = [s for s in written if s.kind == 0 and (s.producer_id, s.producer_epoch) < past.reign]
    return replace(
        past,
        trespassed=past.trespassed or bool(old),
        turns={**past.turns, **new},
        outcomes={**past.outcomes, **decided},
        turn=past.turn + int(over),
    )


def is_complete(known: Any) -> bool:
    """CompleteCommit or CompleteAbort."""
    return int(known.metadata.state) in (4, 5)


def known(world: Any) -> Pair:
    """The present pair."""
    metadata = world.coordinator.known.metadata
    return metadata.producer_id, metadata.producer_epoch


def pasts(found: SourceGraph) -> list[Past]:
    """For each world what the way left by which it was first found."""
    first = with_markers(Past(), found.worlds[0])
    pasts: dict[int, Past] = {0: first}
    for before, _, after in found.edges:
        if after not in pasts:
            a, b = found.worlds[before], found.worlds[after]
            past = with_decision(pasts[before], b.coordinator.known)
            pasts[after] = with_markers(with_reign(with_turn(past, a, b), a, b), b)
    return [pasts[i] for i in range(len(found.worlds))]


class TransactionsValuation:
    """One world and one partition, as the unknowns and functions of the proofs."""

    def __init__(self, of: Composition, k: Any, world: Any, past: Past, here: int) -> None:
        self.k, self.world, self.past, self.here = k, world, past, here
        self.log = world.leaders[here].log
        self.values: dict[str, int] = {
            **dict(flat("w", world)),
            "here": here,
            "partitions": k.bounds.partitions,
            "producer_ids": k.bounds.producer_ids,
            "awaited": 0,
            "turn": past.turn,
            "reign_id": past.reign[0],
            "reign_epoch": past.reign[1],
            "repeated": past.repeated,
            "went_back": past.went_back,
            "disturbed": False,
            "contradicted": past.contradicted,
            "trespassed": past.trespassed,
        }
        for (owner, name), unknown in of.unknown.items():
            self.values[unknown.name] = int(getattr(getattr(k, owner.lower()), name))

    def apply(self, name: str, *arguments: int) -> int:
        """The value of a function of the proofs; 0 outside of a map."""
        if name == "given":
            return arguments in self.past.given
        if name == "sent":
            return arguments in self.past.sent
        if name == "decision":
            return self.past.decision.get((arguments[0], arguments[1]), -1)
        if name == "outcome_of":
            return self.past.outcomes.get(arguments[0], -1)
        if name == "turn_of":
            return self.past.turns.get((self.here, arguments[0]), -1)
        if name == "wanted":
            return int(self.is_wanted(arguments[0]))
        if name == "ended":
            return self.ended(*arguments)
        if name == "last_marker":
            return self.last_marker(*arguments)
        return self.stands_at(name, arguments)

    def is_wanted(self, turn: int) -> bool:
        """The application has asked to commit: by a record of that transaction; of one without
        records, what was prepared says it."""
        for (partition, offset), mine in self.past.turns.items():
            stored = self.world.leaders[partition].log[offset]
            if mine == turn and stored.kind == 0:
                outcome = self.world.clients[stored.instance].outcomes[stored.transaction]
                return outcome.name in ("COMMIT_ASKED", "COMMITTED")
        return self.past.outcomes.get(turn) == 1

    def ended(self, offset: int) -> int:
        """Where the first marker is behind an offset, of the producer id that stands there."""
        after = enumerate(self.log[offset + 1 :], offset + 1)
        mine = self.log[offset].producer_id
        return next((i for i, s in after if s.kind in (1, 2) and s.producer_id == mine), -1)

    def last_marker(self, producer_id: int) -> int:
        """Where the last marker of a producer id is."""
        mine = [i for i, s in enumerate(self.log) if s.kind in (1, 2)]
        return max((i for i in mine if self.log[i].producer_id == producer_id), default=-1)

    def stands_at(self, name: str, arguments: tuple[int, ...]) -> int:
        """What stands at a place of the world."""
        keys = iter(arguments)
        if name == "len(w.leaders.log)":
            return len(self.log)
        value = self.world
        for part in name.split(".")[1:]:
            value = getattr(value, part)
            if hasattr(value, "put") or isinstance(value, tuple):
                key = next(keys)
                if not 0 <= key < (len(value) if isinstance(value, tuple) else len(value.values())):
                    return 0
                value = value[key]
        return int(value)

    def domain(self, variables: tuple[Node, ...]) -> Iterator[Row]:
        """The values of bound numbers that there are."""
        sizes = self.sizes()
        return product(*(range(sizes[v.name]) for v in variables))

    def sizes(self) -> dict[str, int]:
        """How many values each bound number has."""
        bounds = self.k.bounds
        return {
            "?p": bounds.producer_ids,
            "?e": bounds.max_epoch + 1,
            "?outcome": 2,
            "?term": bounds.faults.moves + 1,
            "?place": bounds.partitions,
            "?i": len(self.log),
            "?j": len(self.log),
            "?n": self.past.turn + 2,
        }


def check_transactions_scope(of: Composition, model: Model, k: Any, name: str) -> ScopeCheck:
    """Explore a scope by its source and check each clause, and each fact, in each world."""
    found = source_graph(model, k, name)
    worlds = Transactions(of, model, k.variant.name)
    everything = list(zip(found.worlds, pasts(found), strict=True))
    facts = (
        TransactionsValuation(of, k, world, past, here)
        for world, past in everything
        for here in range(k.bounds.partitions)
    )
    return check_formulas(
        of.formulas(worlds.lifter, worlds.before), (name, k.variant.name), found, facts
    )
