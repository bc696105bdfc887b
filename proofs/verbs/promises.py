"""`promises`: which promises hold for a release and its settings, and what says so.

There are three kinds of evidence. A *theorem* has no bounds. A *scope* was explored to its end: all
that can happen in it was seen, and nothing beyond it. A *trace* breaks the promise; where it is not
promised for these settings, that is no fault of the release. The scopes are small and fit the
settings: in each a connection may break, replicas may be too few, and the leader may restart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from model.configuration import Era, Given, decided
from model.setting import MAX_BATCHES_TO_REMEMBER, Acks, Setting, Variant
from model.variants import RELEASES, RULES, UnknownVariant, parse
from proofs.explore.scope import Finding, ScopeReport, explore_scope
from proofs.lift.text import plain
from proofs.say import say
from proofs.trace.format import label
from proofs.trace.replay import setting_of
from proofs.verbs import EXIT_CODES
from proofs.verbs.options import add_engine, add_output, positive
from proofs.verbs.output import Output, Told, finding_json

ACKS: Mapping[str, Acks] = {"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}

FAILOVERS: Mapping[str, str] = {
    "none": "idempotent-tiny",
    "clean": "idempotent-failover",
    "unclean": "idempotent-loss/refusals=1/restarts=1",
}
"""By what happens to leaders."""

REST = "deletions=0/crashes=0/late_errors=0/timeouts=0"
EXPIRIES: Mapping[str, str] = {
    "none": "idempotent-expiry/refusals=1/restarts=1",
    "clean": f"idempotent-replicas/{REST}/losses=0",
    "unclean": f"idempotent-replicas/{REST}",
}
"""The same, where leaders forget producers too."""

MORE_THAN_REMEMBERED = "idempotent-six-in-flight"

ABOUT_SEQUENCES = frozenset({"no_gap", "no_false_error", "bumps_have_causes"})
"""Promises that say nothing of a producer without idempotence: it has no sequences."""

ERAS: Mapping[str, Era] = {
    "2.0.0": Era.V1_0,
    "2.4.1": Era.V1_0,
    "2.8.2": Era.V1_0,
    "3.9.2": Era.V3_0_1,
    "4.0.2": Era.V4_0,
    "4.3.1": Era.V4_0,
}
"""Whose client's rules each release has."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The settings in question; `release` is one that is modelled."""

    release: str
    level: int
    acks: str
    in_flight: int
    failover: str
    expiry: bool

    @property
    def is_idempotent(self) -> bool:
        """Without acks=all there is no idempotence."""
        return ACKS[self.acks] == Acks.ALL

    @property
    def variant(self) -> str:
        """The variant's text."""
        base = f"{self.release}/level={self.level}"
        weaker = f"{base}/acks={ACKS[self.acks].name.lower()}/idempotence=disabled"
        return base if self.is_idempotent else weaker

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that fit. With F <= W it does not matter how many are in flight, but one is
        a case of its own: nothing can be overtaken."""
        fitting = [FAILOVERS[self.failover]]
        if self.expiry:
            fitting.append(EXPIRIES[self.failover])
        if self.in_flight == 1:
            fitting = [f"{name}/in_flight=1" for name in fitting]
        if self.in_flight > MAX_BATCHES_TO_REMEMBER:
            fitting.append(MORE_THAN_REMEMBERED)
        return tuple(fitting)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    releases = ", ".join(RELEASES)
    parser.add_argument("--release", default="4.3.1", metavar="R", help=f"one of {releases}")
    parser.add_argument(
        "--level", type=int, choices=(0, 1, 2), help="transaction.version (default: the highest)"
    )
    parser.add_argument("--acks", choices=ACKS, default="all")
    parser.add_argument("--in-flight", type=positive, default=5, metavar="N")
    parser.add_argument("--failover", choices=FAILOVERS, default="clean")
    parser.add_argument(
        "--expiry", choices=("yes", "no"), default="no", help="leaders forget idle producers"
    )
    add_engine(parser, default="ints")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Explore what fits, tell, write: 0 if all hold, 1 if one is broken, 3 if not all was seen.

    Raises UnknownVariant, and what `explore_scope` raises.
    """
    asked = asked_of(arguments)
    command = {**asdict(asked), "engine": arguments.engine}
    output = Output("promises", command, arguments.out, arguments.json)
    notes = tuple(notes_on(asked))
    say(
        f"{asked.release}, level {asked.level}, acks={asked.acks}, {asked.in_flight} in flight,"
        f" failover {asked.failover}, expiry {arguments.expiry}:"
    )
    for note in notes:
        say(f"  {note}")
    reports = tuple(explored(asked, arguments))
    answers = [answer(name, asked, reports) for name in names(asked)]
    for found in answers:
        tell(found, output, in_full=arguments.out is None)
    verdict = verdict_of(answers)
    say(verdict)
    promises = [answer_json(found) for found in answers]
    content = {"variant": asked.variant, "notes": notes, "promises": promises, "verdict": verdict}
    output.finish(content, {"workers": arguments.workers})
    return EXIT_CODES[verdict]


