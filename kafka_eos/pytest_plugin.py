"""The pytest plugin: the fixture `kafka`, a clean broker for each test.

    def test_orders(kafka):
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

`@pytest.mark.kafka_broker(nodes=3, topics={"orders": 4})` gives arguments of `kafka_eos.Broker`,
also on a class or a module: of each argument the closest marker's counts. A test that fails
prints the last requests that its broker received. Nothing of the broker is imported before the
first test that uses it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Generator, Iterator
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from impl.broker.embedded import Broker

MARKER = "kafka_broker"
BROKER: pytest.StashKey[Broker] = pytest.StashKey()
"""The broker of the fixture `kafka`, until the test's last report is made."""

RENAME = "Rename it, or keep its folder out of sys.path: `--import-mode=importlib`, `pythonpath`"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", f"{MARKER}(**arguments): arguments of kafka_eos.Broker for the fixture kafka"
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that serves on a thread of its own; nothing is left of it after the test."""
    broker_class, arguments = _import_broker(), arguments_of(request.node)
    check_names(arguments, signature(broker_class).parameters)
    with broker_class(**arguments) as broker:
        request.node.stash[BROKER] = broker
        yield broker


def arguments_of(node: pytest.Item) -> dict[str, Any]:
    """The arguments that markers give; of each one the closest counts."""
    found: dict[str, Any] = {}
    for marker in node.iter_markers(MARKER):
        if marker.args:
            given = ", ".join(map(repr, marker.args))
            pytest.fail(
                f"{MARKER}({given}): arguments of this marker are named, as in {MARKER}(nodes=3)",
                pytrace=False,
            )
        found = {**marker.kwargs, **found}
    return found


def check_names(arguments: Collection[str], known: Collection[str]) -> None:
    """The test fails if a marker gives an argument that a broker does not have."""
    for name in arguments:
        if name not in known:
            pytest.fail(
                f"{MARKER}({name}=...): there is no such argument; there are {', '.join(known)}",
                pytrace=False,
            )


def _import_broker() -> type[Broker]:
    """The class, imported now; the test fails if a package of its own project is found instead."""
    try:
        from impl.broker.embedded import Broker
    except ModuleNotFoundError:
        from kafka_eos.environment import hiding_package

        if found := hiding_package("impl"):
            pytest.fail(f"{found}. {RENAME}", pytrace=False)
        raise
    return Broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the requests, if there are any, to the report of a test that fails, or whose fixture
    does."""
    report = yield
    if report.failed:
        for broker in _brokers_of(item):
            requests = broker.format_timeline()
            if requests:
                report.sections.append(("kafka requests", requests))
    if report.when == "teardown" and BROKER in item.stash:
        del item.stash[BROKER]
    return report


def _brokers_of(item: pytest.Item) -> list[Broker]:
    """That of the fixture `kafka`, and those of the project's own fixtures."""
    found = [item.stash[BROKER]] if BROKER in item.stash else []
    embedded = sys.modules.get("impl.broker.embedded")
    if embedded is not None:
        values = (getattr(item, "funcargs", None) or {}).values()
        found += [value for value in values if isinstance(value, embedded.Broker)]
    return list(dict.fromkeys(found))
