"""One of Kafka's own logs for all tests of a session: a start takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.impl.jars import Unavailable
from tests.impl.partition.kafka_log import KafkaLog, kafka_log


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaLog]:
    try:
        with kafka_log() as log:
            yield log
    except Unavailable as reason:
        pytest.skip(str(reason))
