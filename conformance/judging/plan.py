"""The plan of a run: what it judges, and what is prepared of it once.

1. A plan is a value. The same plan gives the same traces, findings and bytes on every machine, for
   any number of workers and however its traces are cut into ranges.
2. Traces are numbered from 0: first the traces of the cover, then those that are drawn, from each
   source of the plan in turn.
3. `prepare` does the expensive work once: it explores the scope and cuts the cover. Workers load
   the files that it left in its directory.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from conformance.generate import hunt
from conformance.generate.broker_graph import AT_NODES, AT_ONE, SELDOM, graph_at_brokers
from conformance.generate.cover import Cover, bound, cover
from conformance.generate.faults import FAULT_CHOICES, faults_not_had
from conformance.generate.graph import (
    Numbers,
    ScopeTooLargeForCover,
    TransitionGraph,
    explored,
    machine_of,
)
from conformance.generate.pct import DEPTH, longest, pct
from conformance.generate.threads import threads_of
from conformance.judging.compositions import (
    JUDGED_COMPOSITIONS,
    SERVER_ACTORS,
    judged_composition,
)
from conformance.judging.judge import Steps
from conformance.judging.tables import CoveredPoints, ModelTables, watched_modules
from model.idempotent.variants import DEFAULT_VARIANT
from proofs import arrays as np
from proofs.explore.result import SearchProgress as Explored
from proofs.lift.machine import Machine
from proofs.run.files import pretty, write_whole
from proofs.trace.format import Instance
from proofs.trace.replay import configuration_of

Json = Any
Progress = Callable[[str, float], None]
"""Receives the name of the present work, and the part of it that is done, 0 to 1."""


HUNTS = 1_000
"""The number of drawn traces for a plan without a limit."""
SAMPLED_HUNTS = 32
"""The number of drawn traces whose lengths are measured to estimate the steps of all."""

IMPL = "impl"
"""The system whose actors are judged one by one, in this process."""
NODES = "nodes"
"""The system that plays the scripts of brokers in this process."""
FAULTS = tuple(FAULT_CHOICES)
ACTORS = tuple(actors for c in JUDGED_COMPOSITIONS.values() for actors in c.actors)
FORMS = ("bytes", "values")
SOURCES = ("cover", "pct", "hunts", "aimed")
"""Covers of all transitions; schedules by priorities; walks that prefer what is rare; and such
walks that begin behind a transition of their own."""
LISTS = ("traces_from", "ignored")
"""The fields of a plan that are lists in JSON."""
NEED_NO_GRAPH = frozenset({"pct", "hunts"})
"""Sources for scopes that are too large to explore."""

MANIFEST = "prepared.json"
PLAN = "plan.json"
INSTANCES = "instances.json"
TOTALS = ("rules_total", "branches_total", "error_codes_total", "table_entries_total")


class BadPlan(ValueError):
    """A plan that cannot be carried out; the message says which part, and which values are
    possible."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The subject of a run: what is judged, against which model, and by which traces.

    `actors` are those of the system under test; the model plays the others. `on` says whether
    messages pass through the system's codec. `traces` limits the traces of all sources together;
    without it the plan has the whole cover and `HUNTS` drawn traces. `faults` says which fault
    budgets of the scope remain: all, those of connections, or none. `depth` is the depth of the
    bugs that PCT looks for. `ignored` are masks (`conformance.judging.masks`); with `masks_often` a
    run over a wire adds masks by itself.
    """

    scope: str = "idempotent-default"
    variant: str = DEFAULT_VARIANT
    seed: int = 0
    system: str = IMPL
    actors: str = "client,leader"
    on: str = "bytes"
    traces_from: tuple[str, ...] = ("cover", "hunts")
    traces: int | None = None
    faults: str = "nodes"
    depth: int = DEPTH
    ignored: tuple[str, ...] = ()
    masks_often: bool = True

    def to_json(self) -> dict[str, Json]:
        """The plan as an object of plain values."""
        lists = {name: list(getattr(self, name)) for name in LISTS}
        return asdict(self) | lists

    @classmethod
    def from_json(cls, value: dict[str, Json]) -> Plan:
        """The plan that `to_json` wrote. Raises BadPlan."""
        known = {field.name for field in fields(cls)}
        if not value.keys() <= known:
            raise BadPlan(f"unknown: {sorted(value.keys() - known)}; a plan has {sorted(known)}")
        lists = {name: tuple(value[name]) for name in LISTS if name in value}
        return cls(**(value | lists))


# What a plan stands for


def check_plan(plan: Plan) -> Plan:
    """The plan, if it can be carried out. Raises BadPlan."""
    composition = judged_composition(plan.scope)
    for name, allowed in (
        ("system", (IMPL, NODES)),
        ("actors", composition.actors),
        ("on", FORMS),
        ("faults", FAULTS),
    ):
        if getattr(plan, name) not in allowed:
            given = getattr(plan, name)
            raise BadPlan(f"{name} is {given!r}; choose one of {', '.join(allowed)}")
    if not plan.traces_from or not set(plan.traces_from) <= set(SOURCES):
        raise BadPlan(f"traces come from {', '.join(SOURCES)}, not from {plan.traces_from}")
    if plan.traces is not None and plan.traces < 0:
        raise BadPlan(f"traces is {plan.traces}; it must not be negative")
    if not 1 <= plan.depth <= hunt.MAX_STEPS:
        raise BadPlan(f"depth is {plan.depth}; it must be 1 to {hunt.MAX_STEPS}")
    configuration(plan)
    return plan


def scope_text(plan: Plan) -> str:
    """The scope with the fault budgets that `faults` leaves. Raises ValueError."""
    model = judged_composition(plan.scope).model
    k = configuration_of(model, plan.scope, plan.variant)
    return scope_without(plan.scope, faults_not_had(k, model, FAULT_CHOICES[plan.faults]))


def scope_without(scope: str, faults: Iterable[str]) -> str:
    """The scope without the budgets of these faults."""
    return "/".join((scope, *(f"{fault}=0" for fault in faults)))


@functools.lru_cache(maxsize=64)
def configuration(plan: Plan) -> Any:
    """The model's configuration. Raises BadPlan for an unknown scope or variant."""
    try:
        model = judged_composition(plan.scope).model
        return configuration_of(model, scope_text(plan), plan.variant)
    except ValueError as error:
        raise BadPlan(str(error)) from error


