"""Our log and Kafka's UnifiedLog through the same transactions: the same answers, the same memory.

What is compared after each step, beside what `History` compares: epochs of coordinators, open
transactions, verification entries, the last stable offset, the transaction index of each segment.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from impl.log.snapshot import decode_snapshot, snapshot_name
from impl.log.transaction_index import find_overlapping
from impl.partition.errors import PlainBatchInTransaction
from impl.partition.leader import PartitionLeader
from impl.partition.reading import read
from impl.partition.replica_log import ReplicaLog
from impl.partition.rules import DEFAULT_RULES, RULES, TransactionRules
from impl.protocol.control_records import ControlType, EndTransactionMarker, marker_batch
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation
from impl.protocol.record_batch import (
    MAX_SEQUENCE,
    TRANSACTIONAL,
    encode_batch,
    place_batch,
    read_header,
    read_headers,
)
from tests.impl.jars import Unavailable
from tests.impl.partition.kafka_log import KafkaLog, described, kafka_log
from tests.impl.partition.test_leader import a_batch
from tests.impl.partition.test_replica_log_kafka import CONFIG, NEVER_MS, NOW_MS, History

pytestmark = pytest.mark.slow  # Java

HISTORIES = 40
STEPS = 60
LAST_EPOCH = 32_767


class Transactions(History):
    """The steps of `History`, and those of transactions."""

    def __init__(
        self, kafka: KafkaLog, folder: Path, seed: int, rules: TransactionRules = DEFAULT_RULES
    ) -> None:
        self.guards = [0]
        self.asked: dict[int, tuple[int, int]] = {}
        self.first_epoch = LAST_EPOCH - seed % 2 if seed % 3 == 0 else 0
        super().__init__(kafka, folder, seed)
        self.leader = PartitionLeader(log=ReplicaLog(config=replace(CONFIG, rules=rules)))

    def one_of(self, producer_id: int) -> tuple[int, int]:
        """An epoch and a sequence, mostly those that follow."""
        entry = self.leader.producers.get(producer_id)
        epoch = entry.producer_epoch if entry else self.first_epoch
        epoch += self.random.choice((0, 0, 0, 0, 0, 0, 1, -1))
        first = self.random.choice((0, 0, 5))
        following = entry.last_sequence + 1 & MAX_SEQUENCE if entry else first
        sequence = self.random.choice((following, following, following, 0, following + 1))
        return max(0, min(epoch, LAST_EPOCH)), sequence & MAX_SEQUENCE

    def append(self) -> None:
        """`History` bumps epochs that can be bumped."""
        if self.first_epoch == 0:
            super().append()

    def begin(self) -> None:
        producer_id = self.random.choice((1, 1, 2))
        epoch, sequence = self.one_of(producer_id)
        sequence = self.random.choice((sequence, sequence, sequence, -1))
        is_bumped = self.random.choice((True, False))
        told = self.kafka.run("begin", producer_id, epoch, sequence, str(is_bumped).lower())
        begun = self.leader.begin_verification(
            producer_id, epoch, sequence, supports_epoch_bump=is_bumped, now_ms=NOW_MS
        )
        self.guards.append(begun.guard)
        self.asked[producer_id] = epoch, sequence
        self.compare(told, str(int(begun.error)) if begun.error else f"0 {begun.guard}")

    def append_in_transaction(self) -> None:
        producer_id = self.random.choice((1, 1, 2))
        epoch, sequence = self.one_of(producer_id)
        if self.random.random() < 0.4:
            epoch, sequence = self.asked.get(producer_id, (epoch, sequence))
        verification = self.leader.log.producer_states.verifications.get(producer_id)
        known = verification.guard if verification else 0
        guard = self.random.choice((known, known, known, known, 0, *self.guards[-3:]))
        attributes = self.random.choice((TRANSACTIONAL,) * 9 + (0,))
        data = a_batch(
            sequence,
            self.random.choice((1, 2)),
            producer_id=producer_id,
            epoch=epoch,
            timestamp=NOW_MS,
            attributes=attributes,
        )
        if self.random.random() < 0.8:
            done = self.leader.produce(data, required_acks=1, now_ms=NOW_MS, guard=guard)
            told = self.kafka.append(data, guard)
        else:
            done = self.leader.append_as_coordinator(data, now_ms=NOW_MS, guard=guard)
            told = self.kafka.coordinate(data, guard, -1)
        self.compare(told, str(int(done.error)) if done.error else f"0 {done.base_offset}")

    def mark(self) -> None:
        producer_id = self.random.choice((1, 1, 2))
        epoch, _ = self.one_of(producer_id)
        kind = self.random.choice((ControlType.ABORT, ControlType.ABORT, ControlType.COMMIT))
        coordinator_epoch = self.random.choice((3, 3, 3, 3, 2, 4))
        version = self.random.choice((0, 1, 2, 2))
        data = encode_batch(
            marker_batch(
                EndTransactionMarker(kind, coordinator_epoch),
                producer_id=producer_id,
                producer_epoch=epoch,
                timestamp=NOW_MS,
            )
        )
        done = self.leader.write_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            control_type=kind,
            coordinator_epoch=coordinator_epoch,
            now_ms=NOW_MS,
            transaction_version=version,
        )
        answer = str(int(done.error)) if done.error else f"0 {done.base_offset}"
        self.compare(self.kafka.coordinate(data, 0, version), answer)

    def read_committed(self) -> None:
        """Kafka lists what is aborted up to the end of the segment: its offset index is empty."""
        log = self.leader.log
        bounds = {stored.base_offset for stored in log.batches} | {log.log_end_offset}
        if not {log.high_watermark, log.last_stable_offset} <= bounds:
            return
        offset = self.random.randint(log.log_start_offset, log.log_end_offset)
        max_bytes = self.random.choice((1, 150, 400, 1 << 20))
        isolation = Isolation.READ_COMMITTED
        found = read(log, offset, max_bytes, at_least_one=True, isolation=isolation)
        headers = [header for _, header in read_headers(found.records)]
        answer = f"0 {' '.join(str(header.base_offset) for header in headers)}"
        if headers:
            end = next((b for b in log.segments if b > headers[0].base_offset), log.log_end_offset)
            listed = find_overlapping(log.aborted, offset, end)
            met = [e for e in listed if e.first_offset <= headers[-1].last_offset]
            assert list(found.aborted_transactions) == met
            answer += "".join(f" {e.producer_id}:{e.first_offset}" for e in listed)
        self.compare(self.kafka.run("read", offset, max_bytes, "true", "TXN_COMMITTED"), answer)

    def compare(self, told: tuple[str, str], answer: str = "0") -> None:
        """A closed log tells nothing of its indexes; the next one does."""
        if self.kafka.is_closed:
            aborted = described(self.leader.log).rpartition("|")[2]
            told = told[0], told[1].rpartition("|")[0] + "|" + aborted
        super().compare(told, answer)

    def truncate(self) -> None:
        """Kafka's first unstable offset is that of before, until the high watermark is set again.

        The rebuild has no transaction that ended before the snapshot; it is no longer held back.
        """
        offset = self.random.randint(self.leader.log_start_offset, self.leader.log_end_offset)
        self.leader.log.truncate_to(offset, NOW_MS)
        self.closed_at = min(self.closed_at, offset)
        self.is_cut = True
        self.kafka.run("truncate", offset)
        self.compare(self.kafka.run("hw", self.leader.high_watermark))

    def expire(self) -> None:
        now_ms = NOW_MS + self.random.choice((0, NEVER_MS + 10**9))
        self.leader.remove_expired_producers(now_ms)
        self.compare(self.kafka.run("expire", now_ms))

    def close_and_open(self) -> None:
        """Kafka's indexes are ours, byte for byte, and its snapshots but for their order."""
        super().close_and_open()
        log = self.leader.log
        for base in log.segments:
            path = self.folder / f"{base:020d}.txnindex"
            data = path.read_bytes() if path.exists() else b""
            assert data == log.transaction_index(base)
        for offset, data in log.producer_states.snapshots.items():
            written = decode_snapshot((self.folder / snapshot_name(offset)).read_bytes())
            assert sorted(written) == sorted(decode_snapshot(data))

    def restart(self, **how: object) -> PartitionLeader:
        log = self.leader.log
        self.guards = [0]
        indexes = {base: log.transaction_index(base) for base in log.segments}
        return super().restart(transaction_indexes=indexes, **how)

    def run(self) -> None:
        often = (
            *(self.begin,) * 4,
            *(self.append_in_transaction,) * 7,
            *(self.mark,) * 4,
            self.replicate,
            self.replicate,
            self.read_committed,
            self.append,
        )
        seldom = (self.append_plain, self.delete, self.truncate, self.close_and_open)
        rare = (self.kill_and_open, self.start_elsewhere, self.expire)
        for _ in range(STEPS):
            kinds = self.random.choices((often, seldom, rare), (20, 3, 1))[0]
            self.random.choice(kinds)()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_kafka_does_the_same(kafka: KafkaLog, tmp_path: Path, seed: int) -> None:
    Transactions(kafka, tmp_path, seed).run()


