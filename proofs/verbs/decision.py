"""The answer of `guarantees` in sentences, for people who must decide.

The answer says what is promised, and by which evidence; and what is not: what happens, how, how
likely it is, and what cures it. Risks are named from their registry, so that one paragraph covers
all guarantees which one risk breaks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proofs.explore.scope import Finding, ScopeReport
from proofs.pages import subjects
from proofs.risks import Risk, risks_of
from proofs.trace.breach import breach_of
from proofs.trace.format import label
from proofs.verbs.deployment import Deployment

WIDTH = 100
INDENT = " " * 2


@dataclass(frozen=True, slots=True)
class GuaranteeAnswer:
    """The answer about one guarantee. `holds` is None if exploration was not complete."""

    name: str
    says: str
    holds: bool | None
    guaranteed: bool
    guaranteed_if: str
    theorems: tuple[str, ...]
    scopes: tuple[ScopeReport, ...]
    broken: Finding | None
    conditions: tuple[str, ...]


def decision(
    answers: Sequence[GuaranteeAnswer],
    believed: Sequence[Finding],
    deployment: Deployment,
    *,
    verbose: bool,
) -> Iterator[str]:
    """Yield the lines of the answer; `verbose` adds the steps of each trace."""
    others = other_risks(answers, deployment)
    yield from promised(answers, others)
    yield from contradictions(answers)
    yield from not_promised(answers, deployment, verbose=verbose)
    yield from kept_without_promise(answers)
    yield from nobody_promises(believed, deployment, verbose=verbose)
    yield from in_other_troubles(others)
    yield summary(answers, others)


def wrapped(head: str, text: str, indent: str = INDENT) -> Iterator[str]:
    """Yield a paragraph that begins with `head`, and is indented below its first word."""
    hanging = indent + " " * len(head)
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=indent + head, subsequent_indent=hanging, break_on_hyphens=False
    )


# Promises


def promised(answers: Sequence[GuaranteeAnswer], others: Sequence[Risk]) -> Iterator[str]:
    """Yield what is guaranteed and holds, the theorems first. `others` are risks of the release
    that break it in troubles that these scopes do not have."""
    kept = [a for a in answers if a.guaranteed and a.holds]
    proved = [a for a in kept if a.theorems]
    if proved:
        yield "Promised, by a theorem: for any number of producers, partitions and records."
        for found in proved:
            proofs = ", ".join(found.theorems)
            yield f"{INDENT}{found.name}: {found.says} [{proofs}]{exceptions(found, others)}"
    explored = [a for a in kept if not a.theorems]
    if explored:
        yield f"Promised, and so in all of {format_scopes(explored[0].scopes)}."
        for found in explored:
            yield f"{INDENT}{found.name}: {found.says}{exceptions(found, others)}"
    undecided = [a.name for a in answers if a.holds is None]
    if undecided:
        yield f"Not decided: {', '.join(undecided)}. Part of a scope was not explored."


def exceptions(found: GuaranteeAnswer, others: Sequence[Risk]) -> str:
    """Return the risks that break a guarantee all the same, without any setting that asks for it.
    They are described later in the answer."""
    names = ", ".join(r.name for r in others if found.name in r.breaks and not r.by_setting)
    return f" EXCEPT in the trouble {names}, told below." if names else ""


def format_scopes(scopes: Sequence[ScopeReport]) -> str:
    """Return scopes with their sizes."""
    return ", ".join(f"{r.scope} ({r.counts.distinct:,} states)" for r in scopes)


def contradictions(answers: Sequence[GuaranteeAnswer]) -> Iterator[str]:
    """Yield what is promised and broken: a defect of the model, or of the promise."""
    for found in answers:
        if found.broken is not None and found.guaranteed:
            yield f"PROMISED AND BROKEN: {found.name}: {found.says}"
            yield from steps_of(found.broken, verbose=True)


# Non-guarantees


def not_promised(
    answers: Sequence[GuaranteeAnswer], deployment: Deployment, *, verbose: bool
) -> Iterator[str]:
    """Yield what is broken, in a paragraph for each risk."""
    broken = [a for a in answers if a.broken is not None and not a.guaranteed]
    if not broken:
        return
    yield "Not promised:"
    by_risk: dict[str, list[GuaranteeAnswer]] = {}
    for found in broken:
        risk = found.broken and risk_for(found.broken, deployment)
        by_risk.setdefault(risk.name if risk else found.name, []).append(found)
    known = {risk.name: risk for risk in known_risks(deployment)}
    for name, group in by_risk.items():
        yield f"{INDENT}{', '.join(a.name for a in group)}"
        yield from describe_risk(known[name]) if name in known else describe_condition(group[0])
        for found in group:
            if found.broken is not None:
                yield from steps_of(found.broken, verbose=verbose)


def known_risks(deployment: Deployment) -> tuple[Risk, ...]:
    """Return the risks that the deployment's variant has, and its settings do not cure."""
    known = risks_of(deployment.composition, deployment.variant)
    return tuple(risk for risk in known if deployment.settings().isdisjoint(risk.cures))


