"""What a run judges: the plan, what is prepared of it once, and what judging a range of it gives.

1. A plan is a value. The same plan gives the same traces, findings and bytes on every machine, for
   any number of workers and however the traces are cut into ranges.
2. Traces are numbered from 0: first those of the cover, then the hunts.
3. `prepare` does once what costs: it explores the scope and cuts the cover. Workers load what it
   left in its directory.
4. `judge_range` is a function of what was prepared and the range alone. Summaries merge in any
   grouping to the same summary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from model.variants import DEFAULT_VARIANT
from proofs.trace.format import Choice

Json = Any
Finding = dict[str, Json]
"""A divergence as plain data: see `finding_of`."""
Instance = tuple[str, Choice]
Steps = tuple[Instance, ...]
"""A trace: rule instances, in order."""
Progress = Callable[[str, float], None]
"""Told what is being prepared, and which part of it is done, 0 to 1."""

MAX_FINDINGS = 20
"""Findings that a summary keeps: those of the lowest trace ids. All are counted."""

FAULTS = ("nodes", "connections", "none")
ACTORS = ("client,leader", "leader")
FORMS = ("bytes", "values")
SOURCES = ("cover", "hunts")


class BadPlan(ValueError):
    """A plan that cannot be carried out; the message says which part, and what may stand there."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is judged, against what, and by which traces.

    `actors` are those of the system under test, the model plays the others. `on` says whether
    messages pass the system's codec. `traces` limits the traces of all sources together; without
    it there are all of the cover and `HUNTS` hunts. `faults` says which budgets of the scope stay:
    all, those of connections, or none.
    """

    scope: str = "idempotent-default"
    variant: str = DEFAULT_VARIANT
    seed: int = 0
    system: str = "impl"
    actors: str = "client,leader"
    on: str = "bytes"
    traces_from: tuple[str, ...] = SOURCES
    traces: int | None = None
    faults: str = "nodes"

    def to_json(self) -> dict[str, Json]:
        """The plan as an object of plain values."""
        return asdict(self) | {"traces_from": list(self.traces_from)}

    @classmethod
    def from_json(cls, value: dict[str, Json]) -> Plan:
        """The plan that `to_json` wrote. Raises BadPlan."""
        known = {field.name for field in fields(cls)}
        if not value.keys() <= known:
            raise BadPlan(f"unknown: {sorted(value.keys() - known)}; a plan has {sorted(known)}")
        return cls(**(value | {"traces_from": tuple(value.get("traces_from", SOURCES))}))


@dataclass(frozen=True, slots=True)
class Summary:
    """What judging some traces gave. `transitions` has bit e set (byte e // 8, bit e % 8) if the
    labelled transition e was executed without a difference; it is empty where none is known.

    `steps` counts those that were executed, `divergences` traces that ended in a difference;
    `findings` are the first of these in the order of trace ids, at most MAX_FINDINGS.
    """

    traces: int = 0
    steps: int = 0
    transitions: bytes = b""
    rules: frozenset[str] = frozenset()
    branches: frozenset[str] = frozenset()
    error_codes: frozenset[str] = frozenset()
    divergences: int = 0
    findings: tuple[Finding, ...] = ()

    def merge(self, other: Summary) -> Summary:
        """Both together. Associative and commutative; `Summary()` is neutral."""
        width = max(len(self.transitions), len(other.transitions))
        either = int.from_bytes(self.transitions, "little") | int.from_bytes(
            other.transitions, "little"
        )
        findings = sorted((*self.findings, *other.findings), key=lambda finding: finding["id"])
        return Summary(
            traces=self.traces + other.traces,
            steps=self.steps + other.steps,
            transitions=either.to_bytes(width, "little"),
            rules=self.rules | other.rules,
            branches=self.branches | other.branches,
            error_codes=self.error_codes | other.error_codes,
            divergences=self.divergences + other.divergences,
            findings=tuple(findings[:MAX_FINDINGS]),
        )

    @property
    def transitions_covered(self) -> int:
        """How many labelled transitions were executed."""
        return int.from_bytes(self.transitions, "little").bit_count()


@dataclass(frozen=True)
class Prepared:
    """What `prepare` left in a directory, as a worker reads it.

    `steps_planned` is exact for covers and an estimate for hunts; `transitions_total` is None if
    the scope was not explored; `cover_steps` and `cover_bound` (least steps that any cover needs)
    are None where there is no cover, or its bound was not computed. The totals of rules, branches
    and error codes are what a run can cover.
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

    @staticmethod
    def load(directory: Path) -> Prepared:
        """Read what was prepared; the second time in a process it is at hand. Raises BadPlan."""
        raise NotImplementedError

    def trace(self, number: int) -> Steps:
        """The trace of an id from 0 to `count` - 1. Raises IndexError."""
        raise NotImplementedError


def prepare(plan: Plan, directory: Path, progress: Progress | None = None) -> Prepared:
    """Explore the scope, cut the cover, and leave in `directory` what workers need.

    Done once: the same plan in the same directory is only loaded. Raises BadPlan, also for a
    directory that another plan was prepared in.
    """
    raise NotImplementedError


def compute_cover_bound(prepared: Prepared) -> Prepared:
    """The same with `cover_bound` known: a linear program, minutes for a million transitions."""
    raise NotImplementedError


def judge_range(prepared: Prepared, first: int, last: int) -> Summary:
    """Judge the traces first <= id < last."""
    raise NotImplementedError


def finding_of(prepared: Prepared, number: int, steps: Steps, at: int) -> Finding:
    """A divergence as data: `id` of its trace; `trace` as [[rule, {choice}], ...], cut behind the
    step that differs; `steps`, how many these are; `rule` and `choice` of the last; `expected` and
    `observed` by field path; `one_minimal`, whether no step can be left out.
    """
    raise NotImplementedError


def shrink_finding(prepared: Prepared, finding: Finding) -> Finding:
    """The finding with a trace of which no step can be left out (`one_minimal`)."""
    raise NotImplementedError
