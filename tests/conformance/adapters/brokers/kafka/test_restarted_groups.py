"""Consumer groups (KIP-848) after a restart: our broker has of them what one of 4.3.1 recovers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from impl import Broker
from tests.conformance.adapters.brokers.kafka.conftest import CONSUMER_GROUPS
from tests.conformance.adapters.brokers.kafka.group_scripts import CONFIG, play
from tests.conformance.adapters.brokers.kafka.mixed_scripts import MixedScript
from tests.impl.storage.test_real_directories import complaints, dump, files
from tests.sizes import sized

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Connect = Callable[[], BrokerConnection]
Play = Callable[["RestartedScript"], None]
KINDS = (3, 5, 6, 7, 8)
"""Of the records of consumer groups."""


class RestartedScript(MixedScript):
    """What members do before a restart, and what they are answered after it.

    `restart` starts the broker again, and returns how to connect to it.
    """

    restart: Callable[[], Connect]

    def begin_again(self) -> None:
        self.close()
        self.connections = {}
        self.connect = self.restart()
        self.await_coordinator()


def members_outlive_a_restart(s: RestartedScript) -> None:
    """One stands still to revoke, one waits, one has left its place, one reads an expression."""
    s.await_assignment("four", s.enter("four", subscribed_topic_regex=s.name("u")))
    s.enter("one", "t", server_assignor="range")
    s.commit_as("one", 3, 0, 1)
    s.enter("two", "t", instance_id="2")
    s.live("one", 3)
    s.enter("three", "t", instance_id="3")
    s.live("three", -2, instance_id="3")
    s.enter("gone", "t")
    s.live("gone", -1)
    s.look()
    s.begin_again()
    s.look()
    s.list()
    s.fetch_as("one", 3)
    s.live("one", 3)
    s.live("one", 8)
    s.live("gone", 6)
    s.live("two", 4, instance_id="2")
    s.live("one", 3, topic_partitions=[])
    s.look()
    s.enter("again", "t", instance_id="3")
    s.live("four", 2)
    s.live("two", 7, instance_id="2")
    s.commit_as("one", 7, 3)
    s.commit_as("one", 3, 3)
    s.look()
    for name in ("one", "four"):
        s.live(name, -1)
    s.look()


def mixed_members_outlive_a_restart(s: RestartedScript) -> None:
    """A group with members of both protocols, and one that has just become a classic group."""
    mixed = s.group_id
    s.group_id = f"{mixed} no more"
    s.await_coordinator()
    left = s.found("left")
    s.enter("gone", "t")
    s.live("gone", -1)
    s.see()
    s.group_id = mixed
    old = s.found("old")
    s.enter("new", "t", server_assignor="range")
    static = s.come("static", group_instance_id="i")
    s.come("old", old["member_id"], owned={"t": (0, 1, 2, 3)})
    s.look()
    s.begin_again()
    s.see()
    s.heartbeat("old", old)
    s.commit_as(old["member_id"], old["generation_id"], 0)
    s.commit_as("new", old["generation_id"] + 1, 0)
    old = s.come("old", old["member_id"])
    s.get("old", old)
    static = s.come("static", static["member_id"], group_instance_id="i")
    s.get("static", static, group_instance_id="i")
    s.see()
    s.group_id = f"{mixed} no more"
    s.see()
    s.heartbeat("left", left)
    left |= {"generation_id": 2}
    s.heartbeat("left", left)
    s.get("left", left)
    s.enter("new", "t")
    s.see()


SCRIPTS = [members_outlive_a_restart, mixed_members_outlive_a_restart]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A real broker."""
    folder = tmp_path_factory.mktemp("kafka")
    broker = KafkaBroker("4.3.1", folder=folder, properties=CONSUMER_GROUPS)
    broker.start()
    yield broker
    broker.stop()


def answers_of_kafka(script: Play, broker: KafkaBroker) -> list[Any]:
    def restart() -> Connect:
        broker.stop()
        broker.start()
        return broker.connect

    return play_with(script, restart, broker.connect)


def play_with(script: Play, restart: Callable[[], Connect], connect: Connect) -> list[Any]:
    kind = type("Restarted", (RestartedScript,), {"restart": staticmethod(restart)})
    return play(script, kind, connect)


class OurBroker:
    """Ours on a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()

    def start(self) -> Connect:
        """Start on what is in the directory; stop before that, if it runs."""
        self._stack.close()
        broker = self._stack.enter_context(Broker(directory=self._directory, config=CONFIG))
        host, _, port = broker.bootstrap_servers.rpartition(":")
        return lambda: BrokerConnection(host, int(port))

    def stop(self) -> None:
        self._stack.close()


@pytest.mark.parametrize(
    "script", sized(SCRIPTS, [mixed_members_outlive_a_restart]), ids=lambda script: script.__name__
)
def test_members_outlive_a_restart(script: Play, kafka: KafkaBroker, tmp_path: Path) -> None:
    """And Kafka's own tool reads the records of our groups."""
    theirs = answers_of_kafka(script, kafka)
    ours = OurBroker(tmp_path)
    try:
        answered = play_with(script, ours.start, ours.start())
    finally:
        ours.stop()
    for number, (wanted, found) in enumerate(zip(theirs, answered, strict=True)):
        assert found == wanted, number
    told = dump_groups(tmp_path)
    assert not complaints(told)
    assert [kind for kind in KINDS if f'"type":"{kind}"' not in told] == []
    assert ('"classicMemberMetadata":{' in told) == (script is mixed_members_outlive_a_restart)


def dump_groups(directory: Path) -> str:
    logs = [
        log for folder in directory.glob("__consumer_offsets-*") for log in files(folder, ".log")
    ]
    return dump(*logs, options=("--offsets-decoder",))
