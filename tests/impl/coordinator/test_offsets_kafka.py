"""Our group offsets and Kafka's through the same histories: the same answers, the same records."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from impl.coordinator.group_config import OffsetsConfig
from impl.coordinator.offsets import OffsetsCoordinator, OffsetToCommit
from impl.coordinator.offsets_groups import Committer, GroupMembers, GroupState
from impl.coordinator.offsets_records import OffsetKey, encode_key
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.record_batch import (
    Record,
    RecordBatch,
    decode_batch,
    encode_batch,
    place_batch,
    read_header,
)
from tests.impl.jars import Unavailable, jars

pytestmark = pytest.mark.slow  # Java

RELEASE = "4.3.1"
HISTORIES = 30
STEPS = 60
TIME_MS = 7
"""The program writes this time into each record."""

STABLE_GROUP = GroupMembers(GroupState.STABLE, 4, frozenset({"m", "s"}), {"i": "s"})
EMPTY_GROUP = GroupMembers(GroupState.EMPTY, 4)


class KafkaOffsets:
    """One program: commands in, answers out."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().rstrip("\n")


@contextmanager
def kafka_offsets() -> Iterator[KafkaOffsets]:
    folder = jars(
        f"kafka-group-coordinator-{RELEASE}", {"org.apache.kafka:kafka-group-coordinator": RELEASE}
    )
    program = str(Path(__file__).parent / "Offsets.java")
    with subprocess.Popen(
        [
            *("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{folder}/*", program),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield KafkaOffsets(process)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaOffsets]:
    try:
        with kafka_offsets() as program:
            yield program
    except Unavailable as reason:
        pytest.skip(str(reason))


def spelled(word: str | None) -> str:
    return word or "~"


class History:
    """The same steps for both; each compares the answer and the records that it writes."""

    def __init__(self, kafka: KafkaOffsets, seed: int) -> None:
        self.kafka = kafka
        self.random = random.Random(seed)
        self.coordinator = OffsetsCoordinator(
            OffsetsConfig(num_partitions=1, offset_metadata_max_bytes=3)
        )
        self.coordinator.load(0, ())
        self.log: list[bytes] = []
        self.next_offset = 0
        self.offset = 0
        assert kafka.run("new") == "0"
        # The log has the two records of membership, which are none of ours.
        self.take(encode_batch(RecordBatch((Record(0, 0, b"\0\2\0\1s", b""),))))
        assert kafka.run("group", "s", 4, "m", "~", "s", "i") == "0"
        self.take(encode_batch(RecordBatch((Record(0, 0, b"\0\2\0\1e", b""),))))
        assert kafka.run("group", "e", 4) == "0"
        self.coordinator.members = {"s": STABLE_GROUP, "e": EMPTY_GROUP}

    def take(self, data: bytes) -> None:
        """The batch is the next one of the log."""
        placed = place_batch(data, read_header(data), self.next_offset, 0)
        self.log.append(placed)
        self.coordinator.replay(0, placed)
        self.next_offset = decode_batch(placed).last_offset + 1

    def commit(self) -> None:
        group = self.random.choice(("s", "s", "e", "a", "b"))
        generation = self.random.choice((-1, -1, -1, 4, 4, 3) if group == "s" else (-1, -1, -1, 4))
        member = self.random.choice(("", "m", "s", "x") if group == "s" else ("", "", "m"))
        instance = self.random.choice((None, None, None, "i", "j"))
        version = self.random.choice((8, 9))
        partition, epoch = self.random.choice((0, 1)), self.random.choice((-1, 2))
        metadata = self.random.choice((None, None, None, "m", "xyz", "long"))
        if group in "ab" and metadata == "long":
            # In Kafka's memory, not in its log, such a commit alone makes a group.
            metadata = "m"
        self.offset += 1
        row = OffsetToCommit("t", partition, self.offset, epoch, metadata)
        who = Committer(generation, member, instance)
        words = (
            *(version, group, generation, spelled(member), spelled(instance)),
            *(partition, self.offset, epoch, spelled(metadata)),
        )
        if self.random.random() < 0.5:
            told = self.kafka.run("commit", *words)
            decision = self.coordinator.commit(
                group, who, [row], now_ms=TIME_MS, api_version=version
            )
        else:
            producer_id = self.random.choice((1, 2))
            told = self.kafka.run("txn", *words, producer_id, 0)
            decision = self.coordinator.commit_in_transaction(
                group, who, [row], producer_id=producer_id, producer_epoch=0, now_ms=TIME_MS
            )
        answer = str(int(decision.rows[0].error))
        if decision.batch is not None:
            for record in decode_batch(decision.batch).records:
                answer += f" {(record.key or b'').hex()}={(record.value or b'').hex()}"
            self.take(decision.batch)
        assert told == answer, words

    def end(self) -> None:
        producer_id, kind = self.random.choice((1, 2)), self.random.choice(("COMMIT", "ABORT"))
        marker = EndTransactionMarker(ControlType[kind], 0)
        batch = marker_batch(marker, producer_id=producer_id, producer_epoch=0, timestamp=0)
        self.take(encode_batch(batch))
        assert self.kafka.run("mark", producer_id, 0, kind) == "0"

    def delete(self) -> None:
        group, partition = self.random.choice("sea"), self.random.choice((0, 1))
        key = encode_key(OffsetKey(group, "t", partition))
        self.take(encode_batch(RecordBatch((Record(0, 0, key, None),))))
        assert self.kafka.run("tombstone", group, partition) == "0"

    def fetch(self) -> None:
        is_stable, group = self.random.choice((True, False)), self.random.choice("seabc")
        asked = self.random.choice(([], [0], [0, 1]))
        told = self.kafka.run("fetch", group, str(is_stable).lower(), *asked)
        partitions = [("t", partition) for partition in asked] or None
        found = self.coordinator.fetch(group, partitions, require_stable=is_stable)
        answer = str(int(found.error)) + "".join(
            f" {row.partition}:{int(row.error)}:{row.offset}:{row.leader_epoch}:{row.metadata}"
            for row in found.rows
        )
        assert told == answer, (group, is_stable, asked)
        assert found.required_offset == self.next_offset

    def load(self) -> None:
        """What a load finds is what is in memory."""
        loaded = OffsetsCoordinator(self.coordinator.config)
        loaded.load(0, self.log)
        mine, again = self.coordinator.partitions[0], loaded.partitions[0]
        assert mine is not None
        assert again is not None
        assert mine.view() == again.view()

    def run(self) -> None:
        steps = (self.commit,) * 5 + (self.end,) * 2 + (self.fetch,) * 4 + (self.delete, self.load)
        for _ in range(STEPS):
            self.random.choice(steps)()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_kafka_does_the_same(kafka: KafkaOffsets, seed: int) -> None:
    History(kafka, seed).run()
