"""One real broker for all tests of a session; skipped only where its tools are not installed."""

from collections.abc import Iterator

import pytest

from conformance.kafka.broker import KafkaBroker
from conformance.kafka.connection import BrokerConnection
from proofs.java import MissingTool


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    broker = KafkaBroker("4.3.1", folder=tmp_path_factory.mktemp("kafka") / "broker")
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
