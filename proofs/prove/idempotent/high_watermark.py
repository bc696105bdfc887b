"""The high watermark of any leader is sound, whatever happens to its log: an induction over all
rules.

Theory of operation. The rules are the world's own, for one partition whose leader may be in any
state: its log may have lost its head, or be truncated by a replica that was not in sync. The
effects on connections and producers are left out, and so are the results of a replay, because the
high watermark depends on neither. The goal is the guarantee in the text of the model, together with
clauses about offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

from proofs.lift.containers import FocusMap, FunctionSeq
from proofs.lift.dag import ZERO, Node, conjunction, leaf
from proofs.lift.evaluate import Evaluator
from proofs.lift.source import Model
from proofs.lift.values import MapValue, Rec
from proofs.prove.engine.assumptions import events_left_out
from proofs.prove.engine.composition import no_limit
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.engine.step_evaluator import actor_of
from proofs.prove.engine.unknowns import bound, number
from proofs.prove.engine.world_events import WorldEvents, effects_of
from proofs.prove.idempotent.rule_lemmas import WRAPPING
from proofs.prove.idempotent.symbolic_state import REPLICAS, Builder, P

AT, NEXT = bound("i"), bound("j")
CHOSEN = number("chosen")
"""Any choice of an event: how many batches are deleted or kept, which producer id expires, which
connection was broken."""


def events_of_leaders(model: Model, variant: str) -> tuple[str, ...]:
    """Return the events of the world that apply a leader's rule, except crashes."""
    left_out = events_left_out(model, ("no_crash",))
    effects = effects_of(WorldEvents(model, variant, frozenset(), left_out))
    return tuple(
        event
        for event, effect in effects.items()
        if any(actor_of(rule) is model.leader.Leader for rule in effect.takes)
    )


def choice(name: str) -> Node:
    """Return the choice of an event: the only producer, the only partition, whether time is up;
    otherwise any number."""
    known = {"producer": ZERO, "partition": ZERO, "timed_out": leaf("timed_out", 0, 1)}
    return known.get(name, CHOSEN)


class OneLog:
    """The rules of any leader."""

    def __init__(self, model: Model, k: Any) -> None:
        self.model = model
        self.k = k
        self.builder = Builder(model, k, WRAPPING)
        builder = self.builder
        producers = builder.leader().producers
        start = {"log_start_offset": number("log_start_offset"), "producers": producers}
        self.before = Rec(model.leader.Leader, {**builder.leader().fields, **start})

    def evaluator(self) -> Evaluator:
        """Return an evaluator that ignores the effects on other actors."""

        def moved(_evaluator: Evaluator, _k: Any, w: Rec, partition: Node, leader: Rec) -> Rec:
            return w.changed(leaders=MapValue((leader,)))

        def anything(_evaluator: Evaluator, *_arguments: Any) -> FocusMap:
            entry = self.builder.record(self.model.leader.ProducerStateEntry, "replayed")
            return FocusMap(P, entry, entry)

        return self.builder.evaluator(
            without_connections=moved, fold=anything, within_scope=no_limit
        )

    def world(self) -> Rec:
        """Return a world with one producer and this leader."""
        return self.builder.world(
            leaders=MapValue((self.before,)),
            links=MapValue((MapValue((self.builder.record(self.model.network.Link, "link"),)),)),
            faults=self.builder.record(self.model.faults.Faults, "faults"),
        )

    def offsets_rise(self, leader: Rec) -> Formula:
        """Return that offsets are given once, and no batch is empty."""
        log: FunctionSeq = leader.log
        a, b = log.at(AT), log.at(NEXT)
        inside = (AT >= 0) & (log.length > AT)
        count = a.batch.record_count
        behind = (AT < NEXT) & (log.length > NEXT)
        some = (count >= 1) & (a.base_offset >= 0)
        follows = a.base_offset + count <= b.base_offset
        return (AT, NEXT), inside.implies(some & behind.implies(follows))

    def high_watermark_sound(self, leader: Rec) -> Formula:
        """Return the guarantee, and that no offset is negative."""
        world, fields = self.builder.world(leaders=MapValue((leader,))), leader
        guaranteed = self.builder.guarantee("high_watermark_sound", world)
        counted = (fields.log_start_offset >= 0) & (fields.log.length >= 0)
        return (), counted & guaranteed

    def clauses(self, leader: Rec) -> dict[str, Formula]:
        """Return the clauses about a leader, by name."""
        clauses = (self.high_watermark_sound, self.offsets_rise)
        return {clause.__name__: clause(leader) for clause in clauses}

    def initial(self) -> Rec:
        """Return a leader that has stored nothing."""
        empty = FunctionSeq(ZERO, self.before.log.at)
        begins = {"log": empty, "log_start_offset": ZERO, "high_watermark": ZERO}
        return self.before.changed(**begins)

    def no_request_is_empty(self, world: Rec) -> Formula:
        """Return that each request on its way has a record."""
        link = world.links.slots[0].slots[0]
        travelling = [link.requests, *(b.requests for b in link.broken.slots)]
        batches = [slot.batch for r in travelling for slot in r.slots]
        return (), conjunction(batch.record_count >= 1 for batch in batches)

    def moved(self, rule: str) -> tuple[list[Formula], Rec]:
        """Return a rule's guards, and the leader after it."""
        evaluator, world = self.evaluator(), self.world()
        function = self.model.rules[rule]
        choices = map(choice, list(signature(function).parameters)[2:])
        after = evaluator.call(function, [self.k, world, *choices])
        guards: list[Formula] = [((), x.condition) for x in evaluator.limits]
        bounds = ((), (REPLICAS >= 1) & (CHOSEN >= 0))
        return [bounds, self.no_request_is_empty(world), *guards], after.leaders.slots[0]


def one_log_lemmas(model: Model, k: Any) -> Iterator[ProofObligation]:
    """Yield the obligations for the initial state and for each rule."""
    of = OneLog(model, k)
    for name, goal in of.clauses(of.initial()).items():
        yield obligation(f"initial/leader/{name}", [], goal)
    known = of.clauses(of.before)
    for rule in events_of_leaders(model, k.variant.name):
        guards, after = of.moved(rule)
        for name, goal in of.clauses(after).items():
            if goal != known[name]:
                yield obligation(f"{rule}/leader/{name}", [*known.values(), *guards], goal)
