"""`coverage [SCOPE...]`: which points and pairs of events of the model are reached."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proofs.coverage.footprint import stray
from proofs.coverage.points import Point
from proofs.coverage.report import Coverage, Covered, coverage
from proofs.coverage.stored import file_name
from proofs.coverage.survey import FirstWitness, Survey
from proofs.coverage.survey_cache import surveyed
from proofs.coverage.survey_cases import engine_for, small_scopes, survey_cases
from proofs.coverage.unreachable import EXPLAINED
from proofs.lift.patch import Patch, PatchError
from proofs.lift.source import COMPOSITIONS, composition_of, patches_by_composition
from proofs.say import say
from proofs.trace.format import Header, label, write
from proofs.trace.replay import Stepper, configuration_of, record
from proofs.verbs.options import add_output, add_patch, patches_of, rows_of
from proofs.verbs.output import ExplorationDisplay, Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "scopes", nargs="*", metavar="SCOPE", help="these only (default: all small)"
    )
    parser.add_argument("--engine", choices=("c", "ints"), default="c")
    add_patch(parser)
    parser.add_argument(
        "--compare",
        metavar="VARIANT",
        help="only whether the same things happen with --patch as without it, in this variant",
    )
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Survey, print and write: holds if every point is met or explained. Raises ValueError."""
    patches = patches_of(arguments)
    with Output(arguments, "scopes", "engine", "compare", patches=rows_of(patches)) as output:
        if arguments.compare is not None:
            return output.finish(compared(arguments, patches))
        looks = survey_cases(arguments.scopes or default_scopes(patches), arguments.engine)
        every, sure = surveyed(looks, patches, ExplorationDisplay)
        compositions = dict.fromkeys(composition_of(look.scope) for look in looks)
        rows = {row: why for c in compositions for row, why in EXPLAINED[c].items()}
        found = coverage(every, rows)
        for line in lines(found, every, sure):
            say(line)
        for survey in every:
            write_traces(survey, output, patches)
        return output.finish(coverage_json(found, every, sure))


def compared(arguments: argparse.Namespace, patches: tuple[Patch, ...]) -> dict[str, Any]:
    """Return what patches lose or add in each scope; violated if there is anything."""
    strays = {
        scope: stray(scope, arguments.compare, engine_for(scope, arguments.engine), patches)
        for scope in arguments.scopes or default_scopes(patches)
    }
    for scope, name in strays.items():
        say(f"{scope}: {name or 'the same things happen'}")
    return {"strays": strays, "verdict": "violated" if any(strays.values()) else "holds"}


def default_scopes(patches: Sequence[Patch]) -> list[str]:
    """Return the scopes to survey if none is named: those of the compositions that patches change.

    Raises PatchError.
    """
    changed = [name for name in COMPOSITIONS if _fits(name, patches)]
    if not changed:
        patches_by_composition(patches)  # raises the error that says why
    return [scope for scope in small_scopes() if not patches or composition_of(scope) in changed]


def _fits(composition: str, patches: Sequence[Patch]) -> bool:
    try:
        return bool(patches_by_composition(patches, [composition]))
    except PatchError:
        return False


# For people


def lines(found: Coverage, surveys: Sequence[Survey], sure: Mapping[str, str]) -> Iterator[str]:
    """Yield the whole answer: the matrices of pairs, then what is not met, then the counts."""
    yield "pairs: steps of a shortest run in which both happen, in the smallest scope that has one"
    for survey in surveys:
        yield from matrix(survey)
        yield ""
    for kind in found.kinds:
        if kind.kind != "pairs":
            yield from (f"missing: {format_point(p)} ({sure[p.name]})" for p in kind.missing)
        for name, reason in kind.explained.items():
            yield f"explained: {name} ({sure[name]}): {reason}"
    for row, why in found.wrong_rows.items():
        yield f"wrong row in proofs.coverage.unreachable.py: {row!r}: {why}"
    for edge, seen in found.wrong_edges.items():
        where = f"{seen.look.scope}, {seen.look.variant}, {len(seen.way.steps)} steps"
        yield f"wrong edge: {edge} ({where}): Kafka has none"
    for kind in found.kinds:
        explained = f", {len(kind.explained)} explained" if kind.explained else ""
        missing = f", {len(kind.missing)} missing" if kind.missing else ""
        yield f"{kind.kind}: {len(kind.met)} of {kind.total}{explained}{missing}"
    states = [count for survey in surveys for count in survey.states.values()]
    yield f"{sum(states):,} states of {len(states)} configurations: {found.verdict}"


