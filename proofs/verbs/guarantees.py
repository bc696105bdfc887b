"""`guarantees`: which guarantees hold for a release and its configurations, and the evidence for
each.

The answer is in sentences (`decision.py`). There are three kinds of evidence. A *theorem* has no
bounds. A *scope* was explored completely: everything that can happen in it was seen, and nothing
beyond it. A *trace* breaks the guarantee; if the guarantee is not given for these configurations,
this is no fault of the release. The scopes are small and fit the configurations: in each a
connection may break, replicas may be too few, and the leader may restart. Assumed properties that
break in them are reported too; they are not part of the verdict.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from model.releases import NEWEST, RELEASES
from proofs.explore.scope import Finding, ScopeReport, explore_scope
from proofs.lift.source import load_model
from proofs.pages import subjects
from proofs.say import say
from proofs.trace.replay import configuration_of
from proofs.verbs.decision import GuaranteeAnswer, decision, risk_for
from proofs.verbs.deployment import ACKS, FAILOVERS, Deployment, deployment_of
from proofs.verbs.options import add_engine, add_output, parse_positive
from proofs.verbs.output import ExplorationDisplay, Output, finding_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    releases = ", ".join(RELEASES["idempotent"])
    parser.add_argument("--release", default=NEWEST, metavar="R", help=f"one of {releases}")
    parser.add_argument(
        "--level", type=int, choices=(0, 1, 2), help="transaction.version (default: the highest)"
    )
    parser.add_argument("--acks", choices=ACKS, help="default: all")
    parser.add_argument("--in-flight", type=parse_positive, metavar="N", help="default: 5")
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
    parser.add_argument("--verbose", action="store_true", help="the steps of each trace, too")
    add_engine(parser, default="ints")
    add_output(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Explore, print and write. Returns 0 if the question is answered, 1 if a guaranteed property
    is broken, 3 if a scope was not explored completely.

    Raises UnknownVariant, and the errors of `explore_scope`.
    """
    deployment = deployment_of(arguments)
    with Output(arguments, "engine", home=deployment.composition, **asdict(deployment)) as output:
        content = answer_all(deployment, arguments, output)
        return output.finish(content, workers=arguments.workers)


def answer_all(
    deployment: Deployment, arguments: argparse.Namespace, output: Output
) -> dict[str, Any]:
    """Explore the scopes that fit, print what holds, and return the report's content."""
    notes = tuple(deployment.notes())
    say(f"{deployment.title}:")
    for note in notes:
        say(f"  {note}")
    reports = tuple(explore_scopes(deployment, arguments))
    answers = [answer(name, deployment, reports) for name in deployment.names()]
    believed = tuple(not_guaranteed(deployment, reports))
    for line in decision(answers, believed, deployment, verbose=arguments.verbose):
        say(line)
    for broken in (*(found.broken for found in answers if found.broken), *believed):
        output.pictures(load_model(deployment.composition), broken.property, broken.trace)
    verdict = verdict_of(answers)
    return {
        "variant": deployment.variant,
        "notes": notes,
        "guarantees": [answer_json(found, deployment) for found in answers],
        "not_guaranteed": [assumed_property_json(found, deployment) for found in believed],
        "verdict": verdict,
    }


def explore_scopes(deployment: Deployment, arguments: argparse.Namespace) -> Iterator[ScopeReport]:
    """Explore each scope completely."""
    for scope in deployment.scopes:
        with ExplorationDisplay(scope) as told:
            yield explore_scope(
                scope,
                deployment.variant,
                assumed_properties=subjects.assumed_properties_in(deployment.composition),
                engine=arguments.engine,
                workers=arguments.workers,
                progress=told,
            )


# Answers


