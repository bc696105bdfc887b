"""Plays experiments on a broker, or rehearses them without one to find the expected facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Set
from dataclasses import replace
from typing import Final, NamedTuple

from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.releases import NEWEST
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.campaigns.stories import brokers, client, observations, requests, setup
from conformance.campaigns.stories.session import ANSWERED, RESERVED, Fact, Session
from conformance.campaigns.stories.story import Experiment
from conformance.campaigns.stories.text import (
    For,
    If,
    Let,
    NotUnderstood,
    Statement,
    StoryStep,
    fill,
    names_in,
)
from conformance.campaigns.stories.vocabulary import VERBS

VOCABULARY: Final = (requests, setup, observations, brokers, client)
"""The modules whose functions are the verbs of stories."""


GIVEN: Final = frozenset({"release", "level", "requests", "client", ANSWERED})
"""Variables that exist without being set by a story."""


class ExperimentResult(NamedTuple):
    """The facts of an experiment, and the reason if it ended early."""

    facts: list[Fact]
    failure: str


def play(
    experiment: Experiment,
    testbed: KafkaTestbed,
    times: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> ExperimentResult:
    """Play an experiment, as often as it says or `times`. Raises StoryError."""
    facts: list[Fact] = []
    here = {"release": testbed.release.version, "level": str(testbed.level)}
    for _ in range(times or experiment.times):
        texts = {**experiment.variables, **here, **(variables or {})}
        session = Session(testbed, experiment.name, texts)
        try:
            walk(experiment.body, session.variables, session.perform)
        except KafkaError as error:
            return ExperimentResult(
                merge_facts([*facts, *session.facts]), f"{type(error).__name__}: {error}"
            )
        finally:
            session.cleanup.close()
        facts += session.facts
    return ExperimentResult(merge_facts(facts), "")


def rehearse(experiment: Experiment, release: str, level: int, client: str = NEWEST) -> list[Fact]:
    """The expected facts of an experiment. Raises StoryError."""
    facts: list[Fact] = []
    here = {"release": release, "level": str(level), "client": client}
    variables = {**experiment.variables, **here}

    def expect(step: StoryStep) -> None:
        step.words(variables)
        for name in step.targets:
            variables.setdefault(name, name)
        if step.fact:
            answer = step.expected.text(variables) if step.expected else "?"
            kept = step.expected.first(variables) if step.guarantee and step.expected else ""
            name = fill(step.fact, variables)
            facts.append(Fact(experiment.name, name, answer, answer, step.guarantee, kept))
            variables[ANSWERED] = answer

    walk(experiment.body, variables, expect)
    return merge_facts(facts)


def walk(
    body: Iterable[Statement],
    variables: MutableMapping[str, str],
    perform: Callable[[StoryStep], None],
) -> None:
    """Go through statements in order. Raises StoryError, and what `perform` raises."""
    for statement in body:
        try:
            _walk_one(statement, variables, perform)
        except NotUnderstood as problem:
            raise statement.line.error(str(problem)) from problem


def _walk_one(
    statement: Statement, variables: MutableMapping[str, str], perform: Callable[[StoryStep], None]
) -> None:
    match statement:
        case StoryStep():
            perform(statement)
        case Let():
            variables[statement.name] = statement.cases.text(variables)
        case If():
            if statement.condition.holds(variables):
                walk(statement.body, variables, perform)
        case For():
            for row in statement.rows(variables):
                variables.update(row)
                walk(statement.body, variables, perform)


def merge_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Merge facts with the same name: different answers stand beside each other."""
    answers: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts:
        answers.setdefault((fact.experiment, fact.name), []).append(fact)
    return [_merged(alike) for alike in answers.values()]


def _merged(alike: list[Fact]) -> Fact:
    observed = " | ".join(sorted({fact.observed for fact in alike}))
    return replace(alike[0], observed=observed)


def check(experiment: Experiment) -> None:
    """Raise StoryError for an unknown verb, argument or variable."""
    known = {*experiment.variables, *GIVEN}
    _check(experiment.body, known)


def _check(body: Iterable[Statement], known: set[str]) -> None:
    for statement in body:
        match statement:
            case StoryStep():
                _check_step(statement, known)
                known |= _not_taken(statement, GIVEN | RESERVED, *statement.targets)
            case Let():
                known |= _not_taken(statement, GIVEN, statement.name)
            case If():
                if unknown := statement.condition.names - known:
                    raise statement.line.error(f"no variable {min(unknown)!r}")
                _check(statement.body, known)
            case For():
                known |= _not_taken(statement, GIVEN, *statement.names)
                _check(statement.body, known)


def _not_taken(statement: Statement, taken: Set[str], *names: str) -> set[str]:
    if taken := taken & set(names):
        raise statement.line.error(f"{min(taken)!r} means something else")
    return set(names)


def _check_step(step: StoryStep, known: set[str]) -> None:
    texts = [step.fact, step.arguments]
    texts += [text for _, text in step.expected.rows] if step.expected else []
    for name in names_in(" ".join(texts)):
        if name not in known:
            raise step.line.error(f"no variable {name!r}")
    if step.verb not in VERBS:
        raise step.line.error(f"no verb {step.verb!r}; there are: {', '.join(sorted(VERBS))}")
    placeholder = dict.fromkeys(known, "x")
    words, options = step.words(placeholder)
    VERBS[step.verb].check(step, words, options)