# Preparing


@dataclass(frozen=True)
class PreparedPlan:
    """The content of a directory that `prepare` filled, as workers read it.

    `steps_planned` is exact for covers and an estimate for drawn traces. `transitions_total` is
    None if the scope was not explored. `cover_steps` and `cover_bound` (the least steps of any
    cover) are None if the plan has no cover, or its bound was not computed. `threads` is the number
    of threads of PCT schedules, and `threads_steps` the number of steps among which priorities
    change; both are None if no trace comes from PCT. The totals of rules, branches, error codes and
    entries of error tables are what a run can cover.
    """

    plan: Plan
    directory: Path
    count: int
    steps_planned: int
    transitions_total: int | None
    cover_traces: int
    cover_steps: int | None
    cover_bound: int | None
    rules_total: frozenset[str]
    branches_total: frozenset[str]
    error_codes_total: frozenset[str]
    threads: int | None = None
    threads_steps: int | None = None
    table_entries_total: frozenset[str] = frozenset()

    @staticmethod
    def load(directory: Path) -> PreparedPlan:
        """Read what was prepared; a process keeps the large files open. Raises BadPlan."""
        try:
            found = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise BadPlan(f"nothing was prepared in {directory}") from error
        found |= {name: frozenset(found[name]) for name in TOTALS}
        found["plan"] = Plan.from_json(found["plan"])
        return PreparedPlan(directory=directory, **found)

    def save(self) -> None:
        """Write the manifest. It is written last, so its presence says that all other files are
        complete."""
        value = {field.name: getattr(self, field.name) for field in fields(self)}
        del value["directory"]
        value |= {"plan": self.plan.to_json()} | {name: sorted(value[name]) for name in TOTALS}
        write_whole(self.directory / MANIFEST, pretty(value))

    @property
    def instances(self) -> Sequence[Instance]:
        """The rule instances by the numbers that walks use."""
        return _stored(self.directory).instances

    def trace(self, number: int) -> Steps:
        """The trace of an id from 0 to `count` - 1. Raises IndexError."""
        return tuple(self.instances[instance] for instance in self.walk(number)[0])

    def shows(self, transitions: bytes) -> int:
        """The bits, as in `TransitionGraph.shows`, of the initial state and of all states that
        these transitions lead to. `transitions` is as in a Summary of an explored scope."""
        graph = _stored(self.directory).graph
        bits = np.unpackbits(np.frombuffer(transitions, np.uint8), bitorder="little")
        reached = graph.shows[graph.targets[np.flatnonzero(bits)]]
        return int(np.bitwise_or.reduce(reached, initial=graph.shows[0]))

    def rules_of_transitions(self) -> tuple[list[str], Numbers]:
        """The names of rules, and for each labelled transition the number of its rule among
        them."""
        stored = _stored(self.directory)
        names = sorted({rule for rule, _ in stored.instances})
        return names, np.array(stored.rule_of, dtype=np.int32)[stored.graph.rules]

    def walk(self, number: int) -> tuple[list[int], Numbers | None]:
        """The trace as rule instances, and its transitions; None if transitions are not known."""
        if not 0 <= number < self.count:
            raise IndexError(f"trace {number}: there are {self.count}")
        stored = _stored(self.directory)
        if number < self.cover_traces:
            first, end = stored.cover.first[number : number + 2].tolist()
            edges = stored.cover.edges[first:end]
            return stored.graph.rules[edges].tolist(), edges
        steps = self._drawn(stored, number)
        edges = np.array([edge for _, edge in steps], dtype=np.int64)
        return [instance for instance, _ in steps], edges if self.transitions_total else None

    def _drawn(self, stored: _Stored, number: int) -> list[tuple[int, int]]:
        """A drawn trace, by its id."""
        walker, seed = stored.walker, self.plan.seed
        kinds = [source for source in self.plan.traces_from if source != "cover"]
        kind = kinds[number % len(kinds)]
        if kind == "pct":
            assert self.threads_steps is not None
            depth = self.plan.depth
            return pct(walker, stored.thread_of, depth, self.threads_steps, seed, number)
        if kind == "hunts":
            return hunt.hunt(walker, stored.rule_of, seed, number)
        assert isinstance(walker, hunt.GraphWalker)
        return hunt.aimed(walker, stored.rule_of, seed, number)


