"""The pytest plugin: the fixture `kafka`, a clean broker for each test.

    def test_orders(kafka):
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

`@pytest.mark.kafka_broker(nodes=3, topics={"orders": 4})` gives arguments of `kafka_eos.Broker`.
A test that fails prints the last requests that its broker received. Nothing of the broker is
imported before the first test that uses it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from impl.broker.embedded import Broker

MARKER = "kafka_broker"
BROKER: pytest.StashKey[Broker] = pytest.StashKey()
"""The broker of a test that has one."""


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", f"{MARKER}(**arguments): arguments of kafka_eos.Broker for the fixture kafka"
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that serves on a thread of its own; nothing is left of it after the test."""
    from impl.broker.embedded import Broker

    marker = request.node.get_closest_marker(MARKER)
    with Broker(**(marker.kwargs if marker else {})) as broker:
        request.node.stash[BROKER] = broker
        yield broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the requests to the report of a test that fails."""
    report = yield
    if report.when == "call" and report.failed and BROKER in item.stash:
        report.sections.append(("kafka requests", item.stash[BROKER].format_timeline()))
    return report
