"""Classic groups: our broker answers each step of these scripts as a real one of 4.3.1 does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from tests.conformance.adapters.brokers.kafka.group_scripts import Script, Values, check_answers

pytestmark = pytest.mark.kafka


def two_members(s: Script) -> tuple[Values, Values]:
    one = s.join_twice("one")
    s.sync("one", one)
    two_id = s.join("two")["member_id"]
    s.send_join("two", two_id)
    s.await_rebalance(one)
    again = s.join("one", one["member_id"])
    two = s.receive("two")
    s.send_sync("two", two)
    s.sync("one", again)
    s.receive("two")
    return again, two


def members_come_and_go(s: Script) -> None:
    s.describe()
    one, two = two_members(s)
    s.describe()
    s.list()
    s.list(states_filter=["stable"])
    s.list(states_filter=["Empty"])
    s.list(types_filter=["Consumer"])
    s.commit("one", one)
    s.delete()
    s.delete_offsets()
    s.leave("two", (two["member_id"], None), ("nobody", None))
    s.heartbeat("one", one)
    s.commit("one", one)
    s.leave("one", (one["member_id"], None), version=2)
    s.heartbeat("one", one)
    s.commit("one", one)
    s.describe(5)
    s.list(states_filter=["EMPTY"])
    s.delete_offsets()
    s.delete()
    s.delete()
    s.describe(5)


def refusals(s: Script) -> None:
    s.join("one", session_timeout_ms=1)
    s.join("one", "nobody")
    s.join("one", protocols=[])
    s.join("one", protocol_type="")
    s.join("one", group_id="")
    nobody = {"generation_id": 1, "member_id": "nobody", "members": []}
    s.heartbeat("one", nobody)
    s.sync("one", nobody)
    s.leave("one", ("nobody", None))
    s.leave("one", ("nobody", None), version=2)
    s.commit("one", nobody)
    s.delete()
    s.delete_offsets()
    one = s.join_twice("one")
    s.sync("one", one, generation_id=7)
    s.sync("one", one, protocol_name="other")
    s.sync("one", one, protocol_name=None)
    s.sync("one", one, member_id="nobody")
    s.sync("one", one, group_instance_id="i")
    s.sync("one", one)
    s.sync("one", one)
    s.heartbeat("one", one, generation_id=7)
    s.heartbeat("one", one, group_instance_id="i")
    s.commit("one", one, generation_id_or_member_epoch=7)
    s.commit("one", one, member_id="nobody")
    s.commit("one", one, generation_id_or_member_epoch=-1, member_id="")
    s.join("two", protocols=[{"name": "other", "metadata": b""}])
    s.join("two", protocol_type="connect")
    s.leave("one", (one["member_id"], None))


def static_members(s: Script) -> None:
    one = s.join("one", group_instance_id="i")
    s.sync("one", one, group_instance_id="i")
    for version in (9, 8, 5):
        again = s.join("two", "", version, group_instance_id="i")
        s.sync("two", again, 3, group_instance_id="i")
        s.heartbeat("one", one, group_instance_id="i")
        s.heartbeat("two", again, group_instance_id="i")
    s.describe()
    s.join("two", one["member_id"], group_instance_id="i")
    s.leave("two", (one["member_id"], "i"))
    s.leave("two", ("", "j"), ("", None), ("", "i"))
    s.describe()


def old_clients(s: Script) -> None:
    one = s.join("one", "", 3)
    s.sync("one", one, 2)
    s.heartbeat("one", one, 0)
    s.describe(0)
    s.send_join("two", "", 2)
    s.await_rebalance(one)
    s.join("one", one["member_id"], 3)
    two = s.receive("two")
    s.leave("two", (two["member_id"], None), version=0)
    s.heartbeat("one", one, 1)


SCRIPTS = [members_come_and_go, refusals, static_members, old_clients]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_each_step_is_answered_as_by_kafka(
    script: Callable[[Script], None], broker: KafkaBroker
) -> None:
    check_answers(script, Script, broker.connect)