class _Stored:
    """The large files of a directory, mapped into memory, and the objects built from them."""

    def __init__(self, directory: Path) -> None:
        plan = Plan.from_json(json.loads((directory / PLAN).read_text(encoding="utf-8")))
        rows = json.loads((directory / INSTANCES).read_text(encoding="utf-8"))
        self._model = judged_composition(plan.scope).model
        self.instances: tuple[Instance, ...] = tuple(
            (rule, tuple(choice.items())) for rule, choice in rows
        )
        rules = sorted({rule for rule, _ in self.instances})
        self.rule_of = [rules.index(rule) for rule, _ in self.instances]
        self._directory = directory
        self.graph = TransitionGraph(*(self._array(name) for name in GRAPH_FILES))
        self.cover = Cover(self._array("cover_edges"), self._array("cover_first"))
        self.walker: hunt.HuntWalker = (
            hunt.GraphWalker(self.graph, shares_of(plan, self.instances))
            if self.graph.edges
            else hunt.MachineWalker(machine_of(configuration(plan), plan.scope))
        )

    @functools.cached_property
    def thread_of(self) -> list[int]:
        """The thread of each rule instance as a number."""
        return threads_of(self._model, self.instances)

    def _array(self, name: str) -> Numbers:
        # Plain arrays: slicing a memmap costs ten times as much.
        path = self._directory / f"{name}.npy"
        array: Numbers = np.load(path, mmap_mode="r").view(np.ndarray)
        return array


def shares_of(plan: Plan, instances: Sequence[Instance]) -> list[float]:
    """For hunts at nodes: how often faults of nodes occur, relative to requests."""
    seldom = SELDOM if is_of_nodes(plan) else {}
    return [seldom.get(rule, 1.0) for rule, _ in instances]


def is_of_nodes(plan: Plan) -> bool:
    """Whether the plan judges brokers that are stopped and moved."""
    return plan.actors == SERVER_ACTORS and plan.faults == "nodes"


@functools.lru_cache(maxsize=8)
def _stored(directory: Path) -> _Stored:
    return _Stored(directory)


GRAPH_FILES = ("first_edge", "rules", "targets", "shows")


def empty_graph() -> TransitionGraph:
    """The graph of a scope that is too large to explore."""
    return TransitionGraph(np.zeros(1, np.uint32), np.zeros(0, np.uint16), np.zeros(0, np.uint32))


def empty_cover() -> Cover:
    """The cover of a plan without traces of a cover."""
    return Cover(np.zeros(0, np.uint32), np.zeros(1, np.uint64))


