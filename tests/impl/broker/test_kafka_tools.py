"""Kafka's command-line tools at our broker: they write what they write at a real 4.3.1.

What Kafka says is recorded in `recorded_tools/4.3.1.json`; `--full` asks a real broker again, and
`KAFKA_EOS_RECORD=1` with it writes the file anew.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import Producer as LibrdkafkaProducer
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl import Broker
from impl.broker.embedded import EMBEDDED
from impl.partition.log_config import LogConfig
from tests.impl.jars import Unavailable, jars

pytestmark = pytest.mark.slow

RELEASE = "4.3.1"
HERE = Path(__file__).parent
RECORDED = HERE / "recorded_tools" / f"{RELEASE}.json"
SECONDS = 20

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"

BEFORE = (
    f"{TOPICS} --create --topic orders --partitions 3 --config retention.ms=86400000",
    f"{TOPICS} --create --topic orders",
    f"{TOPICS} --create --topic orders --if-not-exists",
    f"{TOPICS} --list",
    f"{TOPICS} --describe --topic nosuch",
    f"{TOPICS} --describe --under-replicated-partitions",
    f"{TOPICS} --describe --unavailable-partitions",
    f"{TOPICS} --alter --topic orders --partitions 4",
    f"{TOPICS} --alter --topic orders --partitions 2",
)
"""On an empty broker."""

AFTER = (
    f"{OFFSETS} --topic orders",
    f"{OFFSETS} --topic orders --time -2",
    f"{OFFSETS} --topic orders --time -3",
    f"{OFFSETS} --topic orders --time -4",
    f"{OFFSETS} --topic orders --time 1000",
    f"{OFFSETS} --topic-partitions orders:1-2",
    f"{GROUPS} --list",
    f"{GROUPS} --list --state --type",
    f"{GROUPS} --describe --group g",
    f"{GROUPS} --describe --group g --state",
    f"{GROUPS} --describe --group g --members",
    f"{GROUPS} --describe --group nosuch",
    f"{GROUPS} --reset-offsets --group g --topic orders --to-earliest --dry-run",
    f"{GROUPS} --reset-offsets --group g --topic orders --shift-by -1 --execute",
    f"{GROUPS} --describe --group g --offsets",
    f"{GROUPS} --delete-offsets --group g --topic orders",
    f"{GROUPS} --delete --group g",
    f"{GROUPS} --delete --group nosuch",
    "org.apache.kafka.tools.GroupsCommand --list",
    f"{CONFIGS} --alter --entity-type topics --entity-name orders --add-config"
    " max.message.bytes=2000000",
    f"{CONFIGS} --alter --entity-type topics --entity-name orders --delete-config retention.ms",
    f"{CONFIGS} --alter --entity-type topics --entity-name orders --add-config no.such=1",
    f"{CONFIGS} --alter --entity-type topics --entity-name orders --add-config retention.ms=x",
    f"{CONFIGS} --describe --entity-type topics --entity-name orders",
    f"{CONFIGS} --describe --entity-type groups --entity-name g",
    f"{CONFIGS} --describe --entity-type client-metrics",
    f"{TRANSACTIONS} list",
    f"{TRANSACTIONS} describe --transactional-id till",
    f"{TRANSACTIONS} describe --transactional-id nosuch",
    f"{TRANSACTIONS} describe-producers --topic orders --partition 0",
    f"{TRANSACTIONS} find-hanging --broker-id 1",
    f"{TRANSACTIONS} find-hanging --topic orders",
    f"{TRANSACTIONS} abort --topic orders --partition 0 --start-offset 0",
    f"{FEATURES} downgrade --feature transaction.version=0 --dry-run",
    f"{FEATURES} upgrade --feature transaction.version=9",
    f"{CLUSTER} list-endpoints",
    "org.apache.kafka.tools.ClientMetricsCommand --list",
    f"{TOPICS} --delete --topic orders",
    f"{TOPICS} --delete --topic nosuch",
    f"{TOPICS} --list --exclude-internal",
    f"{TOPICS} --create --topic moved --partitions 2",
    f"{ELECTION} --election-type preferred --all-topic-partitions",
    f"{ELECTION} --election-type preferred --topic moved --partition 0",
    f"{ELECTION} --election-type unclean --topic moved --partition 1",
    f"{ELECTION} --election-type unclean --topic nosuch --partition 0",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand --list",
    f"{CONFIGS} --alter --entity-type users --entity-name u --add-config producer_byte_rate=1000",
    f"{CONFIGS} --alter --entity-type users --entity-name u --entity-type clients --entity-name c"
    " --add-config request_percentage=12.5,consumer_byte_rate=7",
    f"{CONFIGS} --alter --entity-type clients --entity-default --add-config"
    " controller_mutation_rate=3",
    f"{CONFIGS} --alter --entity-type ips --entity-name 127.0.0.1 --add-config"
    " connection_creation_rate=10",
    f"{CONFIGS} --alter --entity-type users --entity-name u --add-config no.such=1",
    f"{CONFIGS} --alter --entity-type users --entity-name u --add-config producer_byte_rate=-1",
    f"{CONFIGS} --describe --entity-type users",
    f"{CONFIGS} --describe --entity-type users --entity-name u",
    f"{CONFIGS} --describe --entity-type clients --entity-default",
    f"{CONFIGS} --describe --entity-type users --entity-name u --entity-type clients",
    f"{CONFIGS} --describe --entity-type ips",
    f"{CONFIGS} --alter --entity-type users --entity-name u --delete-config producer_byte_rate",
    f"{CONFIGS} --describe --entity-type users --entity-name u",
    f"{CLUSTER} unregister --id 9",
    f"{CONFIGS} --describe --entity-type brokers",
    f"{CONFIGS} --alter --entity-type brokers --entity-default --add-config"
    " log.cleanup.policy=[compact,delete]",
    f"{CONFIGS} --alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=7000",
    f"{CONFIGS} --describe --entity-type brokers --entity-default",
    f"{CONFIGS} --describe --entity-type brokers --entity-name 1",
    f"{CONFIGS} --alter --entity-type brokers --entity-name 1 --add-config num.partitions=3",
    f"{CONFIGS} --alter --entity-type brokers --entity-default --add-config compression.type=x",
    f"{CONFIGS} --alter --entity-type brokers --entity-default --delete-config no.such",
    f"{CONFIGS} --alter --entity-type brokers --entity-default --delete-config log.cleanup.policy",
    f"{CONFIGS} --alter --entity-type brokers --entity-name 1 --delete-config log.retention.ms",
    f"{CONFIGS} --alter --entity-type brokers --entity-default --delete-config min.insync.replicas",
)
"""On the broker with what `fill` writes."""

LIVE = ("classic", "consumer")
"""Groups with a member each, by the protocol that it uses."""

DURING = (
    f"{GROUPS} --list",
    f"{GROUPS} --list --state",
    f"{GROUPS} --list --state stable --type",
    "org.apache.kafka.tools.GroupsCommand --list",
    *(
        f"{GROUPS} {words} --group {group}"
        for group in LIVE
        for words in (
            "--describe",
            "--describe --verbose",
            "--describe --members",
            "--describe --members --verbose",
            "--describe --state",
            "--describe --state --verbose",
            "--reset-offsets --topic live --to-earliest --execute",
            "--delete",
        )
    ),
    f"{CONFIGS} --alter --entity-type groups --entity-name consumer --add-config"
    " consumer.heartbeat.interval.ms=6000",
    f"{CONFIGS} --alter --entity-type groups --entity-name consumer --add-config"
    " consumer.session.timeout.ms=1",
    f"{CONFIGS} --describe --entity-type groups --entity-name consumer",
    f"{CONFIGS} --describe --entity-type groups",
    f"{CONFIGS} --alter --entity-type groups --entity-name consumer --delete-config"
    " consumer.heartbeat.interval.ms",
    "org.apache.kafka.tools.ClientMetricsCommand --alter --name m --interval 1000 --match"
    " client_id=a.*",
    "org.apache.kafka.tools.ClientMetricsCommand --list",
    "org.apache.kafka.tools.ClientMetricsCommand --describe --name m",
    "org.apache.kafka.tools.ClientMetricsCommand --delete --name m",
)
"""While these members live, and what concerns settings of groups."""

AS_KAFKA = replace(
    EMBEDDED,
    log=LogConfig(retention_ms=604_800_000),
    consumer_groups=replace(EMBEDDED.consumer_groups, heartbeat_interval_ms=5_000),
)
"""With Kafka's defaults where ours are others, and a tool tells them."""

