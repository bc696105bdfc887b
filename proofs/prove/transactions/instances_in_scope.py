"""The clauses about an instance, checked on every world of small scopes, each with a past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from proofs.explore.source import SourceGraph, source_graph
from proofs.lift.source import Model
from proofs.prove.composition import Composition
from proofs.prove.in_scope import ScopeCheck
from proofs.prove.transactions.in_scope import Past, TransactionsValuation, pasts
from proofs.prove.transactions.records import BATCH
from proofs.prove.valuation import check_formulas

Pair = tuple[int, int]
Key = tuple[int, int, int, int]
"""A record: instance, partition, transaction, number."""
ENDS = ("transaction_is_ended", "end_is_delayed")
BATCHES = ("batch_is_produced", "batch_is_delayed", "offsets_are_committed", "offsets_are_delayed")
"""Those that send a batch: two of records, then two of offsets, which have no sequence."""


@dataclass(frozen=True, slots=True)
class Own:
    """What the instances have left: see `proofs.prove.transactions.instances`."""

    held: Mapping[int, frozenset[Pair]] = field(default_factory=dict)
    pairs: Mapping[Pair, Pair] = field(default_factory=dict)
    turns: Mapping[Pair, int] = field(default_factory=dict)
    ends: frozenset[tuple[int, int, int]] = frozenset()
    batches: Mapping[Key, tuple[int, int, int]] = field(default_factory=dict)
    acked: frozenset[Key] = frozenset()

    def after(
        self, rule: str, choice: Mapping[str, int], before: Any, after: Any, turn: int
    ) -> Own:
        """What they have left after a step, which leads into a turn."""
        own = self
        for me, client in after.clients.items():
            pair = (client.producer_id, client.producer_epoch)
            if pair[0] != -1:
                known = own.held.get(me, frozenset())
                own = replace(own, held={**own.held, me: known | {pair}})
            if client.is_started:
                started = {(me, client.begun - 1): pair}
                turns = {(me, client.begun - 1): turn, **own.turns}
                own = replace(own, pairs={**started, **own.pairs}, turns=turns)
        if rule in ENDS:
            me = choice["instance"]
            sender = before.clients[me]
            commits = int(sender.state.name == "COMMITTING")
            own = replace(own, ends=own.ends | {(me, sender.begun - 1, commits)})
        if rule in BATCHES:
            me, here = choice["instance"], choice["partition"]
            sender = before.clients[me]
            own = own.with_batch((me, here), sender, after.clients[me], rule in BATCHES[:2])
        return own

    def with_batch(self, place: Pair, sender: Any, after: Any, counts: bool) -> Own:
        """A batch was sent, first or again, and perhaps answered: without error, if it is settled,
        its sequence is not given back, and nothing is wrong. It `counts` if it has a
        sequence."""
        at, then = sender.partitions[place[1]], after.partitions[place[1]]
        counted = at.next_sequence + int(at.write.name == "QUEUED" and counts)
        key = (*place, sender.begun - 1, at.written - 1)
        named = (sender.producer_id, sender.producer_epoch, counted - 1 if counts else 0)
        settled = then.write.name == "NONE" and after.state == sender.state
        acked = {key} if settled and then.next_sequence == counted else set()
        return replace(self, batches={key: named, **self.batches}, acked=self.acked | acked)


def owns(found: SourceGraph, pasts: Sequence[Past]) -> list[Own]:
    """For each world what the way left by which it was first found."""
    known: dict[int, Own] = {0: Own()}
    for before, instance, after in found.edges:
        if after not in known:
            rule, choice = found.instances[instance]
            a, b = found.worlds[before], found.worlds[after]
            known[after] = known[before].after(rule, dict(choice), a, b, pasts[after].turn)
    return [known[i] for i in range(len(found.worlds))]


class InstanceValuation(TransactionsValuation):
    """One world, one partition and one instance, as the unknowns and functions of the proofs."""

    def __init__(
        self, of: Composition, k: Any, world: Any, pasts: tuple[Past, Own], places: Pair
    ) -> None:
        super().__init__(of, k, world, pasts[0], places[0])
        self.own, self.me = pasts[1], places[1]
        self.values |= {"me": self.me, "transactions": k.bounds.transactions}
        self.values |= working(world.clients[self.me])

    def apply(self, name: str, *arguments: int) -> int:
        """The value of a function of the proofs; 0 outside of a map."""
        own, me = self.own, self.me
        if name == "holds_pair":
            return arguments in own.held.get(me, frozenset())
        if name == "others_hold":
            return any(arguments in pairs for who, pairs in own.held.items() if who != me)
        if name == "its_turn":
            return own.turns.get((me, arguments[0]), -1)
        if name in ("its_id", "its_epoch"):
            pair = own.pairs.get((me, arguments[0]), (-1, -1))
            return pair[name == "its_epoch"]
        if name == "sent_end":
            return (me, *arguments) in own.ends
        if name == "sent_batch":
            return (me, self.here, *arguments) in own.batches
        if name in BATCH:
            named = own.batches.get((me, self.here, arguments[0], arguments[1]), (-1, -1, -1))
            return named[BATCH.index(name)]
        if name == "acked":
            return (me, self.here, *arguments) in own.acked
        if name == "copy_at":
            return self.last("instance", "transaction", "number", of=(me, *arguments))
        if name == "placed":
            return self.last("producer_id", "producer_epoch", "sequence", of=arguments)
        return super().apply(name, *arguments)

    def last(self, *names: str, of: tuple[int, ...]) -> int:
        """Where the last record stands whose fields are these."""
        found = (
            offset
            for offset, stored in enumerate(self.log)
            if stored.kind == 0 and tuple(getattr(stored, name) for name in names) == of
        )
        return max(found, default=-1)

    def sizes(self) -> dict[str, int]:
        """How many values each bound number has."""
        bounds = self.k.bounds
        return {
            **super().sizes(),
            "?t": bounds.transactions,
            "?u": bounds.transactions,
            "?number": bounds.writes,
            "?sequence": bounds.max_sequence + 1,
        }


def working(client: Any) -> dict[str, int]:
    """The first partition that is not out of a client's transaction, and that is asked for."""
    names = [there.membership.name for there in client.partitions.values()]
    works = [place for place, name in enumerate(names) if name != "OUT"]
    asked = [place for place, name in enumerate(names) if name == "ASKED"]
    return {"works_at": (*works, -1)[0], "asked_at": (*asked, -1)[0]}


