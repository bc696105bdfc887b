"""Engine "source": breadth first over the model's own functions.

It is the oracle for the compiled engines. Nothing is lifted: each transition is a call of the rule
as its text stands, and each guarantee is a call of its function. Search and result are those of the
other engines, so that counts, order and ties can be compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from proofs.explore.explorer import ExplorationRun, Report, searched
from proofs.explore.result import Exploration
from proofs.explore.search import Check, Search
from proofs.lift.dag import TRUE
from proofs.lift.machine import Machine, RuleInstance
from proofs.lift.source import Model
from proofs.trace.format import Instance, label
from proofs.trace.replay import Stepper, World, domains


class NotTotal(Exception):
    """A rule failed with a Python error where it should return a world or be disabled."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class SourceGraph:
    """An exploration with all its worlds and transitions.

    `edges` has (state, instance, state) by number, in the order of the search; `instances` has the
    rule instances by number.
    """

    exploration: Exploration
    instances: tuple[Instance, ...]
    worlds: tuple[World, ...]
    edges: tuple[tuple[int, int, int], ...]


def instances(model: Model, k: Any) -> tuple[Instance, ...]:
    """Return all rule instances of a configuration, in the order of a lifted machine's."""
    return tuple(
        (rule, tuple(zip(allowed, values, strict=True)))
        for rule in model.rules
        for allowed in (domains(model, k, rule),)
        for values in itertools.product(*allowed.values())
    )


def successors(
    stepper: Stepper, world: World, of: tuple[Instance, ...]
) -> Iterator[tuple[int, World]]:
    """Yield (instance's number, next world) for each enabled instance. Raises NotTotal."""
    for number, (rule, choice) in enumerate(of):
        try:
            after = stepper.after(rule, choice, world)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise NotTotal(f"{label(rule, choice)} fails in a reachable state: {error}") from error
        if after is not None:
            yield number, after


def outline(
    model: Model, name: str, of: tuple[Instance, ...], guarantees: Sequence[Any]
) -> Machine:
    """Return a machine that has only names, for an engine that needs no nodes."""
    return Machine(
        name=name,
        leaves=(),
        initial=(),
        inputs={},
        rules=tuple(RuleInstance(rule, choice, TRUE, {}) for rule, choice in of),
        guarantees={p.name: TRUE for p in guarantees},
        witnesses={w.name: TRUE for w in model.guarantees.WITNESSES},
    )


def check_of(k: Any, sentence: Callable[[Any, World], bool], *, wanted: bool) -> Check[World]:
    """Return a guarantee or a witness in the form that the search needs."""
    return Check(lambda world: sentence(k, world), wanted)


def source_search(
    stepper: Stepper, of: tuple[Instance, ...], guarantees: Sequence[Any], *, edges: bool
) -> Search[World]:
    """Return the search over worlds."""
    k, witnesses = stepper.k, stepper.model.guarantees.WITNESSES
    checks = [check_of(k, p.check, wanted=False) for p in guarantees]
    checks += [check_of(k, w.check, wanted=True) for w in witnesses]

    def all_successors(world: World) -> Iterator[tuple[int, World]]:
        return successors(stepper, world, of)

    return Search(stepper.initial(), all_successors, checks, len(of), edges)


def explore_source(
    model: Model,
    k: Any,
    name: str,
    *,
    only: Collection[str] | None = None,
    stop: bool = False,
    max_depth: int | None = None,
    progress: Report | None = None,
) -> Exploration:
    """Explore a configuration by its source; arguments and errors as in `explorer.explore`.

    `only` names the guarantees to check; None means all. Rule instances in the result are numbered
    as in `instances`. Also raises NotTotal.
    """
    of = instances(model, k)
    guarantees = [p for p in model.guarantees.GUARANTEES if only is None or p.name in only]
    search = source_search(Stepper(model, k), of, guarantees, edges=False)
    run = ExplorationRun(outline(model, name, of, guarantees), "source", search, progress)
    return searched(run, lambda: None, stop, max_depth)


def source_graph(model: Model, k: Any, name: str, progress: Report | None = None) -> SourceGraph:
    """Return the whole graph of a small configuration, with its worlds. Raises as
    `explore_source`."""
    of = instances(model, k)
    guarantees = model.guarantees.GUARANTEES
    search = source_search(Stepper(model, k), of, guarantees, edges=True)
    run = ExplorationRun(outline(model, name, of, guarantees), "source", search, progress)
    exploration = searched(run, lambda: None, False, None)
    assert search.edges is not None
    edges = tuple(zip(*search.edges, strict=True))
    return SourceGraph(exploration, of, tuple(search.states), edges)