def answer(name: str, deployment: Deployment, reports: Sequence[ScopeReport]) -> GuaranteeAnswer:
    """Return the answer about a guarantee over all scopes: a trace of any scope breaks it."""
    guarantee = subjects.guarantee_of(deployment.composition, name)
    model = load_model(deployment.composition)
    configurations = [
        configuration_of(model, report.scope, deployment.variant) for report in reports
    ]
    guaranteed = all(guarantee.guaranteed(k) for k in configurations)
    broken = shortest(name, reports)
    complete = all(report.counts.complete for report in reports)
    theorems = theorems_for(name, deployment) if guaranteed and broken is None else {}
    conditions = [
        f"{report.scope}: {deployment.limits(k)}"
        for report, k in zip(reports, configurations, strict=True)
    ]
    return GuaranteeAnswer(
        name=name,
        says=subjects.sentence(guarantee.check),
        holds=False if broken else (True if theorems or complete else None),
        guaranteed=guaranteed,
        guaranteed_if=subjects.sentence(guarantee.guaranteed),
        theorems=tuple(theorems),
        scopes=tuple(reports),
        broken=broken,
        conditions=tuple(dict.fromkeys(a for said in theorems.values() for a in said))
        or tuple(conditions),
    )


def shortest(name: str, reports: Sequence[ScopeReport]) -> Finding | None:
    """Return the shortest trace of any scope that breaks a guarantee or an assumed property."""
    found = [finding for r in reports if (finding := r.found(name)) is not None]
    return min(found, key=lambda finding: finding.events, default=None)


def not_guaranteed(deployment: Deployment, reports: Sequence[ScopeReport]) -> Iterator[Finding]:
    """Yield assumed properties that the scopes show not to be guaranteed."""
    found = (
        shortest(name, reports) for name in subjects.assumed_properties_in(deployment.composition)
    )
    return (finding for finding in found if finding is not None)


def theorems_for(name: str, deployment: Deployment) -> dict[str, tuple[str, ...]]:
    """Return the theorems that cover the configurations, with the assumptions of each."""
    from proofs.prove.run.all_theorems import proves
    from proofs.prove.run.assumptions import ASSUMPTIONS

    if not deployment.has_theorems():
        return {}
    return {
        theorem.name: tuple(f"{a}: {ASSUMPTIONS[a].says}" for a in theorem.assumptions)
        for theorem in subjects.theorems_of(deployment.composition, name)
        if proves(theorem, name) and subjects.covers(theorem, deployment.variant)
    }


def verdict_of(answers: Sequence[GuaranteeAnswer]) -> str:
    """Return the verdict: violated if a guaranteed property is broken, so that the answer
    contradicts itself."""
    if any(a.holds is False and a.guaranteed for a in answers):
        return "violated"
    return "undecided" if any(a.holds is None for a in answers) else "holds"


# For programs


def assumed_property_json(found: Finding, deployment: Deployment) -> dict[str, Any]:
    """Return one assumed property in the report, with the condition that would make it true."""
    assumed_property = subjects.guarantee_of(deployment.composition, found.property)
    return {
        "name": found.property,
        "says": subjects.sentence(assumed_property.check),
        "true_if": subjects.sentence(assumed_property.guaranteed),
        "trace": finding_json(found),
    }


def answer_json(found: GuaranteeAnswer, deployment: Deployment) -> dict[str, Any]:
    """Return one guarantee in the report: its proof, or its trace."""
    row: dict[str, Any] = {
        "name": found.name,
        "holds": found.holds,
        "guaranteed": found.guaranteed,
        "guaranteed_if": found.guaranteed_if,
        "conditions": list(found.conditions),
    }
    if found.broken is not None:
        risk = risk_for(found.broken, deployment)
        known = {"risk": risk.name if risk else None}
        return {**row, **known, "trace": finding_json(found.broken)}
    if found.theorems:
        return {**row, "proof": {"kind": "theorem", "theorems": list(found.theorems)}}
    scopes = [
        {"scope": r.scope, "distinct": r.counts.distinct, "transitions": r.counts.transitions}
        for r in found.scopes
    ]
    return {**row, "proof": {"kind": "scope", "scopes": scopes}}
