"""The steps of the actors that a theorem watches: their rules, and events of the world.

Theory of operation. A step is a text of the model, evaluated on a state of unknowns. It is either a
rule of one actor, with unknown inputs, or a text in which several actors take part: an event, or
the world's function on a batch that arrives. In such a text, the rules of actors that a theorem
does not watch have any result. So nothing is assumed of clients: any request may arrive at any time
and any number of times, whether a client sent it or not. The assumptions of a step about its inputs
are contracts (`message_assumptions.py`), by name. The ghosts after a step follow from the rules
that it applies (`ghosts.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_type_hints

from model.language import RECORDS
from proofs.lift.containers import FunctionMap
from proofs.lift.dag import FALSE, TRUE, Node, reachable
from proofs.lift.source import Model
from proofs.lift.values import Rec
from proofs.prove.engine.composition import Composition, Worlds
from proofs.prove.engine.induction import ProofStep
from proofs.prove.engine.missing_steps import actors_read
from proofs.prove.engine.smt import Formula
from proofs.prove.engine.step_evaluator import RuleApplication, exchanged
from proofs.prove.engine.unknowns import number
from proofs.prove.transactions import ghosts
from proofs.prove.transactions import message_assumptions as assumes
from proofs.prove.transactions.client import asked_at_is_asked, works_at_works
from proofs.prove.transactions.evaluator import UnboundedEvaluator
from proofs.prove.transactions.symbolic_state import (
    HERE,
    ME,
    PARTITIONS,
    MapsOfAnySize,
    any_leader,
    any_state,
    at_partition,
    first_state,
)

Contract = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class StepText:
    """The text of a step: the name of an actor's rule or an event, its choices that are not
    arbitrary numbers, and the assumptions about its inputs."""

    text: str
    contracts: tuple[Contract, ...] = ()
    choices: Mapping[str, Node] = field(default_factory=dict)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the step happens at another partition than the one here."""
        return assumes.is_elsewhere in self.contracts


def text(name: str, *assumed: Contract, **choices: Node) -> StepText:
    """Return the text of a step."""
    return StepText(name, assumed, choices)


