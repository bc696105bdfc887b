"""Our log and Kafka's UnifiedLog through the same histories: the same answers, the same memory.

What is compared after each step: both ends and the high watermark, each producer with all its
remembered batches, where segments begin, which snapshots are there.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.reading import find_offset, read
from impl.partition.replica_log import ReplicaLog
from impl.protocol.fields import Timestamp
from impl.protocol.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    TRANSACTIONAL,
    Record,
    decode_whole_batches,
    increment_sequence,
    restamp_batch,
)
from tests.impl.partition.kafka_log import KafkaLog, described
from tests.impl.partition.test_leader import GOOD, INVALID, a_batch, damaged, p1, sealed

pytestmark = pytest.mark.slow  # Java

NOW_MS = int(time.time() * 1000)
"""Kafka's log has a clock of its own; the time is in no answer."""

NEVER_MS = 2**31 - 1
CONFIG = LogConfig(segment_bytes=220, producer_id_expiration_ms=NEVER_MS)
"""Two or three batches a segment."""

RECORD = Record(0, NOW_MS, None, b"v")

HISTORIES = 30
STEPS = 40


class History:
    """The same steps for both; each method is one kind of step and compares at its end."""

    def __init__(self, kafka: KafkaLog, folder: Path, seed: int) -> None:
        self.kafka = kafka
        self.folder = folder / "t-0"
        self.folder.mkdir()
        self.random = random.Random(seed)
        self.leader = PartitionLeader(log=ReplicaLog(config=CONFIG))
        self.closed_at = 0
        self.is_cut = False
        self.told: list[str] = []
        self.open(is_clean=True)

    def compare(self, told: tuple[str, str], answer: str = "0") -> None:
        self.told.append(told[0] + "|" + told[1])
        assert told == (answer, described(self.leader.log)), "\n".join(self.told[-4:])

    def open(self, *, is_clean: bool, recovery_point: int | None = None) -> None:
        point = self.leader.log_end_offset if recovery_point is None else recovery_point
        start = self.leader.log_start_offset
        told = self.kafka.run(
            "open", self.folder, start, point, str(is_clean).lower(), CONFIG.segment_bytes
        )
        self.compare(told)

    def append(self) -> None:
        producer_id = self.random.choice((1, 1, 2))
        entry = self.leader.producers.get(producer_id)
        epoch = max(0, entry.producer_epoch if entry else 0)
        epoch = max(0, epoch + self.random.choice((0, 0, 0, 0, 0, 0, 1, -1)))
        following = increment_sequence(entry.last_sequence, 1) if entry else MAX_SEQUENCE - 4
        back = self.random.choice((0, 0, 0, 0, 0, 1, 2, 3, -1))
        sequence = self.random.choice((following, following, 0)) - back & MAX_SEQUENCE
        data = a_batch(
            sequence,
            self.random.choice((1, 1, 2, 3)),
            producer_id=producer_id,
            epoch=epoch,
            timestamp=NOW_MS + self.random.randint(0, 20),
        )
        done = self.leader.produce(data, required_acks=1, now_ms=NOW_MS)
        answer = str(int(done.error)) if done.error else f"0 {done.base_offset}"
        self.compare(self.kafka.append(data), answer)

    def append_plain(self) -> None:
        data = a_batch(timestamp=NOW_MS)
        done = self.leader.produce(data, required_acks=1, now_ms=NOW_MS)
        self.compare(self.kafka.append(data), f"0 {done.base_offset}")

    def replicate(self) -> None:
        """Followers fetch whole batches."""
        ends = [stored.last_offset + 1 for stored in self.leader.batches]
        now = self.leader.high_watermark
        offset = self.random.choice([now, *(end for end in ends if end > now)])
        self.leader.advance_high_watermark(offset)
        self.compare(self.kafka.run("hw", offset))

    def read(self) -> None:
        """Where the high watermark lies inside a batch, Kafka's own reading moves it."""
        log = self.leader.log
        bounds = {stored.base_offset for stored in log.batches} | {log.log_end_offset}
        if log.high_watermark not in bounds:
            return
        offset = self.random.randint(max(0, log.log_start_offset - 1), log.log_end_offset + 1)
        max_bytes = self.random.choice((1, 150, 400, 1 << 20))
        at_least_one = self.random.choice((True, False))
        found = read(log, offset, max_bytes, at_least_one=at_least_one)
        bases = [batch.base_offset for batch in decode_whole_batches(found.records)]
        answer = str(int(found.error)) if found.error else f"0 {' '.join(map(str, bases))}"
        told = self.kafka.run("read", offset, max_bytes, str(at_least_one).lower())
        self.compare(told, answer)

    def find(self) -> None:
        """Where a log was cut, Kafka knows the latest timestamp only roughly: its index tells."""
        if self.is_cut:
            return
        timestamp = self.random.choice((-2, -3, -5, NOW_MS + self.random.randint(-1, 21)))
        log = self.leader.log
        found = find_offset(log, timestamp, log.log_end_offset, self.leader.leader_epoch)
        answer, state = self.kafka.run("find", timestamp)
        epoch = found.leader_epoch
        if timestamp == Timestamp.EARLIEST:
            # Kafka's list of epochs may know one of records that are gone.
            answer, epoch = answer.rpartition(" ")[0] + " ?", "?"
        self.compare((answer, state), f"0 {found.timestamp} {found.offset} {epoch}")

    def delete(self) -> None:
        offset = self.random.randint(0, self.leader.high_watermark + 1)
        error = self.leader.delete_records(offset).error
        self.compare(self.kafka.run("delete", offset), str(int(error)))

    def truncate(self) -> None:
        offset = self.random.randint(self.leader.log_start_offset, self.leader.log_end_offset)
        self.leader.log.truncate_to(offset, NOW_MS)
        self.closed_at = min(self.closed_at, offset)
        self.is_cut = True
        self.compare(self.kafka.run("truncate", offset))

    def start_elsewhere(self) -> None:
        offset = self.leader.log_end_offset + self.random.choice((0, 5))
        self.leader.log.truncate_fully_and_start_at(offset)
        self.closed_at = 0
        self.compare(self.kafka.run("start", offset))

    def expire(self) -> None:
        now_ms = NOW_MS + self.random.choice((NEVER_MS - 1, NEVER_MS))
        self.leader.remove_expired_producers(now_ms)
        self.compare(self.kafka.run("expire", now_ms))

    def close_and_open(self) -> None:
        self.leader.log.close()
        self.compare(self.kafka.run("close"))
        self.closed_at = self.leader.log_end_offset
        self.leader = self.restart(had_clean_shutdown=True)
        self.open(is_clean=True)

    def kill_and_open(self) -> None:
        end = self.leader.log_end_offset
        point = self.random.randint(min(self.closed_at, end), end)
        self.leader = self.restart(recovery_point=point)
        self.open(is_clean=False, recovery_point=point)

    def restart(self, **how: object) -> PartitionLeader:
        log = self.leader.log
        return PartitionLeader.restart(
            [b"".join(stored.data for stored in log.deleted + log.batches)],
            log.producer_states.snapshots,
            leader_epoch=0,
            high_watermark=log.log_start_offset,
            now_ms=NOW_MS,
            log_start_offset=log.log_start_offset,
            config=log.config,
            segments=log.segments,
            **how,  # type: ignore[arg-type]
        )

    def run(self) -> None:
        often = (
            self.append,
            self.append,
            self.append,
            self.append,
            self.append,
            self.replicate,
            self.read,
            self.find,
        )
        seldom = (self.append_plain, self.delete, self.truncate, self.close_and_open)
        rare = (self.kill_and_open, self.start_elsewhere, self.expire)
        for _ in range(STEPS):
            kinds = self.random.choices((often, seldom, rare), (10, 3, 1))[0]
            self.random.choice(kinds)()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_kafka_does_the_same(kafka: KafkaLog, tmp_path: Path, seed: int) -> None:
    History(kafka, tmp_path, seed).run()