REFUSED = {
    "org.apache.kafka.tools.MetadataQuorumCommand remove-controller --controller-id 1"
    " --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ": "REMOVE_RAFT_VOTER",
}
"""Tools that need what our broker does not serve, and what they say that is."""


class Tools:
    """A JVM that runs the tools."""

    def __init__(self, process: subprocess.Popen[str], server: str) -> None:
        self._process = process
        self._server = server

    def run(self, command: str) -> str:
        """The exit code, and what the tool wrote."""
        tool, *words = command.split()
        server = ["--bootstrap-server", self._server]
        line = [tool, *words, *server] if tool == CLUSTER else [tool, *server, *words]
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join(line) + "\n")
        stdin.flush()
        code, _, text = stdout.readline().strip().partition(" ")
        return f"{base64.b64decode(text).decode().strip()}\nexit code: {code}"


@contextmanager
def tools_at(server: str) -> Iterator[Tools]:
    needed = {f"org.apache.kafka:{name}": RELEASE for name in ("kafka-tools", "kafka_2.13")}
    try:
        folder = jars(f"kafka-tools-{RELEASE}", needed)
    except Unavailable as reason:
        pytest.skip(str(reason))
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{folder}/*"]
    command.append(str(HERE / "KafkaTools.java"))
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield Tools(process, server)
        assert process.stdin is not None
        process.stdin.close()


def fill(server: str) -> LibrdkafkaProducer:
    """Records, a group's offsets, and a transaction that stays open as long as its producer."""
    plain = LibrdkafkaProducer({"bootstrap.servers": server})
    for number in range(8):
        plain.produce("orders", b"%d" % number, partition=number % 2, timestamp=1 + number)
    assert plain.flush(SECONDS) == 0
    settings = {"bootstrap.servers": server, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = LibrdkafkaConsumer(settings)
    consumer.subscribe(["orders"])
    left = 8
    while left:
        left -= len(consumer.consume(left, SECONDS))
    consumer.commit(asynchronous=False)
    consumer.close()
    till = LibrdkafkaProducer({"bootstrap.servers": server, "transactional.id": "till"})
    till.init_transactions(SECONDS)
    till.begin_transaction()
    till.produce("orders", b"open", partition=0)
    assert till.flush(SECONDS) == 0
    return till


def conversation(server: str) -> dict[str, str]:
    """What each tool writes, without what is another one in each run."""
    with tools_at(server) as tools:
        told = {command: comparable(tools.run(command), server) for command in BEFORE}
        open_transaction = fill(server)
        told |= {command: comparable(tools.run(command), server) for command in AFTER}
        del open_transaction
        with live_members(server) as ids:
            for command in DURING:
                text = tools.run(command)
                for member_id in ids:
                    text = text.replace(member_id, "MEMBER")
                told[f"live: {command}"] = without_epochs(in_order(comparable(text, server)))
    return told


@contextmanager
def live_members(server: str) -> Iterator[list[str]]:
    """The ids of a member in each group of `LIVE`, which has all of a topic; one is static."""
    admin = AdminClient({"bootstrap.servers": server})
    admin.create_topics([NewTopic("live", 2)])["live"].result(SECONDS)
    members = []
    for protocol in LIVE:
        settings = {"bootstrap.servers": server, "group.id": protocol, "group.protocol": protocol}
        settings |= {"client.id": f"client of {protocol}", "enable.auto.commit": "false"}
        settings |= {"group.instance.id": "i"} if protocol == "classic" else {}
        member = LibrdkafkaConsumer(settings)
        member.subscribe(["live"])
        members.append(member)
    end_s = time.monotonic() + SECONDS
    while not all(len(member.assignment()) == 2 for member in members):
        assert time.monotonic() < end_s
        for member in members:
            member.poll(0.1)
    yield [member.memberid() for member in members]
    for member in members:
        member.close()


def without_epochs(text: str) -> str:
    """A consumer group of one member of librdkafka is in epoch 2 in one run, in 3 in another."""
    text = re.sub(r"\b\d+ (?=live:)", "EPOCH ", text)
    return re.sub(r"(?<=Stable )(\d+) \1(?= )", "EPOCH EPOCH", text)


def in_order(text: str) -> str:
    """A coordinator lists groups in no order."""
    return "\n".join(sorted(text.splitlines()))


def comparable(text: str, server: str) -> str:
    """Without addresses, ids, times, and the places of a stack trace."""
    text = re.sub(r"\n\s+at .*|\n\s+\.\.\. \d+ more|SLF4J: .*\n?", "", text)
    text = re.sub(r"TopicId: \S+", "TopicId: -", text)
    text = text.replace(server, "SERVER").replace(server.rpartition(":")[2], "PORT")
    text = re.sub(r"\b\d{10,}\b", "N", text)
    return re.sub(r"[ \t]+", " ", text)


def without_ids(told: dict[str, str]) -> dict[str, str]:
    """Producer ids begin at 0 at Kafka, at the time of its start at ours; durations differ."""
    return {
        command: re.sub(r"(?<!: )\b\d+\b", "N", text) if command.startswith(TRANSACTIONS) else text
        for command, text in told.items()
    }


def test_kafkas_tools_write_what_they_write_at_kafka() -> None:
    with Broker(config=AS_KAFKA) as kafka:
        told = without_ids(conversation(kafka.bootstrap_servers))
    recorded = json.loads(RECORDED.read_text())
    assert told.keys() == recorded.keys()
    assert {c: told[c] for c in told if told[c] != recorded[c]} == {}
    assert sum("exit code: 0" in text for text in told.values()) > 30


def test_a_tool_for_what_is_not_served_says_so_at_once() -> None:
    with Broker() as kafka, tools_at(kafka.bootstrap_servers) as tools:
        for command, api in REFUSED.items():
            told = tools.run(command)
            assert f"The node does not support {api}" in told
            assert "exit code: 1" in told


@pytest.mark.full
def test_the_recording_is_kafkas() -> None:
    with KafkaBroker(RELEASE) as broker:
        told = without_ids(conversation("{}:{}".format(*broker.address)))
    if os.environ.get("KAFKA_EOS_RECORD"):
        RECORDED.parent.mkdir(exist_ok=True)
        RECORDED.write_text(json.dumps(told, indent=1) + "\n")
    assert told == json.loads(RECORDED.read_text())
