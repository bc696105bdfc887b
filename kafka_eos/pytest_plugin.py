"""The pytest plugin: the fixture `kafka`, a clean broker for each test.

    def test_orders(kafka):
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

`@pytest.mark.kafka_broker(nodes=3, topics={"orders": 4})` gives arguments of `kafka_eos.Broker`.
Nothing of the broker is imported before the first test that uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from impl.broker.embedded import Broker

MARKER = "kafka_broker"


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
        yield broker