class Transactions(Worlds):
    """The steps from any state; `of.steps` names those that a theorem is about."""

    def __init__(self, of: Composition, model: Model, variant: str) -> None:
        self.of = of
        self.model = model
        self.k = of.configuration(model, variant)
        self.unknowns = MapsOfAnySize(self.k.bounds)
        self.before = any_state(model, self.unknowns)
        self.world: Rec = super().initial()

    def evaluator(self) -> UnboundedEvaluator:
        """Return an evaluator that ignores a scope's limits."""
        plain = super().evaluator()
        return UnboundedEvaluator(
            self.model, self.k, plain.overrides, plain.contracts, self.unknowns, self.is_known
        )

    def initial(self) -> Any:
        """Return the state in which no client has begun."""
        return first_state(self.model, self.unknowns, self.world)

    def steps(self) -> Iterator[ProofStep]:
        """Yield the steps that the composition names."""
        yield from map(self.named, self.of.steps)

    def named(self, name: str) -> ProofStep:
        """Return the step of a name."""
        taken = STEPS.get(name, text(name))
        rule = self.model.actor_rules.get(taken.text)
        return self.of_actor(name, rule, taken) if rule else self.of_world(name, taken)

    @cached_property
    def spoken(self) -> frozenset[str]:
        """The names of the unknowns that the clauses read."""
        formulas = (c.formula(self.lifter, self.before) for c in self.of.clauses)
        return frozenset(node.name for node in reachable(body for _, body in formulas))

    @cached_property
    def actors(self) -> frozenset[type]:
        """The classes of the actors that the clauses read."""
        formulas = [c.formula(self.lifter, self.before) for c in self.of.clauses]
        return frozenset(actors_read(self.before, formulas, exchanged(self.model)))

    # Texts

    def of_actor(self, name: str, rule: Callable[..., Any], taken: StepText) -> ProofStep:
        """Return the step of one actor's rule, with any inputs."""
        evaluator = self.evaluator()
        (_, actor), *inputs = list(get_type_hints(rule).items())[1:-1]
        role = actor.__name__.lower()
        given = {n: taken.choices.get(n, self.any_input(n, hint)) for n, hint in inputs}
        found = evaluator.call(rule, [self.k, getattr(self.before, role), *given.values()])
        moved = self.before.changed(**{role: found.fields.get("actor", found)})
        return self.make_step(name, evaluator, moved, taken, given)

    def any_input(self, name: str, hint: Any) -> Any:
        """Return any value of an input; an instance is the watched one."""
        return ME if name == "instance" else self.unknowns.value(hint, name)

    def of_world(self, name: str, taken: StepText) -> ProofStep:
        """Return the step of an event, or of the world's function on a batch that arrives."""
        function = self.model.rules.get(taken.text) or getattr(self.model.world, taken.text)
        evaluator = self.evaluator()
        hints = list(get_type_hints(function).items())[2:-1]
        given = {n: taken.choices.get(n, self.any_input(n, hint)) for n, hint in hints}
        found = evaluator.call(function, [self.k, self.any_world(), *given.values()])
        world = found.fields.get("actor", found)
        leader = self.before.leader if taken.is_elsewhere else world.leaders.at(HERE)
        client = world.clients.at(ME)
        moved = self.before.changed(coordinator=world.coordinator, leader=leader, client=client)
        return self.make_step(name, evaluator, moved, taken, given)

    def any_world(self) -> Rec:
        """Return the world of any state; leaders may be present or absent."""
        there = self.model.world.World
        leaders = FunctionMap(PARTITIONS, lambda i: any_leader(self.model, self.unknowns, i))
        client = self.model.client.Client
        clients = FunctionMap(
            number("instances"), lambda i: self.unknowns.record(client, "w.clients", (i,))
        )
        hint = self.unknowns.shapes.hints(there)["leaderless"]
        return self.world.changed(
            clients=clients,
            coordinator=self.before.coordinator,
            leaders=leaders,
            leaderless=self.unknowns.value(hint, "w.leaderless"),
        )

    def is_known(self, actor: Rec) -> bool:
        """Whether the theorem watches an actor; rules of all other actors have any result."""
        return actor.cls in self.actors

    def make_step(
        self,
        name: str,
        evaluator: UnboundedEvaluator,
        moved: Any,
        taken: StepText,
        given: Mapping[str, Any],
    ) -> ProofStep:
        """Return the step, with its effect on the ghosts."""
        after = self.remember(evaluator, moved, taken, given)
        required: list[Formula] = [((), limit.condition) for limit in evaluator.limits]
        known = {**self.inputs_of(evaluator.taken), **given, "after": after}
        of_all = (c for c in self.of.promises if is_about(c, known))
        promised = [self.promise(contract, known) for contract in (*taken.contracts, *of_all)]
        assumed = (*self.ranges(given), *required, *evaluator.choices, *promised)
        if self.spoken & {"works_at", "asked_at"}:
            assumed = (*assumed, *self.are_witnesses(after))
        return ProofStep(
            name,
            self.before,
            after,
            assumed,
            taken=tuple(evaluator.taken),
            edits=frozenset(evaluator.edits),
            elsewhere=self.elsewhere(given) if taken.is_elsewhere else None,
        )

    def elsewhere(self, given: Mapping[str, Any]) -> Any:
        """Return the state as the partition of a step sees it, with its own ghosts."""
        return at_partition(self.before, self.model, self.unknowns, given["partition"])

    def remember(
        self, evaluator: UnboundedEvaluator, moved: Any, taken: StepText, given: Mapping[str, Any]
    ) -> Any:
        """Return the state after a step with its ghosts, which follow from the rules that the step
        applies and the decisions of images that become known to be logged."""
        is_here = given.get("partition", HERE) is HERE
        heard = given["heard"].eq(1) if "heard" in given else TRUE
        after = moved
        for call in evaluator.taken:
            if self.is_known(call.arguments[1]):
                name = call.rule.__name__
                is_placed = is_here or taken.is_elsewhere
                assert is_placed or name not in ghosts.AT_PARTITION, f"{name}: where?"
                remembers = ghosts.remembers(name, is_here=is_here)
                after = remembers(ghosts.RuleEffect(self.before, call, heard), after)
        for rule, reached, image in evaluator.written:
            is_left = reached & heard if rule in ghosts.HEARS else reached
            after = ghosts.with_decision(after, is_left, image)
        return ghosts.of_instance(self.before, after)

    def inputs_of(self, calls: Iterable[RuleApplication]) -> dict[str, Any]:
        """Return the inputs of the rules that a step applies, by name: the first of each name."""
        found: dict[str, Any] = {}
        for call in calls:
            names = list(inspect.signature(call.rule).parameters)
            for name, value in zip(names[2:], call.arguments[2:], strict=True):
                found.setdefault(name, value)
        return found

    def promise(self, contract: Contract, known: Mapping[str, Any]) -> Formula:
        """Return a contract as a formula about the inputs that it names; an input that the step
        does not have is any number."""
        names = [n for n in inspect.signature(contract).parameters if n != "k"]
        given = {"s": self.before, **known}
        return self.lifter.formula(contract, *(given.get(n, number(n)) for n in names))

    def ranges(self, given: Mapping[str, Any]) -> Iterator[Formula]:
        """Yield the ranges of partitions and instances, which are counted from 0."""
        for place in dict.fromkeys((HERE, given.get("partition", HERE))):
            yield (), (place >= 0) & (place < PARTITIONS)
        yield (), ME >= 0

    def are_witnesses(self, state: Any) -> Iterator[Formula]:
        """Yield that `works_at` is a partition in the transaction, and `asked_at` one whose
        addition was asked for, if there are such partitions."""
        yield self.lifter.formula(works_at_works, state)
        yield self.lifter.formula(asked_at_is_asked, state)