class SoleInstanceValuation(TransactionsValuation):
    """One world and one partition, with the only instance."""

    def __init__(self, of: Composition, k: Any, world: Any, past: Past, here: int) -> None:
        super().__init__(of, k, world, past, here)
        self.values |= working(world.clients[0])


def check_lone_scope(of: Composition, model: Model, k: Any, name: str) -> ScopeCheck:
    """Explore a scope of one instance and check each clause, and each fact, in each world."""
    found = source_graph(model, k, name)
    assert of.worlds is not None
    worlds = of.worlds(of, model, k.variant.name)
    everything = list(zip(found.worlds, pasts(found), strict=True))
    facts = (
        SoleInstanceValuation(of, k, world, past, here)
        for world, past in everything
        for here in range(k.bounds.partitions)
    )
    return check_formulas(
        of.formulas(worlds.lifter, worlds.before), (name, k.variant.name), found, facts
    )


def check_instances_scope(of: Composition, model: Model, k: Any, name: str) -> ScopeCheck:
    """Explore a scope by its source and check each clause, and each fact, in each world."""
    found = source_graph(model, k, name)
    assert of.worlds is not None
    worlds = of.worlds(of, model, k.variant.name)
    left = pasts(found)
    everything = list(zip(found.worlds, zip(left, owns(found, left), strict=True), strict=True))
    places = list(product(range(k.bounds.partitions), range(k.bounds.instances)))
    facts = (
        InstanceValuation(of, k, world, past, place)
        for world, past in everything
        for place in places
    )
    return check_formulas(
        of.formulas(worlds.lifter, worlds.before), (name, k.variant.name), found, facts
    )