def test_kafka_replays_nothing_without_producers(kafka: KafkaLog, tmp_path: Path) -> None:
    """The snapshot at 3 is loaded, the batch at 3 is in the log and not in memory."""
    history = History(kafka, tmp_path, 0)
    for sequence in range(5):
        data = p1(sequence, timestamp=NOW_MS)
        done = history.leader.produce(data, required_acks=1, now_ms=NOW_MS)
        history.compare(kafka.append(data), f"0 {done.base_offset}")
    history.leader.remove_expired_producers(NOW_MS + NEVER_MS)
    history.compare(kafka.run("expire", NOW_MS + NEVER_MS))
    history.leader.log.truncate_to(4, NOW_MS)
    history.compare(kafka.run("truncate", 4))
    assert history.leader.producers[1].last_sequence == 2


def resized(data: bytes) -> bytes:
    """The batch with the length that its bytes have."""
    return data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]


def counted(data: bytes, count: int) -> bytes:
    """The batch with this number of records announced."""
    counts = (count - 1).to_bytes(4, "big"), count.to_bytes(4, "big")
    return sealed(data[:23] + counts[0] + data[27:57] + counts[1] + data[61:])


FAULTS = {
    **{name: data for name, (data, _) in INVALID.items() if name != "from the future"},
    "checksum": damaged(len(GOOD) - 1, 1, 1),
    "offset, then checksum": damaged(7, 1, 1)[:-1] + b"?",
    "checksum, then count": damaged(57, 9, 4),
    "count, then control": p1(0, 2, last_offset_delta=2, attributes=CONTROL),
    "control, then sequence": p1(-1, attributes=CONTROL),
    "sequence, then record": sealed(damaged(53, -1, 4)[:61] + b"~" + damaged(53, -1, 4)[62:]),
    "offset delta": p1(0, 2, records=(RECORD, RECORD)),
    "offset deltas in a batch of one": p1(0, 1, records=(RECORD._replace(offset_delta=1),)),
    "codec 5": restamp_batch(GOOD, 5, NOW_MS),
    "plain records that claim to be gzip": restamp_batch(GOOD, 1, NOW_MS),
    "a maximum timestamp that is not there": p1(0, 2, max_timestamp=NOW_MS + 5),
    "log append time": p1(0, 2, attributes=LOG_APPEND_TIME),
    "epoch -1": p1(0, epoch=-1),
    "epoch -2": p1(0, epoch=-2),
    "transaction": p1(0, attributes=TRANSACTIONAL),
    "good": GOOD,
}


for _codec in range(1, 5):
    _whole = p1(0, 3, attributes=_codec)
    FAULTS |= {
        f"codec {_codec}": _whole,
        f"codec {_codec}, the block cut": sealed(resized(_whole[:-3])),
        f"codec {_codec}, half the block": sealed(resized(_whole[: 61 + (len(_whole) - 61) // 2])),
        f"codec {_codec}, one byte of the block": sealed(resized(_whole[:62])),
        f"codec {_codec}, a byte changed": sealed(_whole[:-6] + b"~" + _whole[-5:]),
        f"codec {_codec}, plain": restamp_batch(p1(0, 3), _codec, NOW_MS),
        f"codec {_codec}, one record less": counted(_whole, 4),
        f"codec {_codec}, one record more": counted(_whole, 2),
    }


@pytest.mark.parametrize("name", FAULTS)
def test_kafka_says_the_same_of_a_batch(kafka: KafkaLog, tmp_path: Path, name: str) -> None:
    history = History(kafka, tmp_path, 0)
    data = FAULTS[name]
    done = history.leader.produce(data, required_acks=1, now_ms=NOW_MS)
    answer = str(int(done.error)) if done.error else f"0 {done.base_offset}"
    history.compare(kafka.append(data), answer)
