"""A feature's level is changed on a running broker, and what there is not is refused."""

import time

import pytest

from conformance.adapters.brokers.kafka.admin import api_versions
from conformance.adapters.brokers.kafka.administration import set_level
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.errors import RequestRefused

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

FEATURE = "transaction.version"


def await_level(connection: BrokerConnection, level: int) -> None:
    deadline = time.monotonic() + 30
    while api_versions(connection).levels.get(FEATURE, 0) != level:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_level_goes_down_and_up_again(connection: BrokerConnection):
    try:
        set_level(connection, FEATURE, 1, is_upgrade=False)
        await_level(connection, 1)
    finally:
        set_level(connection, FEATURE, 2, is_upgrade=True)
    await_level(connection, 2)


@pytest.mark.parametrize(("feature", "level"), [(FEATURE, 9), ("no.such.feature", 1)])
def test_what_there_is_not_is_refused(connection: BrokerConnection, feature: str, level: int):
    with pytest.raises(RequestRefused, match=f"{feature}={level}: error"):
        set_level(connection, feature, level, is_upgrade=True)
    assert api_versions(connection).levels[FEATURE] == 2