def risk_for(found: Finding, deployment: Deployment) -> Risk | None:
    """Return the risk that a trace shows; None if the registry has none."""
    rules = {step.rule for step in found.trace.steps}
    known = known_risks(deployment)
    return next((r for r in known if r.explains(found.property, rules)), None)


def describe_risk(risk: Risk) -> Iterator[str]:
    """Yield one risk: what happens, how, how likely, and what cures it."""
    inner = INDENT * 2
    yield from wrapped("happens   ", risk.happens, inner)
    yield from wrapped("how       ", risk.how, inner)
    yield from wrapped("likely    ", risk.likely, inner)
    for remedy in risk.remedies():
        yield from wrapped("cure      ", f"{remedy}.", inner)
    real = f"; on a real broker: kafka-eos experiments {risk.experiment}" if risk.experiment else ""
    yield f"{inner}known as  {risk.reference} ({risk.name}){real}"


def describe_condition(found: GuaranteeAnswer) -> Iterator[str]:
    """Yield the sentence of a guarantee, and the condition under which it would be given."""
    yield from wrapped("otherwise ", found.says, INDENT * 2)
    yield from wrapped("promised  ", f"only where: {found.guaranteed_if}", INDENT * 2)


def steps_of(found: Finding, *, verbose: bool) -> Iterator[str]:
    """Yield where a trace breaks a guarantee, and how soon; `verbose` adds each step."""
    inner = INDENT * 2
    yield (
        f"{inner}trace     {found.property}: {found.steps} steps, {found.events} events in"
        f" {found.trace.header.scope}"
    )
    if verbose:
        yield from (f"{inner}{INDENT}{label(s.rule, s.choice)}" for s in found.trace.steps)
        yield f"{inner}{breach_of(found.property, found.trace, brief=True)}"


def kept_without_promise(answers: Sequence[GuaranteeAnswer]) -> Iterator[str]:
    """Yield what is not promised here, although nothing broke it."""
    kept = [a.name for a in answers if a.holds and not a.guaranteed]
    if kept:
        head = "Not promised, though nothing broke it in the scopes: "
        yield from wrapped("", f"{head}{', '.join(kept)}.", "")


def nobody_promises(
    believed: Sequence[Finding], deployment: Deployment, *, verbose: bool
) -> Iterator[str]:
    """Yield what users may take for promised, although no Kafka release promises it."""
    if believed:
        yield "No Kafka promises, whatever one believes:"
    for found in believed:
        check = subjects.guarantee_of(deployment.composition, found.property).check
        yield f"{INDENT}{found.property}: {subjects.sentence(check)}"
        if verbose:
            yield from steps_of(found, verbose=True)


def other_risks(answers: Sequence[GuaranteeAnswer], deployment: Deployment) -> list[Risk]:
    """Return the release's other risks, which nothing in these scopes shows."""
    shown = {risk.name for a in answers if a.broken and (risk := risk_for(a.broken, deployment))}
    return [risk for risk in known_risks(deployment) if risk.name not in shown]


def in_other_troubles(others: Sequence[Risk]) -> Iterator[str]:
    """Yield the effects of the release's other risks."""
    if others:
        yield "In troubles that were not asked about:"
    for risk in others:
        yield from wrapped(f"{risk.name}: ", f"{risk.happens} {risk.likely}")


def summary(answers: Sequence[GuaranteeAnswer], others: Sequence[Risk]) -> str:
    """Return the last line."""
    promised = [a for a in answers if a.guaranteed and a.holds]
    excepted = sum(1 for a in promised if exceptions(a, others))
    kept = (f"{excepted} with exceptions among " if excepted else "") + f"{len(promised)} promised"
    broken = sum(1 for a in answers if not a.guaranteed and a.broken)
    wrong = [a.name for a in answers if a.guaranteed and a.broken]
    head = f"{kept}, {broken} not promised and broken"
    return f"{head}; promised and broken: {', '.join(wrong)}" if wrong else head
