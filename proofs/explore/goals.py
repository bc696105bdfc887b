"""Goals: the shortest way to a rule, a branch or an error code, as a promise turned round.

A goal is a rule instance with a condition: the instance fires in a state where the condition
holds. "Never in such a state" is then checked like a promise, and its counterexample, with that
instance at the end, is the shortest trace to the goal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from proofs.explore.explorer import explore
from proofs.lift import dag
from proofs.lift.build import Lifted, lift
from proofs.lift.dag import Node
from proofs.lift.evaluate import Evaluator
from proofs.lift.machine import RuleInstance
from proofs.lift.text import Model
from proofs.lift.values import Rec
from proofs.trace.format import Instance

ANSWERING = "answer"
"""The leader's function that makes every answer, and where its error stands."""
ERROR_ARGUMENT = 1

BRANCH = re.compile(r"model/(\w+)\.py:(\d+):(\d+): in (\w+)")


class UnknownGoal(ValueError):
    """Nothing has this name; the message lists what there is."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A rule instance, and what must hold of the state in which it fires."""

    instance: RuleInstance
    condition: Node


def branch_names(lifted: Lifted) -> dict[str, str]:
    """The branch points' names, `module.function#N`, by place; N counts in the text's order."""
    places = {where for branches in lifted.branches.values() for where in branches}
    matched = sorted(
        (m[1], m[4], int(m[2]), int(m[3]), m[0]) for m in map(BRANCH.match, places) if m
    )
    names: dict[str, str] = {}
    seen: dict[tuple[str, str], int] = {}
    for module, function, _line, _column, place in matched:
        number = seen[module, function] = seen.get((module, function), 0) + 1
        names[place] = f"{module}.{function}#{number}"
    return names


def rule_goals(lifted: Lifted) -> Iterator[tuple[str, Goal]]:
    """Each rule fires."""
    for instance in lifted.machine.rules:
        yield instance.rule, Goal(instance, dag.TRUE)


def branch_goals(lifted: Lifted) -> Iterator[tuple[str, Goal]]:
    """Each branch is taken (`:then`) and not taken (`:else`)."""
    names = branch_names(lifted)
    for instance in lifted.machine.rules:
        for where, outcomes in lifted.branches[instance.label].items():
            for outcome, condition in zip(("then", "else"), outcomes, strict=True):
                yield f"{names[where]}:{outcome}", Goal(instance, condition)


def answers_of(
    model: Model, k: Any, world: Rec, instance: RuleInstance
) -> tuple[tuple[Node, Any], ...]:
    """(condition, error) for each place where a rule instance makes an answer.

    The answer need not reach anyone: that of a late request is lost, and is one all the same.
    """
    noted: list[tuple[Node, Any]] = []

    def spy(evaluator: Evaluator, *arguments: Any) -> Any:
        noted.append((evaluator.path, arguments[ERROR_ARGUMENT]))
        contract = evaluator.contracts.pop(ANSWERING)
        try:
            return evaluator.call(model.leader.answer, arguments)
        finally:
            evaluator.contracts[ANSWERING] = contract

    evaluator = Evaluator(model, k, contracts={ANSWERING: spy})
    constants = [dag.const(value) for _, value in instance.choice]
    evaluator.call(model.rules[instance.rule], [k, world, *constants])
    return tuple(noted)


def error_goals(model: Model, k: Any, lifted: Lifted) -> Iterator[tuple[str, Goal]]:
    """Each error code is answered."""
    for instance in lifted.machine.rules:
        for path, answered in answers_of(model, k, lifted.world, instance):
            for error in model.messages.Error:
                is_it = dag.eq(answered, dag.const(int(error)))
                yield error.name, Goal(instance, dag.both(path, is_it))


def goals(model: Model, k: Any, lifted: Lifted) -> dict[str, list[Goal]]:
    """All that can be asked for, by name."""
    found: dict[str, list[Goal]] = {}
    for source in (rule_goals(lifted), branch_goals(lifted), error_goals(model, k, lifted)):
        for name, goal in source:
            found.setdefault(name, []).append(goal)
    return found


def as_promises(wanted: list[Goal]) -> dict[str, Node]:
    """For each goal the promise that it never happens, named after its place in the list."""
    return {
        str(number): dag.negate(dag.both(goal.instance.guard, goal.condition))
        for number, goal in enumerate(wanted)
    }


def shortest(
    model: Model, k: Any, scope: str, name: str, **how: Any
) -> tuple[Instance, ...] | None:
    """The shortest way to a goal in a scope; None if the scope does not reach it.

    `how` goes to `explorer.explore`: engine, workers, progress. Raises UnknownGoal.
    """
    lifted = lift(model, k, scope, promises=False)
    known = goals(model, k, lifted)
    if name not in known:
        raise UnknownGoal(unknown(name, known))
    machine = replace(lifted.machine, promises=as_promises(known[name]))
    found = explore(machine, stop=True, **how).violations
    if not found:
        return None
    number, steps = min(found.items(), key=lambda entry: (len(entry[1]), int(entry[0])))
    last = known[name][int(number)].instance
    return (
        *((machine.rules[i].rule, machine.rules[i].choice) for i in steps),
        (last.rule, last.choice),
    )


def unknown(name: str, known: Mapping[str, Any]) -> str:
    """Why there is no such goal, and what there is."""
    module = name.partition("#")[0]
    near = [other for other in known if other.startswith(module)] if "." in name else []
    listed = near or [other for other in known if "#" not in other]
    return f"nothing is called {name!r}; choose one of {', '.join(listed)}, or a branch of `list`"
