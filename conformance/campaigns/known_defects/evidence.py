"""The evidence of a defect: one fact of a story, observed at a release, and the right answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.campaigns.known_defects.defects import KnownDefect
from conformance.campaigns.stories.player import play, rehearse
from conformance.campaigns.stories.session import Fact
from proofs.java import JavaError

NO_FACT: Final = "the story ended before"


class Observation(NamedTuple):
    """The answer of a release; `problem` says why there is no answer."""

    release: str
    answer: str
    problem: str


def right_answer(defect: KnownDefect) -> str:
    """The story's expectation for the fixed release."""
    release = defect.broker_at(defect.fixed)
    experiment = defect.experiment_at(defect.fixed)
    level = find_release(release).default_level
    facts = rehearse(experiment, release, level, defect.client_at(defect.fixed))
    return answer_in(facts, defect.fact)


def observe(defect: KnownDefect, release: str) -> Observation:
    """Play the story on a release."""
    experiment = defect.experiment_at(release)
    brokers = experiment.brokers
    try:
        with KafkaTestbed(
            defect.broker_at(release),
            nodes=brokers.count,
            properties=dict(brokers.properties),
            layout=brokers.layout,
        ) as testbed:
            client = {"client": defect.client_at(release)}
            facts, failure = play(experiment, testbed, variables=client)
    except (KafkaError, JavaError) as error:
        return Observation(release, "", str(error))
    answer = answer_in(facts, defect.fact)
    return Observation(release, answer, "" if answer else failure or NO_FACT)


def answer_in(facts: Iterable[Fact], name: str) -> str:
    """The observed answer for a fact; empty if it was not observed."""
    return next((fact.observed for fact in facts if fact.name == name), "")
