"""Makes a directory with a real broker, and asks that broker about it after a restart on a copy."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.releases import find_release
from conformance.adapters.brokers.kafka.storage import copy_formatted
from conformance.campaigns.directories.client import Client
from conformance.campaigns.directories.questions import (
    Answers,
    ask_all,
    await_topics,
    now_ms,
    topics_of,
)
from conformance.campaigns.directories.scenarios import KILLED, Scenario
from conformance.campaigns.directories.script import Play
from impl.broker.durable_cluster import META_PROPERTIES
from impl.log.checkpoint_files import format_id

FIRST: Final = "data"
NODE_ID: Final = 1
ATTEMPTS: Final = 3
"""How often a broker is restarted whose coordinator has left a transaction open."""

_AUTHORIZER: Final = {
    False: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    True: "kafka.security.authorizer.AclAuthorizer",
}
"""The class of the authorizer, by whether the broker has a ZooKeeper."""


_PATIENT: Final = {"zookeeper.connection.timeout.ms": "30000"}
"""Lets a broker on a busy machine wait for its ZooKeeper."""


@dataclass(frozen=True, slots=True)
class KafkaDirectory:
    """The result of a real broker: its log directories, its answers, and the time when it was
    stopped."""

    scenario: Scenario
    release: str
    folders: tuple[Path, ...]
    answers: Answers
    stopped_ms: int


def make(scenario: Scenario, release: str, folder: Path) -> KafkaDirectory:
    """Let a broker play the scenario, keep its files in `folder`, and ask it.

    `folder/made` has the files as the broker left them. Raises what `KafkaBroker` and `Client`
    raise.
    """
    left = folder / "made"
    topics: list[str] = []
    _format(scenario, release, left)
    scripts = [script for script in (scenario.script, scenario.again) if script]
    for number, script in enumerate(scripts, 1):
        is_killed = scenario.stop == KILLED and number == len(scripts)
        with _started(scenario, release, left) as broker, broker.connect() as connection:
            client = Client(connection)
            await_topics(client, topics)
            Play(client, left / FIRST).play(script)
            if is_killed:
                broker.kill()
            else:
                topics = sorted(topics_of(client))
    stopped_ms = now_ms()
    for target, source in scenario.leftovers.items():
        copy = shutil.copytree if (left / FIRST / source).is_dir() else shutil.copy
        copy(left / FIRST / source, left / FIRST / target)
    for _ in range(ATTEMPTS):
        answers = _ask_again(scenario, release, left, folder / "again", topics)
        if not hanging(answers):
            break
    folders = tuple(left / name for name in _names(scenario))
    return KafkaDirectory(scenario, release, folders, answers, stopped_ms)


def _format(scenario: Scenario, release: str, left: Path) -> None:
    """Format the log directories; each has an id of its own, if the release has such ids
    (KIP-858)."""
    left.mkdir(parents=True)
    kafka = find_release(release)
    for name in _names(scenario):
        copy_formatted(kafka, kafka.default_level, NODE_ID, left / name)
        properties = left / name / META_PROPERTIES
        if name != FIRST and properties.exists():
            text = properties.read_text()
            own = format_id(uuid.uuid4().bytes)
            properties.write_text(re.sub("(?m)^directory.id=.*$", f"directory.id={own}", text))


def _ask_again(
    scenario: Scenario, release: str, left: Path, again: Path, topics: Sequence[str]
) -> Answers:
    """The broker's answers after a restart on a copy of its files."""
    shutil.copytree(left, again)
    since_ms = now_ms()
    with _started(scenario, release, again) as broker, broker.connect() as connection:
        await_topics(client := Client(connection), topics)
        answers = ask_all(client, since_ms)
    shutil.rmtree(again)
    return answers


def hanging(answers: Answers) -> set[int]:
    """Producer ids whose transaction is complete at the coordinator, but open at a leader.

    A coordinator that restarts before it knows the leaders takes their topics for deleted, and
    completes prepared transactions without markers
    (`TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue`). Whether it does is a matter of
    timing.
    """
    complete = {
        row["producer_id"]
        for row in (answers["transactions"] or {}).values()
        if row["state"].startswith("Complete")
    }
    return {
        int(producer_id)
        for partition in answers["partitions"].values()
        for producer_id, row in partition["producers"].items()
        if row["current_txn_start_offset"] >= 0 and int(producer_id) in complete
    }


def _names(scenario: Scenario) -> list[str]:
    """The folders of its log directories."""
    return [FIRST, *(f"{FIRST}{number}" for number in range(2, scenario.log_dirs + 1))]


@contextmanager
def _started(scenario: Scenario, release: str, folder: Path) -> Iterator[KafkaBroker]:
    properties = _properties(scenario, release, folder)
    broker = KafkaBroker(release, folder=folder, properties=properties)
    try:
        broker.start()
        yield broker
        broker.stop()
    finally:
        broker.close()


def _properties(scenario: Scenario, release: str, folder: Path) -> Mapping[str, str]:
    folders = [str((folder / name).absolute()) for name in _names(scenario)]
    has_zookeeper = find_release(release).has_zookeeper
    return {
        **(_PATIENT if has_zookeeper else {}),
        "authorizer.class.name": _AUTHORIZER[has_zookeeper],
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
        **scenario.properties,
        "log.dirs": ",".join(folders),
    }
