"""The evidence: completely explored scopes, shortest traces, lassos. It is gathered once, then
kept.

The evidence is about the model's text, so a change of the text requires gathering it again. Runs of
named scopes are kept as trace files too, for other systems to play.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proofs.trace.format import Trace, read


class BadEvidence(ValueError):
    """The file of evidence cannot be read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class ShortestRun:
    """A shortest run that breaks a guarantee; `told` has its steps as lines, if a page shows
    them."""

    property: str
    scope: str
    variant: str
    guaranteed: bool
    steps: int
    events: int
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExploredScope:
    """A scope explored completely under a variant, and the guarantees that it breaks."""

    composition: str
    scope: str
    variant: str
    distinct: int
    transitions: int
    depth: int
    broken: tuple[ShortestRun, ...]

    def found(self, name: str) -> ShortestRun | None:
        """Return the run that breaks a guarantee; None if there is none."""
        return next((run for run in self.broken if run.property == name), None)


@dataclass(frozen=True, slots=True)
class LivenessScope:
    """An explored unbounded scope. `asked` are the liveness properties checked, each with its
    assumptions. Of those that are exercised, `guaranteed` lists the guaranteed ones, `holds` those
    that hold."""

    composition: str
    scope: str
    variant: str
    distinct: int
    transitions: int
    asked: tuple[str, ...]
    guaranteed: tuple[str, ...]
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LassoRun:
    """A run without end that breaks a guarantee, and also the assumption that it is `without` (""
    means that it keeps all of them). After `stem` steps there are `loop` more for ever; 0 means
    that nothing more happens."""

    composition: str
    property: str
    without: str
    scope: str
    variant: str
    stem: int
    loop: int
    told: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence. `asked` are the guarantees and assumed properties checked, by composition.
    `shown` are the runs that pages show, by page; `without` those that an assumption of a theorem
    excludes; `defects` those of known defects. `traces` has the files of the runs in `shown` and
    `defects`, by name."""

    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seen: tuple[ExploredScope, ...] = ()
    unbounded: tuple[LivenessScope, ...] = ()
    lasting: tuple[LassoRun, ...] = ()
    shown: Mapping[str, ShortestRun] = field(default_factory=dict)
    without: Mapping[str, ShortestRun] = field(default_factory=dict)
    defects: Mapping[str, ShortestRun] = field(default_factory=dict)
    traces: Mapping[str, Trace] = field(default_factory=dict)

    def of(self, composition: str, variant: str) -> Iterator[ExploredScope]:
        """Yield the scopes of a variant."""
        return (s for s in self.seen if (s.composition, s.variant) == (composition, variant))

    def shortest(self, composition: str, name: str, variant: str) -> ShortestRun | None:
        """Return the shortest run of a variant that breaks a guarantee; None if there is none."""
        found = [run for seen in self.of(composition, variant) if (run := seen.found(name))]
        return min(found, key=lambda run: (run.events, run.steps), default=None)


# Kept


def dumps(evidence: Evidence) -> str:
    """Return everything except the traces, one item a line, so that a changed number is a changed
    line."""
    rows: dict[str, Any] = {
        "asked": [
            {"composition": composition, "names": names}
            for composition, names in evidence.asked.items()
        ],
        "seen": [asdict(row) for row in evidence.seen],
        "unbounded": [asdict(row) for row in evidence.unbounded],
        "lasting": [asdict(row) for row in evidence.lasting],
    }
    for kind in ("shown", "without", "defects"):
        runs = getattr(evidence, kind)
        rows[kind] = [{"name": name, "run": asdict(runs[name])} for name in sorted(runs)]
    return "{\n" + ",\n".join(map(lines_of, rows, rows.values())) + "\n}\n"


def lines_of(kind: str, rows: Iterable[Any]) -> str:
    """Return a list as JSON, one row a line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f'"{kind}": [\n{lines}\n]'


def thawed(row: Any) -> Any:
    """Return a row from JSON, with tuples instead of lists."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}


def run_of(row: Any) -> ShortestRun:
    """Return a run from JSON."""
    return ShortestRun(**thawed(row))


def runs_of(rows: Any) -> dict[str, ShortestRun]:
    """Return runs by name from JSON."""
    return {row["name"]: run_of(row["run"]) for row in rows}


def loads(text: str, traces: Mapping[str, Trace]) -> Evidence:
    """Return the evidence of a file, with the traces stored next to it. Raises BadEvidence."""
    try:
        content = json.loads(text)
        return Evidence(
            asked={row["composition"]: tuple(row["names"]) for row in content["asked"]},
            seen=tuple(
                ExploredScope(**{**row, "broken": tuple(map(run_of, row["broken"]))})
                for row in content["seen"]
            ),
            unbounded=tuple(LivenessScope(**thawed(row)) for row in content["unbounded"]),
            lasting=tuple(LassoRun(**thawed(row)) for row in content["lasting"]),
            shown=runs_of(content["shown"]),
            without=runs_of(content["without"]),
            defects=runs_of(content["defects"]),
            traces=traces,
        )
    except (json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise BadEvidence(f"no evidence of ours: {error}; gather it again, with --fresh") from error


def read_evidence(folder: Path) -> Evidence:
    """Return the evidence in a folder of pages; empty if there is no such file. Raises BadEvidence,
    TraceError."""
    path = folder / "evidence.json"
    if not path.exists():
        return Evidence()
    text = path.read_text(encoding="utf-8")
    files = sorted((folder / "traces").glob("*.jsonl"))
    return loads(text, {file.stem: read(file) for file in files})
