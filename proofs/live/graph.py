"""The complete graph of an unbounded scope, with the values that properties need of states and
edges.

Nothing of the model is evaluated twice: states and edges come from the explorer, and the values of
a state (a pending number, a condition of an event) from the model's own functions, lifted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from model.language import Disabled
from proofs.explore.explorer import ExplorationRun, Report, explore, prepare, searched
from proofs.explore.packed import joined
from proofs.explore.result import Exploration, StateGraph
from proofs.explore.source import instances, outline, source_search
from proofs.lift import dag
from proofs.lift.build import Lifted, lift
from proofs.lift.dag import Node
from proofs.lift.evaluate import Evaluator
from proofs.lift.ints_form import ints_form
from proofs.lift.source import Model
from proofs.live.fair import Bools, Edges, Numbers
from proofs.trace.format import Instance, label
from proofs.trace.replay import Stepper, World

Sentence = Callable[..., Any]
"""A function of the model: (configuration, world, producer, partition) -> bool or int."""
Place = tuple[int, int]
"""A client and a partition."""


ENGINES = ("c", "ints", "source")


@dataclass(frozen=True, slots=True)
class GraphQuestion:
    """A configuration to explore, the sentences to evaluate on each state, and the rules whose
    occurrence some assumption requires."""

    stepper: Stepper
    name: str
    sentences: Sequence[Sentence]
    fair_rules: Sequence[str]


def places(k: Any) -> list[Place]:
    """Return all pairs of a client and a partition; clients are producers, or instances of a
    transactional id."""
    bounds = k.bounds
    clients = bounds.producers if hasattr(bounds, "producers") else bounds.instances
    return [(r, p) for r in range(clients) for p in range(bounds.partitions)]


def is_event(event: Any, instance: Instance, place: Place) -> bool:
    """Whether a rule instance can be the event at a client and a partition, as far as its choices
    name them."""
    rule, choice = instance[0], dict(instance[1])
    client, partition = place
    wanted = {"producer": client, "instance": client, "partition": partition, **dict(event.choice)}
    named = all(choice.get(name, value) == value for name, value in wanted.items())
    return rule in event.rules and named


def packed_states(graph: StateGraph) -> Iterator[int]:
    """Yield the states as the ints form takes them, in their order."""
    words = graph.layout.words
    for at in range(0, len(graph.packed), words):
        yield joined(graph.packed[at : at + words])


def lifted_sentences(
    model: Model, k: Any, lifted: Lifted, sentences: Iterable[Sentence]
) -> dict[str, Node]:
    """Return each sentence at each place, by `key`."""
    return {
        key(sentence, place): Evaluator(model, k).call(
            sentence, [k, lifted.world, *map(dag.const, place)]
        )
        for sentence in sentences
        for place in places(k)
    }


def key(sentence: Sentence, place: Place) -> str:
    """Return the name of a sentence at a place."""
    return f"{sentence.__name__}{place}"


def cut_by_scope(lifted: Lifted, rules: Sequence[str]) -> dict[str, Node]:
    """Return for each instance of the rules the condition that only the scope forbids it."""
    found: dict[str, Node] = {}
    for instance in lifted.machine.rules:
        if instance.rule in rules:
            limits = lifted.limits[instance.label]
            possible = dag.conjunction(n.condition for n in limits if not n.by_scope)
            allowed = dag.conjunction(n.condition for n in limits if n.by_scope)
            found[instance.label] = dag.both(possible, dag.negate(allowed))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """A graph with the values of sentences by state; `depth` is a state's distance from the first.

    `edges` are the transitions; edge i is rule instance `rules[i]`, one of `instances`. `forbidden`
    has for each instance the states in which only the scope's limits forbid it.
    """

    k: Any
    edges: Edges
    rules: Numbers
    instances: tuple[Instance, ...]
    values: Mapping[str, Numbers]
    depth: Numbers
    forbidden: Mapping[str, Bools]

    def value(self, sentence: Sentence, place: Place) -> Numbers:
        """Return the value of a sentence in each state."""
        return self.values[key(sentence, place)]

    def of(self, event: Any, place: Place) -> list[bool]:
        """Return for each rule instance whether it can be the event at a place."""
        return [is_event(event, instance, place) for instance in self.instances]

    def is_cut(self, event: Any, place: Place) -> bool:
        """Whether in some state only the scope's limits forbid the event."""
        pairs = zip(self.instances, self.of(event, place), strict=True)
        forbidden = [self.forbidden[label(*instance)] for instance, is_it in pairs if is_it]
        possible = self.edges.begins(self.taken(event, place))
        return any(bool((states & ~possible).any()) for states in forbidden)

    def taken(self, event: Any, place: Place) -> Bools:
        """Return for each edge whether it is the event at a place."""
        edges: Bools = np.array(self.of(event, place), dtype=bool)[self.rules]
        if event.when is None:
            return edges
        return edges & (self.value(event.when, place)[self.edges.sources] != 0)

    def stem(self, state: int) -> list[int]:
        """Return the edges of a shortest path to a state."""
        first_edge = np.full(self.edges.states, -1, dtype=np.int64)
        first_edge[self.edges.targets[::-1]] = np.arange(len(self.rules))[::-1]
        path: list[int] = []
        while state != 0:
            path.append(int(first_edge[state]))
            state = int(self.edges.sources[path[-1]])
        return path[::-1]

    def instance(self, edge: int) -> Instance:
        """Return the rule instance of an edge."""
        return self.instances[int(self.rules[edge])]