@pytest.fixture(scope="module", params=["4.2.1", "4.1.2"])
def older_kafka(request: pytest.FixtureRequest) -> Iterator[tuple[KafkaLog, str]]:
    try:
        with kafka_log(request.param) as log:
            yield log, request.param
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("seed", range(HISTORIES // 2))
def test_an_older_kafka_does_the_same_by_its_own_rules(
    older_kafka: tuple[KafkaLog, str], tmp_path: Path, seed: int
) -> None:
    kafka, release = older_kafka
    Transactions(kafka, tmp_path, seed, RULES[release.rpartition(".")[0]]).run()


@pytest.mark.parametrize("is_bumped", [True, False])
def test_with_v2_kafka_refuses_a_first_sequence_above_zero(
    kafka: KafkaLog, tmp_path: Path, is_bumped: bool
) -> None:
    history = Transactions(kafka, tmp_path, 1)
    begun = history.leader.begin_verification(1, 0, 5, supports_epoch_bump=is_bumped, now_ms=NOW_MS)
    told = kafka.run("begin", 1, 0, 5, str(is_bumped).lower())
    history.compare(told, f"0 {begun.guard}")
    data = a_batch(5, producer_id=1, epoch=0, timestamp=NOW_MS, attributes=TRANSACTIONAL)
    done = history.leader.produce(data, required_acks=1, now_ms=NOW_MS, guard=begun.guard)
    answer = "0 0" if done.error == ErrorCode.NONE else str(int(done.error))
    assert bool(done.error) == is_bumped
    history.compare(kafka.append(data, begun.guard), answer)


class Follower(Transactions):
    """What any leader may have written, sensible or not: a follower takes it as it is."""

    def follow(self) -> None:
        producer_id = self.random.choice((1, 2))
        epoch, sequence = self.one_of(producer_id)
        kind = self.random.choice(("data", "data", "data", "plain", "ABORT", "ABORT", "COMMIT"))
        if kind in ("data", "plain"):
            attributes = TRANSACTIONAL if kind == "data" else 0
            data = a_batch(sequence, 2, producer_id=producer_id, epoch=epoch, attributes=attributes)
        else:
            marker = EndTransactionMarker(ControlType[kind], self.random.choice((2, 3, 3, 4)))
            batch = marker_batch(
                marker, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS
            )
            data = encode_batch(batch)
        log = self.leader.log
        placed = place_batch(data, read_header(data), log.log_end_offset, 0)
        try:
            log.append_as_follower(placed, 0)
            answer = "0"
        except PlainBatchInTransaction:
            answer = str(int(ErrorCode.INVALID_TXN_STATE))
        told = self.kafka.run("follow", base64.b64encode(placed).decode())
        self.compare(told, answer)

    def run(self) -> None:
        steps = (*(self.follow,) * 8, self.replicate, self.truncate, self.close_and_open)
        for _ in range(STEPS):
            self.random.choice(steps)()


@pytest.mark.parametrize("seed", range(HISTORIES // 4))
def test_a_follower_of_kafkas_takes_the_same(kafka: KafkaLog, tmp_path: Path, seed: int) -> None:
    Follower(kafka, tmp_path, seed).run()
