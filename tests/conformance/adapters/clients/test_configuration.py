"""A producer's configurations: the model's table of 4.0 against impl's configuration, combination
by
combination; and, where Maven can be reached, the tables of two eras against the Java client."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from conformance.adapters.clients import processes
from conformance.adapters.clients.processes import JVM_OPTIONS, client_jars
from impl import ProducerConfig
from impl.producer.errors import ConfigError
from model.idempotent.configuration import Acks
from model.producer_config import RULES, ConfigOutcome, Era, Given, decided, era_of
from proofs.java import FetchFailed, MissingTool, find_java
from tests.sizes import sized

ACKS = {Acks.ALL: "all", Acks.LEADER: 1, Acks.NONE: 0}

GIVEN = tuple(
    Given(*values)
    for values in itertools.product(
        (None, True, False), (None, *Acks), (None, 0, 3), (None, 1, 5, 6), (False, True)
    )
)


def outcome_of_impl(given: Given) -> ConfigOutcome:
    """What impl makes of the configurations."""
    user = {
        "enable_idempotence": given.enable_idempotence,
        "acks": None if given.acks is None else ACKS[given.acks],
        "retries": given.retries,
        "max_in_flight_requests_per_connection": given.max_in_flight_requests_per_connection,
        "transactional_id": "t" if given.transactional_id else None,
    }
    try:
        config = ProducerConfig.of(**{name: v for name, v in user.items() if v is not None})
    except ConfigError:
        return ConfigOutcome.CONFIG_EXCEPTION
    return ConfigOutcome.IDEMPOTENT if config.enable_idempotence else ConfigOutcome.PLAIN


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_impl_decides_as_the_table_of_4_0(given: Given) -> None:
    assert outcome_of_impl(given) == decided(Era.V4_0, given).outcome


def test_each_rule_of_each_era_decides_something() -> None:
    for era, rules in RULES.items():
        deciding = {decided(era, given).name for given in GIVEN}
        assert deciding == {rule.name for rule in rules}, era


# The Java client

SOURCE = Path(processes.__file__).with_name("Configuration.java")
NAMES = {
    "enable.idempotence": lambda given: given.enable_idempotence,
    "acks": lambda given: None if given.acks is None else ACKS[given.acks],
    "retries": lambda given: given.retries,
    "max.in.flight.requests.per.connection": (
        lambda given: given.max_in_flight_requests_per_connection
    ),
    "transactional.id": lambda given: "t" if given.transactional_id else None,
}


def configurations_line(given: Given) -> str:
    """The configurations as the Java program reads them."""
    written = {name: value(given) for name, value in NAMES.items()}
    return ",".join(f"{n}={str(v).lower()}" for n, v in written.items() if v is not None)


ASKED = tuple(
    given
    for given in GIVEN
    if given.acks != Acks.NONE
    and given.retries != 3
    and given.max_in_flight_requests_per_connection != 5
)
"""A producer of Java's takes a while: what differs in nothing that matters is left out."""


@pytest.mark.parametrize("release", sized(["3.9.2", "4.3.1"], ["3.9.2"]))
def test_the_java_client_decides_as_the_table_of_its_era(release: str) -> None:
    try:
        java, jars = find_java(), client_jars(release)
    except (MissingTool, FetchFailed) as error:
        pytest.skip(f"the Java client {release}: {error}")
    command = [str(java), *JVM_OPTIONS, "-cp", str(jars / "*"), str(SOURCE)]
    told = subprocess.run(
        command,
        input="".join(configurations_line(given) + "\n" for given in ASKED),
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {configurations_line(g): decided(era_of(release), g).outcome.name for g in ASKED}
    assert dict(zip(expected, told.stdout.splitlines(), strict=True)) == expected
