"""Consumer groups with settings of their own: our broker follows them as one of 4.3.1 does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.brokers.kafka.administration import await_applied
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from impl import ApiKey, Broker
from impl.broker.node_settings import configure
from tests.conformance.adapters.brokers.kafka.group_scripts import CONFIG, play
from tests.conformance.adapters.brokers.kafka.test_consumer_groups import ConsumerScript

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

GROUP, ID_BYTES = 32, 16
SET, DELETE = 0, 1
WIDE = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
}
NARROW = WIDE | {
    "group.consumer.max.heartbeat.interval.ms": "8000",
    "group.consumer.max.session.timeout.ms": "46000",
}
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


class ConfiguredScript(ConsumerScript):
    """Members of groups that somebody configures; they read one topic."""

    def plain(self, value: Any) -> Any:
        """A topic that was there before the script is not answered with its id."""
        return "t" if isinstance(value, bytes) and len(value) == ID_BYTES else super().plain(value)

    def configure(self, **values: int | None) -> None:
        """By the end of a setting's name; None deletes."""
        names = {"session": SESSION, "heartbeat": HEARTBEAT}
        rows = [
            {
                "name": names[name],
                "config_operation": DELETE if value is None else SET,
                "value": None if value is None else str(value),
            }
            for name, value in values.items()
        ]
        resource = {"resource_type": GROUP, "resource_name": self.group_id, "configs": rows}
        body = {"resources": [resource], "validate_only": False}
        self.ask("admin", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)
        await_applied(self.connection("admin").ask)

    def describe_settings(self) -> None:
        row = {
            "resource_type": GROUP,
            "resource_name": self.group_id,
            "configuration_keys": [SESSION, HEARTBEAT],
        }
        body = {"resources": [row], "include_synonyms": True}
        self.ask("admin", ApiKey.DESCRIBE_CONFIGS, 4, body)

    def await_members(self, *names: str) -> float:
        """Until these are left, after how many seconds."""
        body = {"group_ids": [self.group_id], "include_authorized_operations": False}
        ask, began_s = self.connection("admin").ask, time.monotonic()
        while True:
            [group] = ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, body)["groups"]
            if [member["member_id"] for member in group["members"]] == list(names):
                return time.monotonic() - began_s
            assert time.monotonic() - began_s < 20, group
            time.sleep(0.02)


def intervals_and_sessions(s: ConfiguredScript) -> None:
    """Members hear of an interval with the next answer; a session begins with the next request."""
    s.configure(heartbeat=7_000)
    one = s.enter("one", "t")
    s.configure(heartbeat=9_000)
    s.live("one", one["member_epoch"] - 1)
    s.configure(heartbeat=None)
    s.live("one", one["member_epoch"] - 1)
    s.configure(session=1_000, heartbeat=200)
    began_s = time.monotonic()
    s.live("one", one["member_epoch"] - 1)
    s.await_members()
    s.note("session", {"is_as_set": 0.8 < time.monotonic() - began_s < 10})
    s.live("one", one["member_epoch"] - 1)
    s.describe_settings()
    s.look()


def other_ranges(s: ConfiguredScript) -> None:
    """What was set before counts as the nearest that the broker has now, and is described as set.

    Nothing is changed while a setting that stays is out of the range.
    """
    s.describe_settings()
    s.enter("one", "t")
    s.configure(session=None)
    s.enter("two", "t")
    s.configure(session=None, heartbeat=None)
    s.enter("three", "t")


def left_behind(s: ConfiguredScript) -> None:
    """What a restart finds."""
    s.configure(session=60_000, heartbeat=15_000)
    s.enter("one", "t")
    s.live("one", -1)


Connect = Callable[[], BrokerConnection]


@contextmanager
def ours(directory: Path, settings: dict[str, str]) -> Iterator[Connect]:
    config = CONFIG
    for name, value in settings.items():
        config = configure(config, name, value)
    with Broker(config=replace(config, port=0), directory=directory) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        yield lambda: BrokerConnection(host, int(port))


@contextmanager
def kafka(directory: Path, settings: dict[str, str]) -> Iterator[Connect]:
    with KafkaBroker("4.3.1", folder=directory, properties=settings) as broker:
        yield broker.connect
        broker.stop()


def test_groups_follow_their_settings_also_after_a_restart(tmp_path: Path) -> None:
    kinds = [(kafka, tmp_path / "kafka"), (ours, tmp_path / "ours")]
    told = []
    for start, directory in kinds:
        with start(directory, WIDE) as connect:
            answers = play(intervals_and_sessions, ConfiguredScript, connect)
            answers += play(named(left_behind), ConfiguredScript, connect)
        with start(directory, NARROW) as connect:
            answers += play(named(other_ranges), ConfiguredScript, connect)
        told.append(answers)
    for number, (wanted, found) in enumerate(zip(*told, strict=True)):
        assert found == wanted, number
    intervals = [answer.get("heartbeat_interval_ms") for _, answer in told[0]]
    wanted_ms = [7_000, 9_000, 5_000, 200, 15_000, 8_000, 8_000, 5_000]
    assert [ms for ms in intervals if ms] == wanted_ms


def named(script: Callable[[ConfiguredScript], None]) -> Callable[[ConfiguredScript], None]:
    """A script of the group `kept`."""

    def kept(s: ConfiguredScript) -> None:
        script(s)

    return kept