def format_point(point: Point) -> str:
    """Return a point's name, with the decision at that place."""
    return f"{point.name}, line {point.line}: {point.condition}" if point.line else point.name


def matrix(survey: Survey) -> Iterator[str]:
    """Yield for each pair the steps of its run, and a letter for the scope of the run."""
    names = list(dict.fromkeys(event.name for event in survey.events))
    scopes = list(dict.fromkeys(seen.look.scope for seen in survey.pairs.values()))
    letters = {scope: chr(ord("a") + number) for number, scope in enumerate(scopes)}
    width = max(map(len, names))
    yield "  ".join(f"{letter} {scope}" for scope, letter in letters.items())
    yield " " * (width + 4) + "".join(f"{number:>5}" for number in range(1, len(names)))
    for number, name in enumerate(names):
        cells = [cell(survey.pairs.get(f"{other}+{name}"), letters) for other in names[:number]]
        yield f"{number + 1:>3} {name:<{width}}" + "".join(f"{text:>5}" for text in cells)


def cell(seen: FirstWitness | None, letters: dict[str, str]) -> str:
    """Return the cell of one pair in the matrix."""
    return "-" if seen is None else f"{len(seen.way.steps)}{letters[seen.look.scope]}"


# For programs


def trace_file(name: str) -> str:
    """Return the trace file of a point or of a pair, below --out."""
    return f"traces/{file_name(name)}.jsonl"


def write_traces(survey: Survey, output: Output, patches: Sequence[Patch]) -> None:
    """Write every shortest path as a trace, replayed on the source; only with --out."""
    if output.path is None:
        return
    rows = tuple((patch.function, patch.before, patch.after) for patch in patches)
    for name, seen in {**survey.points, **survey.pairs}.items():
        k = configuration_of(survey.model, seen.look.scope, seen.look.variant)
        header = Header(seen.look.scope, k.variant.name, patches=rows)
        trace, _ = record(Stepper(survey.model, k), header, seen.way.steps)
        write(trace, output.path / trace_file(name))


def coverage_json(
    found: Coverage, surveys: Sequence[Survey], sure: Mapping[str, str]
) -> dict[str, Any]:
    """Return the report."""
    return {
        "settings": [
            {"scope": look.scope, "variant": look.variant, "distinct": states}
            for survey in surveys
            for look, states in survey.states.items()
        ],
        **{kind.kind: kind_json(kind, sure) for kind in found.kinds},
        "wrong_rows": dict(found.wrong_rows),
        "wrong_edges": {e: witness_json(e, seen) for e, seen in found.wrong_edges.items()},
        "verdict": found.verdict,
    }


def kind_json(kind: Covered, sure: Mapping[str, str]) -> dict[str, Any]:
    """Return one kind of points. A path that ends in an event which is only tried also names that
    event."""
    return {
        "covered": len(kind.met),
        "total": kind.total,
        "missing": [
            {"name": p.name, "line": p.line, "says": p.says, "evidence": sure[p.name]}
            for p in kind.missing
        ],
        "explained": [
            {"name": name, "reason": reason, "evidence": sure[name]}
            for name, reason in kind.explained.items()
        ],
        "met": {name: witness_json(name, seen) for name, seen in kind.met.items()},
    }


def witness_json(name: str, seen: FirstWitness) -> dict[str, Any]:
    """Return where a point or pair is met first."""
    tried = seen.way.tried
    return {
        "scope": seen.look.scope,
        "variant": seen.look.variant,
        "steps": len(seen.way.steps),
        "tried": label(*tried) if tried else None,
        "trace": trace_file(name),
    }
