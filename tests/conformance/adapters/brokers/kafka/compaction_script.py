"""Conversations about compacted topics, drawn by seed, for a real broker and for ours.

The times of records are fixed, and far apart where a segment ends: so both brokers have the same
segments. A topic is compacted when the script says so: `min.compaction.lag.ms` is lifted meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from impl.log.transaction_index import AbortedTransaction
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation, Timestamp
from impl.protocol.record_batch import (
    CONTROL,
    DELETE_HORIZON,
    Record,
    RecordBatch,
    client_batch,
    decode_whole_batches,
    encode_batch,
    read_header,
    whole_batches,
)
from impl.protocol.schemas import ApiKey

SEGMENT_MS = 600_000
JUMP_MS = 2 * SEGMENT_MS
NEVER = str(2**63 - 1)
RETRIABLE = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)


class Step(NamedTuple):
    """One step: of a producer by name, a batch or the end of its transaction; or of the topic."""

    act: str
    producer: str = ""
    records: tuple[tuple[bytes, bytes | None], ...] = ()
    codec: int = 0
    commit: bool = False


def draw(random: Random, count: int, *, big: bool = False) -> list[Step]:
    """Batches of four kinds of producers, ends of transactions and segments, two cleanings."""
    steps = []
    for number in range(count):
        name = random.choice(("plain", "i0", "i1", "v1", "v2", "v2"))
        if random.random() < 0.3:
            steps.append(Step("jump"))
        if name in ("v1", "v2") and random.random() < 0.4:
            steps.append(Step("end", name, commit=random.random() < 0.6))
        else:
            steps.append(Step("send", name, draw_records(random, big), random.choice((0, 0, 1, 4))))
        if number in (count // 2, count - 5):
            steps += [Step("jump"), Step("send", "plain", draw_records(random, False))]
            steps.append(Step("compact"))
    return steps


def draw_records(random: Random, big: bool) -> tuple[tuple[bytes, bytes | None], ...]:
    """One to four records of few keys, a quarter of them tombstones."""
    sizes = (0, 9, 200_000, 250_000) if big else (0, 1, 50)
    return tuple(
        (
            b"k%d" % random.randrange(8),
            None if random.random() < 0.25 else random.randbytes(random.choice(sizes)),
        )
        for _ in range(random.randint(1, 4))
    )


@dataclass
class KnownProducer:
    """What a client knows of its own id, and the batches that it sent."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0
    is_open: bool = False
    sent: list[bytes] = field(default_factory=list)


class Side:
    """A broker as the script sees it."""

    name: str

    def ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        """The answer's body."""
        raise NotImplementedError

    def await_cleaned(self, topic: str) -> int:
        """Let it clean; up to where the topic is cleaned then."""
        raise NotImplementedError

    def retry(self, attempt: Callable[[], tuple[int, Any]]) -> Any:
        """Repeat a request while it is refused for now; then it must succeed."""
        for _ in range(2000):
            error, answer = attempt()
            if error not in RETRIABLE:
                assert not error, (self.name, ErrorCode(error), answer)
                return answer
            time.sleep(0.005)
        raise AssertionError(f"{self.name} refuses for ever")