def asked_of(arguments: argparse.Namespace) -> Asked:
    """The settings in the words of the model. Raises UnknownVariant."""
    release = release_of(arguments.release)
    highest = RELEASES[release].level
    level = highest if arguments.level is None else arguments.level
    if level > highest:
        raise UnknownVariant(
            f"level {level} is not to be had with {release}: write --level 0"
            " or a release from 4.0 on"
        )
    return Asked(
        release=release,
        level=level,
        acks=arguments.acks,
        in_flight=arguments.in_flight,
        failover=arguments.failover,
        expiry=arguments.expiry == "yes",
    )


def release_of(text: str) -> str:
    """The release of this name, or of this major and minor. Raises UnknownVariant."""
    found = [name for name in RELEASES if name == text or name.startswith(f"{text}.")]
    if len(found) != 1:
        known = ", ".join(RELEASES)
        raise UnknownVariant(f"release {text!r} is not modelled; choose one of {known}")
    return found[0]


def notes_on(asked: Asked) -> Iterator[str]:
    """What the client of this release makes of the settings, where idempotence is asked for."""
    given = Given(
        enable_idempotence=True,
        acks=ACKS[asked.acks],
        max_in_flight_requests_per_connection=asked.in_flight,
    )
    rule = decided(ERAS[asked.release], given)
    if not asked.is_idempotent:
        left_out = ", ".join(sorted(ABOUT_SEQUENCES))
        yield f"idempotence is refused ({rule.name}): this is about a producer without it"
        yield f"without sequences there is nothing to ask of {left_out}"
    elif asked.in_flight > MAX_BATCHES_TO_REMEMBER:
        yield f"every client refuses this with idempotence ({rule.name}): see what would happen"


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


def names(asked: Asked) -> tuple[str, ...]:
    """The promises that say something of such a producer, in the model's order."""
    left_out = frozenset() if asked.is_idempotent else ABOUT_SEQUENCES
    return tuple(p.name for p in plain().promises.PROMISES if p.name not in left_out)


def answer(name: str, asked: Asked, reports: Sequence[ScopeReport]) -> Answer:
    """A promise, over all scopes: a trace of any breaks it."""
    promise = next(p for p in plain().promises.PROMISES if p.name == name)
    settings = [setting_of(plain(), report.scope, asked.variant) for report in reports]
    promised = all(promise.promised(k) for k in settings)
    found = [finding for r in reports if (finding := r.found(name)) is not None]
    broken = min(found, key=lambda finding: finding.events, default=None)
    complete = all(report.counts.complete for report in reports)
    theorems = proved(name, asked) if promised and not found else {}
    conditions = [
        f"{report.scope}: {limits(k)}" for report, k in zip(reports, settings, strict=True)
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


def limits(k: Setting) -> str:
    """How much of the world a scope has."""
    happens = ((f.name, getattr(k.budgets, f.name)) for f in fields(k.budgets))
    counts = ", ".join(f"{name}={count}" for name, count in happens if count)
    return f"in_flight={k.layout.in_flight}, {counts}, and nothing else happens"


def proved(name: str, asked: Asked) -> dict[str, tuple[str, ...]]:
    """The theorems that cover the settings, with what each assumes."""
    from proofs.prove.assumptions import ASSUMPTIONS
    from proofs.prove.theorems import THEOREMS

    if asked.in_flight > MAX_BATCHES_TO_REMEMBER or excluded(asked):
        return {}
    return {
        theorem.name: tuple(f"{a}: {ASSUMPTIONS[a]}" for a in theorem.assumptions)
        for theorem in THEOREMS
        if theorem.clause is not None
        and theorem.clause.name == name
        and not theorem.patches
        and same_rules(parse(theorem.variant), parse(asked.variant))
    }


def excluded(asked: Asked) -> bool:
    """What the theorems leave out: leaders that forget, or lack what was acknowledged."""
    return asked.expiry or asked.failover == "unclean"


def same_rules(one: Variant, other: Variant) -> bool:
    """Two releases that do the same."""
    return all(getattr(one, rule) == getattr(other, rule) for rule in RULES)


def verdict_of(answers: Sequence[Answer]) -> str:
    """Broken, if one is."""
    if any(a.holds is False for a in answers):
        return "violated"
    return "holds" if all(a.holds for a in answers) else "undecided"


# For people and programs


def tell(found: Answer, output: Output, *, in_full: bool) -> None:
    """One promise: whether it holds, and the evidence."""
    say(f"  {found.name}: {shown(found)}")
    if not found.promised:
        say(f"      not promised for these settings; it would be: {found.promised_if}")
    if found.broken is None:
        return
    if in_full:
        for step in found.broken.trace.steps:
            say(f"      {label(step.rule, step.choice)}")
    output.pictures(plain(), found.name, found.broken.trace)


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
