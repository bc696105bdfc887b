"""Consumer groups (KIP-848) after a restart: our broker has of them what one of 4.3.1 recovers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conformance.kafka.broker import KafkaBroker
from conformance.kafka.connection import BrokerConnection
from impl import Broker
from tests.conformance.kafka.conftest import CONSUMER_GROUPS
from tests.conformance.kafka.group_scripts import CONFIG, play
from tests.conformance.kafka.test_consumer_groups import ConsumerScript
from tests.impl.storage.test_real_directories import complaints, dump, files

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Connect = Callable[[], BrokerConnection]


class RestartedScript(ConsumerScript):
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
    s.commit_as("one", 2, 0, 1)
    s.enter("two", "t", instance_id="2")
    s.live("one", 2)
    s.enter("three", "t", instance_id="3")
    s.live("three", -2, instance_id="3")
    s.enter("gone", "t")
    s.live("gone", -1)
    s.look()
    s.begin_again()
    s.look()
    s.list()
    s.fetch_as("one", 2)
    s.live("one", 2)
    s.live("one", 7)
    s.live("gone", 5)
    s.live("two", 3, instance_id="2")
    s.live("one", 2, topic_partitions=[])
    s.look()
    s.enter("again", "t", instance_id="3")
    s.live("four", 1)
    s.live("two", 6, instance_id="2")
    s.commit_as("one", 6, 3)
    s.commit_as("one", 2, 3)
    s.look()
    for name in ("one", "four"):
        s.live(name, -1)
    s.look()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What a real broker answers."""
    folder = tmp_path_factory.mktemp("kafka")
    broker = KafkaBroker("4.3.1", folder=folder, properties=CONSUMER_GROUPS)

    def restart() -> Connect:
        broker.stop()
        broker.start()
        return broker.connect

    broker.start()
    try:
        return play_with(restart, broker.connect)
    finally:
        broker.stop()


def play_with(restart: Callable[[], Connect], connect: Connect) -> list[Any]:
    kind = type("Restarted", (RestartedScript,), {"restart": staticmethod(restart)})
    return play(members_outlive_a_restart, kind, connect)


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


def test_members_outlive_a_restart(theirs: list[Any], tmp_path: Path) -> None:
    """And Kafka's own tool reads the records of our groups."""
    ours = OurBroker(tmp_path)
    try:
        answered = play_with(ours.start, ours.start())
    finally:
        ours.stop()
    for number, (wanted, found) in enumerate(zip(theirs, answered, strict=True)):
        assert found == wanted, number
    logs = [
        log for folder in tmp_path.glob("__consumer_offsets-*") for log in files(folder, ".log")
    ]
    told = dump(*logs, options=("--offsets-decoder",))
    assert not complaints(told)
    kinds = (3, 5, 6, 7, 8, 16)
    assert [kind for kind in kinds if f'"type":"{kind}"' not in told] == []