def numbers(values: Iterable[int]) -> Numbers:
    """Return a column of ints."""
    return np.fromiter(values, dtype=np.int64)


def depths(exploration: Exploration) -> Numbers:
    """Return each state's distance from the first."""
    return np.repeat(np.arange(len(exploration.levels)), exploration.levels)


# The two ways to explore


def explored(asked: GraphQuestion, engine: str, progress: Report | None = None) -> Explored:
    """Explore a configuration completely, by one of ENGINES. Raises as `lift` and `explore`."""
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; choose one of {', '.join(ENGINES)}")
    return by_source(asked, progress) if engine == "source" else by_machine(asked, engine, progress)


def by_machine(asked: GraphQuestion, engine: str, progress: Report | None) -> Explored:
    """Explore by the lifted form: states are packed, sentences and limits are tests of packed
    states."""
    model, k = asked.stepper.model, asked.stepper.k
    lifted = lift(model, k, asked.name, guarantees=False)
    exploration = explore(lifted.machine, engine, want_edges=True, progress=progress)
    graph = exploration.graph
    assert graph is not None
    sentences = lifted_sentences(model, k, lifted, asked.sentences)
    limits = cut_by_scope(lifted, asked.fair_rules)
    prepared = prepare(replace(lifted.machine, guarantees={**sentences, **limits}))
    tests = ints_form(prepared.machine, graph.layout).guarantees
    states = list(packed_states(graph))
    values = {name: numbers(int(test(s)) for s in states) for name, test in tests.items()}
    return Explored(
        k=k,
        edges=Edges(len(states), numbers(graph.sources), numbers(graph.targets)),
        rules=numbers(graph.rules),
        instances=tuple((rule.rule, rule.choice) for rule in lifted.machine.rules),
        values={name: values[name] for name in sentences},
        depth=depths(exploration),
        forbidden={name: values[name] != 0 for name in limits},
    )


def by_source(asked: GraphQuestion, progress: Report | None) -> Explored:
    """Explore by the model's own functions. Nothing is lifted or compiled, which is quick for a
    small graph."""
    model, k = asked.stepper.model, asked.stepper.k
    every = instances(model, k)
    search = source_search(asked.stepper, every, (), edges=True)
    run = ExplorationRun(outline(model, asked.name, every, ()), "source", search, progress)
    exploration = searched(run, lambda: None, False, None)
    assert search.edges is not None
    sources, rules, targets = search.edges
    fair = [instance for instance in every if instance[0] in asked.fair_rules]
    return Explored(
        k=k,
        edges=Edges(len(search.states), numbers(sources), numbers(targets)),
        rules=numbers(rules),
        instances=every,
        values={
            key(sentence, place): numbers(int(sentence(k, w, *place)) for w in search.states)
            for sentence in asked.sentences
            for place in places(k)
        },
        depth=depths(exploration),
        forbidden={
            label(*one): numbers(is_forbidden(asked.stepper, one, w) for w in search.states) != 0
            for one in fair
        },
    )


def is_forbidden(stepper: Stepper, instance: Instance, world: World) -> bool:
    """Whether a limit of the scope is what forbids a step."""
    try:
        stepper.apply(*instance, world)
    except Disabled as disabled:
        return bool(disabled.by_scope)
    return False
