"""Compacted topics: a broker of 4.3.1 and ours have the same left of the same conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.audit.kinds import KINDS
from conformance.audit.partition_audit import AuditSettings, audit_partition
from conformance.audit.segments import find_partitions
from impl.broker.durable_cluster import DurableCluster
from impl.coordinator.config import TransactionConfig
from impl.log.checkpoint_files import CorruptCheckpoint, PartitionName, decode_offsets
from impl.log.disk import DirectoryDisk
from impl.log.transaction_index import AbortedTransaction, decode_transaction_index
from impl.partition.log_config import LogConfig
from impl.protocol.schemas import ApiKey
from proofs.java import MissingTool
from tests.conformance.adapters.brokers.kafka.compaction_script import (
    CompactionScript,
    Side,
    Step,
    draw,
)
from tests.impl.broker.network import Network
from tests.impl.storage.test_real_directories import complaints, dump, files
from tests.sizes import sized

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BACKOFF_MS = 50
CLEANED_S = 20.0


class RealSide(Side):
    """A broker of 4.3.1, which cleans twenty times a second."""

    name = "kafka"

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.connection: BrokerConnection = broker.connect()
        self.expected: list[int] = []
        """Up to where it must clean, next."""

    def ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        return self.connection.ask(api_key, version, body)

    @property
    def folder(self) -> Path:
        return self.broker.folder / "data"

    def await_cleaned(self, topic: str) -> int:
        expected, cleaned = self.expected.pop(0), 0
        end_s = time.monotonic() + CLEANED_S
        while cleaned != expected and time.monotonic() < end_s:
            time.sleep(0.02)
            cleaned = self.read_cleaned(topic)
        return cleaned

    def read_cleaned(self, topic: str) -> int:
        file = self.folder / "cleaner-offset-checkpoint"
        with suppress(FileNotFoundError, CorruptCheckpoint):
            return decode_offsets(file.read_bytes()).get(PartitionName(topic, 0), -1)
        return -1

    def restart(self) -> None:
        self.connection.close()
        self.broker.restart()
        self.connection = self.broker.connect()


class OurSide(Side):
    """Our node, on a directory, with a clock of its own."""

    name = "ours"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_ms = time.time_ns() // 1_000_000
        self.start()

    def start(self) -> None:
        self.disk = DirectoryDisk(self.folder)
        self.cluster = DurableCluster(self.disk, "c", LogConfig(), lambda: self.now_ms)
        self.network = Network(
            cluster=self.cluster,
            transactions=TransactionConfig(num_partitions=1),
            log_cleaner_backoff_ms=BACKOFF_MS,
        )
        self.network.now_ms = self.now_ms
        self.network.run(100)

    def ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        answer = self.network.ask(api_key, version, body)
        self.network.run(1)
        return answer

    def await_cleaned(self, topic: str) -> int:
        self.network.run(BACKOFF_MS)
        cleaned = self.network.leader(topic).log.cleaned_offset
        return -1 if cleaned is None else cleaned

    def restart(self) -> None:
        self.stop()
        self.now_ms = self.network.now_ms
        self.start()

    def stop(self) -> None:
        self.cluster.close()
        self.disk.close()


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSide]:
    folder = tmp_path_factory.mktemp("kafka") / "broker"
    broker = KafkaBroker(
        "4.3.1", folder=folder, properties={"log.cleaner.backoff.ms": str(BACKOFF_MS)}
    )
    try:
        broker.start()
    except MissingTool as error:
        pytest.skip(str(error))
    side = RealSide(broker)
    yield side
    side.connection.close()
    broker.stop()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurSide]:
    side = OurSide(tmp_path_factory.mktemp("ours"))
    yield side
    side.stop()


class Case(NamedTuple):
    """A conversation, and the settings of its topic."""

    seed: int
    count: int
    configs: dict[str, str]
    big: bool = False

    @property
    def steps(self) -> list[Step]:
        return draw(Random(self.seed), self.count, big=self.big)


AT_ONCE = {"delete.retention.ms": "0"}
SMALL_SEGMENTS = {"segment.bytes": str(1 << 20)}
CASES = {
    "kept": Case(1, 60, {}),
    "deleted": Case(2, 60, AT_ONCE),
    "large": Case(3, 40, AT_ONCE | SMALL_SEGMENTS, big=True),
    "both": Case(4, 60, AT_ONCE | {"cleanup.policy": "compact,delete", "retention.ms": "-1"}),
    "converted": Case(45, 60, AT_ONCE | {"compression.type": "zstd"}),
}
BASIC = tuple(CASES)
CASES |= {f"seed {n}": Case(n, 150, AT_ONCE if n % 2 else {}, n % 5 == 0) for n in range(5, 45)}


Scripts = tuple[CompactionScript, CompactionScript]


@pytest.fixture(scope="module")
def play(theirs: RealSide, ours: OurSide) -> Callable[[str], Scripts]:
    """Plays a case, once, on ours and on theirs."""

    @cache
    def played(name: str) -> Scripts:
        case = CASES[name]
        start_ms = time.time_ns() // 1_000_000
        mine, real = (
            CompactionScript(side, f"case-{case.seed}", start_ms, case.configs)
            for side in (ours, theirs)
        )
        mine.play(case.steps)
        theirs.expected = list(mine.cleaned)
        real.play(case.steps)
        return mine, real

    return played


@pytest.mark.parametrize("name", sized(CASES, list(CASES)[len(BASIC) :]))
def test_the_same_is_left_of_a_conversation(name: str, play: Callable[[str], Scripts]) -> None:
    mine, real = play(name)
    assert mine.cleaned == real.cleaned
    assert mine.log() == real.log()
    assert mine.readings() == real.readings()
    assert mine.repeats(7) == real.repeats(7)


def test_the_same_is_left_after_a_restart(
    play: Callable[[str], Scripts], theirs: RealSide, ours: OurSide
) -> None:
    """Also in the files, in which the audit finds the same."""
    scripts = [play(name) for name in BASIC]
    for side in (ours, theirs):
        side.restart()
    for mine, real in scripts:
        assert mine.log() == real.log()
        assert mine.readings() == real.readings()
        assert mine.repeats(1) == real.repeats(1)
    ours.restart()
    for mine, real in scripts:
        folders = [side.folder / f"{mine.topic}-0" for side in (ours, theirs)]
        assert names(folders[0], ".log") == names(folders[1], ".log")
        indexes = [read_indexes(folder) for folder in folders]
        assert list(map(mine.plain_index, indexes[0])) == list(map(real.plain_index, indexes[1]))
        found = [find(side.folder, mine.topic) for side in (ours, theirs)]
        assert found[0] == found[1]
        assert not [kind for kind, _ in found[0] if KINDS[kind].is_defect]


def test_kafkas_tool_reads_what_is_left(
    play: Callable[[str], Scripts], theirs: RealSide, ours: OurSide
) -> None:
    """It says that offsets are missing, of what Kafka cleaned, too; and nothing else."""
    topics = [play(name)[0].topic for name in BASIC]
    ours.restart()
    paths = [path for name in topics for path in files(ours.folder / f"{name}-0", *SUFFIXES)]
    told = dump(*paths)
    assert told.count("Log starting offset") == sum(path.suffix == ".log" for path in paths)
    logs = [path for name in topics for path in files(theirs.folder / f"{name}-0", ".log")]
    assert complaints(told) == complaints(dump(*logs)) == ["Non-consecutive offsets"]


SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


def names(folder: Path, suffix: str) -> list[str]:
    """Of files with content: a refused batch begins a segment, too, and a restart removes it."""
    return [path.name for path in files(folder, suffix) if path.stat().st_size]


def read_indexes(folder: Path) -> list[list[AbortedTransaction]]:
    return [decode_transaction_index(path.read_bytes()) for path in files(folder, ".txnindex")]


def find(folder: Path, topic: str) -> list[tuple[str, int]]:
    """What the audit finds: kinds and offsets."""
    [log] = find_partitions([str(folder)], topic)
    audited = audit_partition(log, AuditSettings("4.3.1"))
    return sorted((finding.kind, finding.offset) for finding in audited.findings)
