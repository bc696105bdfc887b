"""`promises`: which promises hold for a release and its settings, and what says so.

There are three kinds of evidence. A *theorem* has no bounds. A *scope* was explored to its end: all
that can happen in it was seen, and nothing beyond it. A *trace* breaks the promise; where it is not
promised for these settings, that is no fault of the release. The scopes are small and fit the
settings: in each a connection may break, replicas may be too few, and the leader may restart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from model.variants import RELEASES
from proofs.explore.scope import Finding, ScopeReport, explore_scope
from proofs.pages import subjects
from proofs.say import say
from proofs.trace.format import label
from proofs.trace.replay import setting_of
from proofs.verbs import EXIT_CODES
from proofs.verbs.asked import ACKS, FAILOVERS, Asked, asked_of
from proofs.verbs.options import add_engine, add_output, positive
from proofs.verbs.output import Output, Told, finding_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    releases = ", ".join(RELEASES)
    parser.add_argument("--release", default="4.3.1", metavar="R", help=f"one of {releases}")
    parser.add_argument(
        "--level", type=int, choices=(0, 1, 2), help="transaction.version (default: the highest)"
    )
    parser.add_argument("--acks", choices=ACKS, help="default: all")
    parser.add_argument("--in-flight", type=positive, metavar="N", help="default: 5")
    parser.add_argument("--failover", choices=FAILOVERS, default="clean")
    parser.add_argument(
        "--expiry",
        choices=("yes", "no"),
        default="no",
        help="leaders forget idle producers, coordinators idle transactional ids",
    )
    parser.add_argument(
        "--transactions", action="store_true", help="ask of a producer with a transactional id"
    )
    parser.add_argument(
        "--requests", choices=("v1", "v2"), help="what its clients speak (default: v2 at level 2)"
    )
    parser.add_argument(
        "--late", choices=("yes", "no"), help="what senders gave up may arrive (default: yes)"
    )
    add_engine(parser, default="ints")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explore what fits, tell, write: 0 if all hold, 1 if one is broken, 3 if not all was seen.

    Raises UnknownVariant, and what `explore_scope` raises.
    """
    asked = asked_of(arguments)
    command = {"home": asked.home, **asdict(asked), "engine": arguments.engine}
    output = Output("promises", command, arguments.out, arguments.json)
    notes = tuple(asked.notes())
    say(f"{asked.title}:")
    for note in notes:
        say(f"  {note}")
    reports = tuple(explored(asked, arguments))
    answers = [answer(name, asked, reports) for name in asked.names()]
    for found in answers:
        tell(found, asked, output, in_full=arguments.out is None)
    verdict = verdict_of(answers)
    say(verdict)
    promises = [answer_json(found) for found in answers]
    content = {"variant": asked.variant, "notes": notes, "promises": promises, "verdict": verdict}
    output.finish(content, {"workers": arguments.workers})
    return EXIT_CODES[verdict]


def explored(asked: Asked, arguments: argparse.Namespace) -> Iterator[ScopeReport]:
    """Each scope, explored to its end."""
    for scope in asked.scopes:
        with Told(scope) as told:
            yield explore_scope(
                scope,
                asked.variant,
                engine=arguments.engine,
                workers=arguments.workers,
                progress=told,
            )


# Answers


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of one promise. `holds` is None where not all was seen."""

    name: str
    holds: bool | None
    promised: bool
    promised_if: str
    theorems: tuple[str, ...]
    scopes: tuple[ScopeReport, ...]
    broken: Finding | None
    conditions: tuple[str, ...]


def answer(name: str, asked: Asked, reports: Sequence[ScopeReport]) -> Answer:
    """A promise, over all scopes: a trace of any breaks it."""
    promise = subjects.promise_of(asked.home, name)
    model = subjects.model_of_home(asked.home)
    settings = [setting_of(model, report.scope, asked.variant) for report in reports]
    promised = all(promise.promised(k) for k in settings)
    found = [finding for r in reports if (finding := r.found(name)) is not None]
    broken = min(found, key=lambda finding: finding.events, default=None)
    complete = all(report.counts.complete for report in reports)
    theorems = proved(name, asked) if promised and not found else {}
    conditions = [
        f"{report.scope}: {asked.limits(k)}" for report, k in zip(reports, settings, strict=True)
    ]
    return Answer(
        name=name,
        holds=False if broken else (True if theorems or complete else None),
        promised=promised,
        promised_if=" ".join((promise.promised.__doc__ or "").split()),
        theorems=tuple(theorems),
        scopes=tuple(reports),
        broken=broken,
        conditions=tuple(dict.fromkeys(a for said in theorems.values() for a in said))
        or tuple(conditions),
    )


def proved(name: str, asked: Asked) -> dict[str, tuple[str, ...]]:
    """The theorems that cover the settings, with what each assumes."""
    from proofs.prove.assumptions import ASSUMPTIONS

    if not asked.has_theorems():
        return {}
    return {
        theorem.name: tuple(f"{a}: {ASSUMPTIONS[a]}" for a in theorem.assumptions)
        for theorem in subjects.theorems_of(asked.home, name)
        if subjects.proves(theorem, name) and subjects.covers(theorem, asked.variant)
    }


def verdict_of(answers: Sequence[Answer]) -> str:
    """Broken, if one is."""
    if any(a.holds is False for a in answers):
        return "violated"
    return "holds" if all(a.holds for a in answers) else "undecided"


# For people and programs


def tell(found: Answer, asked: Asked, output: Output, *, in_full: bool) -> None:
    """One promise: whether it holds, and the evidence."""
    say(f"  {found.name}: {shown(found)}")
    if not found.promised:
        say(f"      not promised for these settings; it would be: {found.promised_if}")
    if found.broken is None:
        return
    if in_full:
        for step in found.broken.trace.steps:
            say(f"      {label(step.rule, step.choice)}")
    output.pictures(subjects.model_of_home(asked.home), found.name, found.broken.trace)


def shown(found: Answer) -> str:
    """The evidence in a line."""
    if found.broken is not None:
        scope = found.broken.trace.header.scope
        return f"BROKEN in {scope} after {found.broken.steps} steps, {found.broken.events} events"
    if found.theorems:
        return f"holds, by the theorems {', '.join(found.theorems)}"
    seen = ", ".join(f"{r.scope} ({r.counts.distinct:,} states)" for r in found.scopes)
    return f"{'holds in all of' if found.holds else 'not decided: part of'} {seen}"


def answer_json(found: Answer) -> dict[str, Any]:
    """One promise in the report: its proof, or its trace."""
    row: dict[str, Any] = {
        "name": found.name,
        "holds": found.holds,
        "promised": found.promised,
        "promised_if": found.promised_if,
        "conditions": list(found.conditions),
    }
    if found.broken is not None:
        return {**row, "trace": finding_json(found.broken)}
    if found.theorems:
        return {**row, "proof": {"kind": "theorem", "theorems": list(found.theorems)}}
    scopes = [
        {"scope": r.scope, "distinct": r.counts.distinct, "transitions": r.counts.transitions}
        for r in found.scopes
    ]
    return {**row, "proof": {"kind": "scope", "scopes": scopes}}
