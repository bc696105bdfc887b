"""Groups with members of both protocols: our broker answers each step as one of 4.3.1 does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from impl.broker.node_settings import configure
from tests.conformance.adapters.brokers.kafka.conftest import CONSUMER_GROUPS
from tests.conformance.adapters.brokers.kafka.group_scripts import CONFIG, check_answers, ours, play
from tests.conformance.adapters.brokers.kafka.mixed_scripts import (
    MIXED_SCRIPTS,
    MixedScript,
    policies,
)
from tests.sizes import sized

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("script", MIXED_SCRIPTS, ids=lambda script: script.__name__)
def test_each_step_is_answered_as_by_kafka(
    script: Callable[[MixedScript], None], broker: KafkaBroker
) -> None:
    check_answers(script, MixedScript, broker.connect)


@pytest.mark.slow
@pytest.mark.parametrize("policy", sized(["disabled", "upgrade", "downgrade"], ["disabled"]))
def test_a_policy_says_which_groups_are_converted(policy: str, tmp_path: Path) -> None:
    name = "group.consumer.migration.policy"
    properties = {**CONSUMER_GROUPS, name: policy}
    with KafkaBroker("4.3.1", folder=tmp_path, properties=properties) as broker:
        check_answers(policies, MixedScript, broker.connect, configure(CONFIG, name, policy))


def members_of_several_hosts(s: MixedScript) -> None:
    """Each member connects from a host of its own, and some say later that they have moved."""
    i = {"group_instance_id": "i"}
    old = s.found("old", **i)
    s.describe()
    back = s.come("moved", **i)
    s.describe()
    s.come("moved again", back["member_id"], **i)
    s.get("moved", back, **i)
    s.describe()
    new = s.enter("new", "t")
    s.look()
    s.come("again", back["member_id"], owned={"t": (0, 1, 2, 3)}, **i)
    s.look()
    s.connections.pop("new").close()
    s.live("new", new["member_epoch"])
    s.look()
    s.live("new", -1)
    s.describe()
    s.heartbeat("old", old, **i)


def test_members_are_described_with_their_hosts_as_by_kafka(broker: KafkaBroker) -> None:
    def from_new_hosts(host: str, port: int) -> Callable[[], BrokerConnection]:
        numbers = count(2)
        return lambda: BrokerConnection(host, port, source=f"127.0.0.{next(numbers)}")

    theirs = play(members_of_several_hosts, MixedScript, from_new_hosts(*broker.address))
    with ours() as port:
        connect = from_new_hosts("127.0.0.1", port)
        assert play(members_of_several_hosts, MixedScript, connect) == theirs
    hosts = {
        member["client_host"]
        for _, answer in theirs
        for group in answer.get("groups", ())
        for member in group.get("members", ())
    }
    assert hosts > {"/127.0.0.3", "/127.0.0.6"}
