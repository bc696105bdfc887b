"""One real broker for all tests of a file; skipped only where its tools are not installed."""

from collections.abc import Iterator

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from proofs.java import MissingTool

CONSUMER_GROUPS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "100",
}
"""As our broker has them in tests."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A start takes three seconds of processor time; idle in a whole session it took a minute."""
    folder = tmp_path_factory.mktemp("kafka") / "broker"
    broker = KafkaBroker("4.3.1", folder=folder, properties=CONSUMER_GROUPS)
    try:
        broker.start()
    except MissingTool as error:
        pytest.skip(str(error))
    yield broker
    broker.stop()


@pytest.fixture
def connection(broker: KafkaBroker) -> Iterator[BrokerConnection]:
    with broker.connect() as connection:
        yield connection