def prepare(plan: Plan, directory: Path, progress: Progress | None = None) -> PreparedPlan:
    """Explore the scope, cut the cover, and write the files that workers need into `directory`.

    If the directory already has this plan, it is only loaded. Raises BadPlan, also for a directory
    in which another plan was prepared.
    """
    check_plan(plan)
    if (directory / MANIFEST).exists():
        prepared = PreparedPlan.load(directory)
        if prepared.plan != plan:
            raise BadPlan(f"another plan was prepared in {directory}: {prepared.plan}")
        return prepared
    told = progress or (lambda _what, _part: None)
    machine = machine_of(configuration(plan), plan.scope, guarantees=True)
    graph = _graph_of(plan, machine, told)
    told("cutting the cover", 0.0)
    walks = cover(graph) if "cover" in plan.traces_from else empty_cover()
    told("cutting the cover", 1.0)
    directory.mkdir(parents=True, exist_ok=True)
    arrays = {name: getattr(graph, name) for name in GRAPH_FILES}
    arrays |= {"cover_edges": walks.edges, "cover_first": walks.first}
    for name, array in arrays.items():
        np.save(directory / f"{name}.npy", array)
    rows = [[instance.rule, dict(instance.choice)] for instance in machine.rules]
    write_whole(directory / INSTANCES, json.dumps(rows))
    write_whole(directory / PLAN, pretty(plan.to_json()))
    _stored.cache_clear()
    prepared = _counted(plan, directory, graph, walks)
    prepared.save()
    return prepared


def _graph_of(plan: Plan, machine: Machine, told: Progress) -> TransitionGraph:
    """The graph of the scope; an empty graph if the scope is too large and no source needs the
    graph."""

    def report(so_far: Explored) -> None:
        told("exploring", so_far.done / max(so_far.frontier, 1))

    is_served = plan.actors == SERVER_ACTORS
    try:
        graph = explored(machine, report)
    except ScopeTooLargeForCover as error:
        if is_served:
            raise BadPlan(f"{error}: too many to cut traces for a server from") from error
        if not NEED_NO_GRAPH.issuperset(plan.traces_from):
            raise BadPlan(f"{error}: too many for a cover; take traces from pct, hunts") from error
        return empty_graph()
    if not is_served:
        return graph
    rules = [(i.rule, dict(i.choice)) for i in machine.rules]
    return graph_at_brokers(graph, rules, AT_NODES if is_of_nodes(plan) else AT_ONE)


def points_of(plan: Plan) -> CoveredPoints:
    """All points of the model's text that traces can cover."""
    composition = judged_composition(plan.scope)
    modules = watched_modules(composition.model, composition.watches_events)
    return ModelTables(configuration(plan), composition.model, modules).all_points


def _counted(plan: Plan, directory: Path, graph: TransitionGraph, walks: Cover) -> PreparedPlan:
    """The numbers of the prepared plan."""
    drawn = 0
    if plan.traces_from != ("cover",):
        drawn = HUNTS if plan.traces is None else max(plan.traces - walks.traces, 0)
    limit = walks.traces if plan.traces is None else min(plan.traces, walks.traces)
    covered = points_of(plan)
    stored = _stored(directory)
    instances = stored.instances
    reached = np.unique(graph.rules).tolist() if graph.edges else range(len(instances))
    is_pct = "pct" in plan.traces_from
    counted = PreparedPlan(
        plan=plan,
        directory=directory,
        count=limit + drawn,
        steps_planned=int(walks.first[limit]),
        transitions_total=graph.edges or None,
        cover_traces=limit,
        cover_steps=walks.steps or None,
        cover_bound=None,
        rules_total=frozenset(instances[i][0] for i in reached),
        branches_total=covered.branches,
        error_codes_total=covered.error_codes,
        table_entries_total=covered.table_entries,
        threads=len({stored.thread_of[i] for i in reached}) if is_pct else None,
        threads_steps=longest(stored.walker, stored.thread_of, plan.seed) if is_pct else None,
    )
    tried = range(limit, min(limit + SAMPLED_HUNTS, counted.count))
    length = sum(len(counted.walk(number)[0]) for number in tried) / max(len(tried), 1)
    return replace(counted, steps_planned=counted.steps_planned + round(length * drawn))


def prepare_one(plan: Plan, folder: Path, traces: int, steps: int) -> PreparedPlan:
    """A prepared plan that has exactly the given traces; transitions are not counted for it."""
    none = frozenset[str]()
    return PreparedPlan(plan, folder, traces, steps, None, 0, None, None, none, none, none)


def compute_cover_bound(prepared: PreparedPlan) -> PreparedPlan:
    """The same with `cover_bound` computed: a linear program, minutes for a million transitions."""
    if prepared.cover_steps is None or prepared.cover_bound is not None:
        return prepared
    known = replace(prepared, cover_bound=bound(_stored(prepared.directory).graph))
    known.save()
    return known