def arrival(*assumed: Contract) -> StepText:
    """Return the text of a batch's arrival here, whoever sent it; the coordinator is asked if
    required."""
    return text("produced", assumes.is_batch, *assumed, partition=HERE)


def is_about(contract: Contract, known: Mapping[str, Any]) -> bool:
    """Whether a step has each message that a contract names."""
    hints = get_type_hints(contract)
    messages = {n: cls.__name__ for n, cls in hints.items() if cls in RECORDS and n != "k"}
    return all(n in known and known[n].cls.__name__ == name for n, name in messages.items())


BATCH = assumes.is_batch
EPOCH = assumes.shows_epoch
OTHERS = assumes.is_of_others
STEPS: Mapping[str, StepText] = {
    # Requests, batches and markers of any sender
    "init": text("on_init_producer_id"),
    "add": text("on_add_partitions", EPOCH),
    "end": text("on_end_txn", EPOCH),
    "end_on_time": text("on_end_txn", EPOCH, assumes.ends_as_wanted),
    "batch_arrives": arrival(),
    "batch_arrives_on_time": arrival(assumes.is_of_present),
    "told_batch": arrival(assumes.is_told),
    "marker_arrives": text("on_marker", assumes.was_sent),
    "any_marker_arrives": text("on_marker", assumes.has_epoch),
    # Handling of a batch by a leader, whatever the coordinator answers
    "batch_is_taken": text("on_produce", BATCH),
    "batch_is_invalid": text("on_invalid_produce", BATCH),
    "offsets_are_taken": text("on_offset_commit", BATCH),
    "is_asked": text("verify", BATCH),
    "refuse": text("refuse", BATCH),
    "hold": text("hold", BATCH),
    "on_verified": text("on_verified", BATCH),
    "other_writes": text("on_other"),
    # Markers, and their answers, which may be lost
    "marker_is_sent": text("marker_for"),
    "marker_is_written": text("marker_is_written", partition=HERE),
    "marker_is_answered": text("marker_is_written", assumes.is_elsewhere),
    "append_fails": text("append_fails", in_log=FALSE),
    "append_seems_to_fail": text("append_fails", in_log=TRUE),
    # Requests and batches of other instances, and late ones of the watched instance
    "others_init": text("on_init_producer_id", OTHERS, assumes.others_hold_any),
    "others_add": text("on_add_partitions", EPOCH, OTHERS, assumes.others_hold_pair),
    "others_end": text("on_end_txn", EPOCH, OTHERS, assumes.others_hold_pair),
    "late_add": text("on_add_partitions", EPOCH, OTHERS),
    "my_late_end": text("on_end_txn", assumes.nobody_waits, assumes.its_end),
    "their_batch": arrival(assumes.is_counted, assumes.others_hold_batch),
    "my_late_batch": arrival(assumes.is_counted, assumes.its_batch),
    "others_batch": arrival(assumes.others_sent),
    "others_batch_on_time": arrival(assumes.is_no_pair_of_mine),
    "my_named_batch": arrival(assumes.its_named_batch),
    # Messages of the instance, and answers to it
    "batch_is_sent": text("produce", partition=HERE),
    "offsets_are_sent": text("commit_offsets", partition=HERE),
    "end_is_sent": text("end_transaction"),
    "batch_is_produced": text("batch_is_produced", BATCH, assumes.is_counted, partition=HERE),
    "offsets_are_committed": text(
        "offsets_are_committed", BATCH, assumes.is_counted, partition=HERE
    ),
    "batch_is_rejected": text("batch_is_rejected", BATCH, assumes.is_counted, partition=HERE),
    "batch_is_rejected_elsewhere": text("batch_is_rejected", BATCH, assumes.is_elsewhere),
    "batch_is_produced_elsewhere": text("batch_is_produced", BATCH, assumes.is_elsewhere),
    "offsets_are_committed_elsewhere": text("offsets_are_committed", BATCH, assumes.is_elsewhere),
}
"""The steps whose text is not just the rule or event of their name."""