class CompactionScript:
    """Plays steps on one side, and sees what it has then."""

    def __init__(self, side: Side, topic: str, start_ms: int, configs: dict[str, str]) -> None:
        self.side = side
        self.topic = topic
        self.now_ms = self.start_ms = start_ms
        self.end_offset = 0
        self.producers = {"plain": KnownProducer()}
        self.cleaned: list[int] = []
        own = {
            "cleanup.policy": "compact",
            "segment.ms": str(SEGMENT_MS),
            "min.cleanable.dirty.ratio": "0",
            "min.compaction.lag.ms": NEVER,
            "message.timestamp.after.max.ms": NEVER,
        }
        rows = [{"name": name, "value": text} for name, text in (own | configs).items()]
        row = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": rows}
        answer = side.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})["topics"][0]
        assert not answer["error_code"], answer

    def play(self, steps: list[Step]) -> None:
        for step in steps:
            getattr(self, step.act)(step)

    # ---- steps

    def jump(self, step: Step) -> None:
        self.now_ms += JUMP_MS

    def send(self, step: Step) -> None:
        me = self.producer(step.producer)
        is_transactional = step.producer in ("v1", "v2")
        if step.producer == "v1" and not me.is_open:
            self.add_partition(me)
        self.now_ms += 1
        records = [Record(n, self.now_ms, *pair) for n, pair in enumerate(step.records)]
        identity = {
            "producer_id": me.producer_id,
            "producer_epoch": me.epoch,
            "base_sequence": me.sequence,
        }
        batch = client_batch(
            records,
            is_transactional=is_transactional,
            **(identity if me.producer_id >= 0 else {}),  # type: ignore[arg-type]
        )
        batch = batch._replace(attributes=batch.attributes | step.codec)
        data = encode_batch(batch)
        row = self.produce(data, step.producer)
        assert row["base_offset"] == self.end_offset, (self.side.name, row)
        self.end_offset += len(records)
        me.sequence += len(records)
        me.is_open = is_transactional
        me.sent.append(data)

    def produce(self, data: bytes, producer: str) -> Any:
        """The answer's row; errors that do not last are waited out."""
        partition = {"index": 0, "records": data}
        body = {
            "transactional_id": self.transactional_id(producer),
            "acks": -1,
            "timeout_ms": 1000,
            "topics": [{"name": self.topic, "partitions": [partition]}],
        }

        def attempt() -> tuple[int, Any]:
            version = 11 if producer == "v1" else 12
            [topic] = self.side.ask(ApiKey.PRODUCE, version, body)["topics"]
            [row] = topic["partitions"]
            return row["error_code"], row

        return self.side.retry(attempt)

    def end(self, step: Step) -> None:
        me = self.producer(step.producer)
        if not me.is_open:
            return
        body = {
            "transactional_id": self.transactional_id(step.producer),
            "producer_id": me.producer_id,
            "producer_epoch": me.epoch,
            "committed": step.commit,
        }
        version = 4 if step.producer == "v1" else 5

        def attempt() -> tuple[int, Any]:
            answer = self.side.ask(ApiKey.END_TXN, version, body)
            return answer["error_code"], answer

        answer = self.side.retry(attempt)
        if answer["producer_id"] >= 0:
            me.producer_id, me.epoch, me.sequence = (
                answer["producer_id"],
                answer["producer_epoch"],
                0,
            )
        me.is_open = False
        self.end_offset += 1
        while self.list_offset(Timestamp.LATEST, Isolation.READ_UNCOMMITTED)[0] < self.end_offset:
            time.sleep(0.002)

    def compact(self, step: Step) -> None:
        self.configure("min.compaction.lag.ms", "0")
        self.cleaned.append(self.side.await_cleaned(self.topic))
        self.configure("min.compaction.lag.ms", NEVER)

    # ---- requests

    def configure(self, name: str, value: str) -> None:
        change = {"name": name, "config_operation": 0, "value": value}
        row = {"resource_type": 2, "resource_name": self.topic, "configs": [change]}
        body = {"resources": [row], "validate_only": False}
        answer = self.side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)["responses"][0]
        assert not answer["error_code"], answer

    def transactional_id(self, producer: str) -> str | None:
        return f"{self.topic}-{producer}" if producer in ("v1", "v2") else None

    def producer(self, name: str) -> KnownProducer:
        if name not in self.producers:
            self.producers[name] = self.init(self.transactional_id(name))
        return self.producers[name]

    def init(self, transactional_id: str | None) -> KnownProducer:
        body = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": 600_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }

        def attempt() -> tuple[int, Any]:
            if transactional_id is not None:
                keys = {"coordinator_keys": [transactional_id], "key_type": 1}
                self.side.ask(ApiKey.FIND_COORDINATOR, 6, keys)
            answer = self.side.ask(ApiKey.INIT_PRODUCER_ID, 5, body)
            return answer["error_code"], answer

        answer = self.side.retry(attempt)
        return KnownProducer(answer["producer_id"], answer["producer_epoch"])

    def add_partition(self, me: KnownProducer) -> None:
        body = {
            "v3_and_below_transactional_id": self.transactional_id("v1"),
            "v3_and_below_producer_id": me.producer_id,
            "v3_and_below_producer_epoch": me.epoch,
            "v3_and_below_topics": [{"name": self.topic, "partitions": [0]}],
        }

        def attempt() -> tuple[int, Any]:
            answer = self.side.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, body)
            [topic] = answer["results_by_topic_v3_and_below"]
            [row] = topic["results_by_partition"]
            return row["partition_error_code"], row

        self.side.retry(attempt)

    def list_offset(self, timestamp: int, isolation: int) -> tuple[int, int, int]:
        """Offset, timestamp and leader epoch."""
        row = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        body = {
            "replica_id": -1,
            "isolation_level": isolation,
            "topics": [{"name": self.topic, "partitions": [row]}],
        }

        def attempt() -> tuple[int, Any]:
            [topic] = self.side.ask(ApiKey.LIST_OFFSETS, 8, body)["topics"]
            [found] = topic["partitions"]
            return found["error_code"], found

        found = self.side.retry(attempt)
        return found["offset"], found["timestamp"], found["leader_epoch"]

    def fetch(self, offset: int, isolation: int = Isolation.READ_UNCOMMITTED) -> Any:
        """The answer's partition."""
        partition = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 26,
        }
        body = {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 26,
            "isolation_level": isolation,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.topic, "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }

        def attempt() -> tuple[int, Any]:
            [topic] = self.side.ask(ApiKey.FETCH, 11, body)["responses"]
            [found] = topic["partitions"]
            return found["error_code"], found

        return self.side.retry(attempt)

    # ---- what it has then

    def batches(self) -> Iterator[tuple[RecordBatch, int]]:
        """All batches, and how many records their headers announce."""
        offset = 0
        while records := self.fetch(offset)["records"]:
            counts = [read_header(records, at).records_count for at in whole_batches(records)]
            yield from zip(decode_whole_batches(records), counts, strict=True)
            offset = read_header(records, whole_batches(records)[-1]).last_offset + 1

    def number(self, producer_id: int) -> int | str:
        """Producer ids by the name of their producer: their numbers differ between brokers."""
        names = {me.producer_id: name for name, me in self.producers.items()}
        return names.get(producer_id, "another")

    def log(self) -> list[Any]:
        """All that can be compared: no times of the broker's own clock, and no producer ids."""
        return [self.plain(batch, count) for batch, count in self.batches()]

    def plain(self, batch: RecordBatch, count: int) -> Any:
        has_own_times = batch.attributes & CONTROL
        is_timed = not has_own_times and not batch.attributes & DELETE_HORIZON
        return (
            batch.base_offset,
            batch.last_offset,
            bin(batch.attributes),
            self.number(batch.producer_id),
            batch.producer_epoch,
            batch.base_sequence,
            count,
            batch.base_timestamp if is_timed else "",
            "" if has_own_times else batch.max_timestamp,
            tuple(
                record._replace(timestamp=0) if has_own_times else record
                for record in batch.records
            ),
        )

    def readings(self) -> list[Any]:
        """What readers see: fetches from places in holes, aborted transactions, offsets by time."""
        seen: list[Any] = []
        for offset in range(0, self.end_offset, 3):
            answer = self.fetch(offset, Isolation.READ_COMMITTED)
            found = list(decode_whole_batches(answer["records"] or b""))
            end = found[-1].last_offset if found else -1  # Kafka names some that begin later
            aborted = {
                (self.number(row["producer_id"]), row["first_offset"])
                for row in answer["aborted_transactions"] or ()
                if row["first_offset"] <= end
            }
            first = found[0].base_offset if found else -1
            seen.append((offset, first, end, answer["last_stable_offset"], aborted))
        for isolation in Isolation:
            began_ms = self.start_ms + JUMP_MS // 3  # after all times of markers
            times = [*range(began_ms, self.now_ms, JUMP_MS // 3), self.now_ms, self.now_ms + 1]
            for at in (*times, Timestamp.EARLIEST, Timestamp.LATEST, Timestamp.MAX):
                offset, found_ms, _ = self.list_offset(at, isolation)
                seen.append((at, isolation, offset, found_ms))
        return seen

    def repeats(self, count: int) -> list[Any]:
        """What the idempotent producers are told that send their last batches again."""
        told = []
        for name in ("i0", "i1"):
            for data in self.producers[name].sent[-count:] if name in self.producers else ():
                partition = {"index": 0, "records": data}
                topics = [{"name": self.topic, "partitions": [partition]}]
                body = {
                    "transactional_id": None,
                    "acks": -1,
                    "timeout_ms": 1000,
                    "topics": topics,
                }
                [topic] = self.side.ask(ApiKey.PRODUCE, 9, body)["topics"]
                [row] = topic["partitions"]
                told.append((name, row["error_code"], row["base_offset"]))
        return told

    def plain_index(self, entries: list[AbortedTransaction]) -> list[Any]:
        """Entries of a transaction index."""
        return [(self.number(entry.producer_id), *entry[1:]) for entry in entries]
