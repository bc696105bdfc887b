"""Two hundred operations on a broker whose disk crashes, and what must be left of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from impl.broker.durable_cluster import DurableCluster
from impl.coordinator.config import TransactionConfig
from impl.coordinator.group_config import OffsetsConfig
from impl.log.disk import Disk
from impl.partition.consuming import committed_batches
from impl.partition.leader import PartitionLeader
from impl.partition.log_config import LogConfig
from impl.partition.reading import read
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation
from impl.protocol.record_batch import Record, client_batch, decode_batches, encode_batch
from impl.protocol.schemas import ApiKey
from tests.impl.broker.network import Network, Producer

NONE = ErrorCode.NONE
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
LOG = LogConfig(flush_messages=1, segment_bytes=1500)
PLACES = (("t", 0), ("t", 1))
COMPACTED = ("c", 0)
COMPACTED_TOPIC = {
    "name": "c",
    "num_partitions": 1,
    "replication_factor": 1,
    "configs": [
        {"name": "cleanup.policy", "value": "compact"},
        {"name": "segment.bytes", "value": "400"},
        {"name": "delete.retention.ms", "value": "0"},
        {"name": "min.cleanable.dirty.ratio", "value": "0.3"},
    ],
}
NOW_MS = 1_000_000


def started(disk: Disk) -> Network:
    """A node on this disk, all of whose prepared transactions are complete."""
    cluster = DurableCluster(disk, "c", LOG, lambda: NOW_MS)
    network = Network(
        cluster=cluster,
        log=LOG,
        transactions=TransactionConfig(num_partitions=1, transaction_version=2, segment_bytes=1500),
        offsets=OffsetsConfig(num_partitions=1, segment_bytes=1500),
        log_cleaner_backoff_ms=50,
    )
    network.run(100)
    return network


def init_idempotent(network: Network) -> int:
    answer = network.ask(
        ApiKey.INIT_PRODUCER_ID, 5, {"transactional_id": None, "transaction_timeout_ms": 1000}
    )
    assert answer["error_code"] == NONE, answer
    return int(answer["producer_id"])


def produce(network: Network, place: tuple[str, int], batch: bytes, tid: str | None = None) -> Any:
    """The answer's row for one partition."""
    row = {"name": place[0], "partitions": [{"index": place[1], "records": batch}]}
    body = {"transactional_id": tid, "acks": -1, "timeout_ms": 1000, "topics": [row]}
    return network.ask(ApiKey.PRODUCE, 12, body)["topics"][0]["partitions"][0]


def key_of(value: int) -> bytes:
    """In the compacted topic."""
    return b"k%d" % (value % 5)


def content_of(value: int) -> bytes | None:
    """In the compacted topic; None is a tombstone."""
    return b"%d" % value if value % 7 % 3 else None


def encode(
    producer_id: int,
    epoch: int,
    sequence: int,
    value: int,
    *,
    is_transactional: bool,
    is_keyed: bool = False,
) -> bytes:
    record = Record(0, NOW_MS, None, b"%d" % value)
    if is_keyed:
        record = Record(0, NOW_MS, key_of(value), content_of(value))
    return encode_batch(
        client_batch(
            [record],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


@dataclass
class Facts:
    """What was acknowledged, and what the operation in progress may have done."""

    producer_ids: set[int] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    acked: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    """Values by offset."""
    plain: set[int] = field(default_factory=set)
    committed: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)
    """May be in the log, or not."""
    doubtful_commit: set[int] = field(default_factory=set)
    """May be committed, or not."""
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    offsets: dict[str, set[int]] = field(default_factory=lambda: {"g": {-1}, "h": {-1}})
    """What may be committed for a group."""
    retry: tuple[tuple[str, int], bytes] | None = None
    """The batch in progress of the idempotent producer, in a partition."""
    idempotent: tuple[int, dict[tuple[str, int], int]] | None = None
    """Its producer id, and the next sequences."""


class Workload:
    """`step` does one operation on a network, and updates `facts` when it is acknowledged."""

    def __init__(self, disk: Disk, random: Random) -> None:
        self.disk = disk
        self.network = network = started(disk)
        self.random = random
        self.facts = Facts()
        self.value = 0
        self.refused = 0
        self.open: set[int] = set()
        self.open_offsets: int | None = None
        self.sequences: dict[tuple[str, int], int] = {}
        network.create("t", 1, 1)
        answer = network.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [COMPACTED_TOPIC]})
        assert answer["topics"][0]["error_code"] == NONE, answer
        self.facts.topics |= {"t", "c"}
        self.transactional = Producer(network, v2=True)
        assert self.transactional.init() is NONE
        self.facts.producer_ids.add(self.transactional.producer_id)
        self.idempotent = init_idempotent(network)
        self.facts.producer_ids.add(self.idempotent)
        self.facts.idempotent = (self.idempotent, {})

    def step(self) -> None:
        """One operation, drawn."""
        act = self.random.choices(
            [
                self.send,
                self.send_in_transaction,
                self.end,
                self.commit_offset,
                self.create,
                self.delete_records,
                self.new_id,
                self.checkpoint,
                self.restart,
            ],
            [8, 8, 3, 2, 1, 1, 1, 1, 1],
        )[0]
        act()
        self.facts.doubtful.clear()
        self.facts.doubtful_commit.clear()
        self.facts.retry = None
        self.network.run(50)  # markers

    def next_value(self) -> int:
        self.value += 1
        self.facts.doubtful.add(self.value)
        return self.value

    def is_refused(self, error: int) -> bool:
        """Only a full disk refuses."""
        assert error in (NONE, STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE,
                         ErrorCode.NOT_COORDINATOR), ErrorCode(error)  # fmt: skip
        self.refused += error != NONE
        return error != NONE

    def send(self) -> None:
        place, value = self.random.choice((*PLACES, COMPACTED)), self.next_value()
        producer_id, sequences = self.facts.idempotent or (0, {})
        sequence = sequences.get(place, 0)
        batch = encode(
            producer_id,
            0,
            sequence,
            value,
            is_transactional=False,
            is_keyed=place == COMPACTED,
        )
        self.facts.retry = (place, batch)
        row = produce(self.network, place, batch)
        if not self.is_refused(row["error_code"]):
            self.facts.acked.setdefault(place, {})[row["base_offset"]] = value
            self.facts.plain.add(value)
            sequences[place] = sequence + 1

    def send_in_transaction(self) -> None:
        place, me = self.random.choice((*PLACES, COMPACTED)), self.transactional
        sequence, value = self.sequences.get(place, 0), self.next_value()
        batch = encode(
            me.producer_id,
            me.epoch,
            sequence,
            value,
            is_transactional=True,
            is_keyed=place == COMPACTED,
        )
        row = produce(self.network, place, batch, me.name)
        if not self.is_refused(row["error_code"]):
            self.facts.acked.setdefault(place, {})[row["base_offset"]] = value
            self.open.add(value)
            self.sequences[place] = sequence + 1

    def end(self) -> None:
        """EndTxn; while the disk is full, again and again until it is done."""
        commit = self.random.random() < 0.6
        if not self.open and self.open_offsets is None:
            return
        if commit:
            self.facts.doubtful_commit |= self.open
            self._doubt("g", self.open_offsets)
        error = self.transactional.end(commit=commit)
        if self.is_refused(error):
            return
        if commit:
            self.facts.committed |= self.open
            if self.open_offsets is not None:
                self.facts.offsets["g"] = {self.open_offsets}
        self.open, self.open_offsets, self.sequences = set(), None, {}

    def _doubt(self, group: str, offset: int | None) -> None:
        if offset is not None:
            self.facts.offsets[group] = {*self.facts.offsets[group], offset}

    def commit_offset(self) -> None:
        self.value += 1
        if self.random.random() < 0.5:
            if not self.is_refused(self.transactional.commit_offset(self.value)):
                self.open_offsets = self.value
            return
        row = {"partition_index": 0, "committed_offset": self.value, "committed_metadata": None}
        body = {
            "group_id": "h",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "t", "partitions": [row]}],
        }
        self.network.find_group("h")
        self._doubt("h", self.value)
        answer = self.network.ask(ApiKey.OFFSET_COMMIT, 8, body)
        if not self.is_refused(answer["topics"][0]["partitions"][0]["error_code"]):
            self.facts.offsets["h"] = {self.value}

    def create(self) -> None:
        name = f"new-{len(self.facts.topics)}"
        row = {"name": name, "num_partitions": 1, "replication_factor": 1}
        answer = self.network.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row]})
        if not self.is_refused(answer["topics"][0]["error_code"]):
            self.facts.topics.add(name)

    def delete_records(self) -> None:
        place = self.random.choice(PLACES)
        end = self.network.leader(*place).last_stable_offset
        start = self.random.randint(self.facts.starts.get(place, 0), end)
        before = self.facts.starts.get(place, 0)
        self.facts.starts[place] = max(before, start)  # from now on it may be gone
        row = {"name": place[0], "partitions": [{"partition_index": place[1], "offset": start}]}
        answer = self.network.ask(ApiKey.DELETE_RECORDS, 2, {"topics": [row], "timeout_ms": 1000})
        self.is_refused(answer["topics"][0]["partitions"][0]["error_code"])

    def checkpoint(self) -> None:
        self.network.cluster.checkpoint()

    def restart(self) -> None:
        """A clean stop, and a start on the same disk."""
        cluster = self.network.cluster
        assert isinstance(cluster, DurableCluster)
        cluster.close()
        self.network = self.transactional.network = started(self.disk)

    def new_id(self) -> None:
        producer_id = init_idempotent(self.network)
        assert producer_id not in self.facts.producer_ids
        self.facts.producer_ids.add(producer_id)


def values(leader: PartitionLeader, isolation: Isolation) -> Iterator[tuple[int, int]]:
    """Offset and value of each record that a consumer gets."""
    for at, record in records(leader, isolation):
        yield at, int(record.value or b"")


def records(leader: PartitionLeader, isolation: Isolation) -> Iterator[tuple[int, Record]]:
    """Offset and record of all that a consumer gets."""
    offset = leader.log_start_offset
    while True:
        found = read(leader.log, offset, 1 << 20, at_least_one=True, isolation=isolation)
        batches = list(decode_batches(found.records))
        if not batches:
            return
        aborted = [entry[:2] for entry in found.aborted_transactions]
        kept = (
            committed_batches(batches, aborted)
            if isolation is Isolation.READ_COMMITTED
            else (batch for batch in batches if not batch.is_control)
        )
        for batch in kept:
            for record in batch.records:
                at = batch.base_offset + record.offset_delta
                if at >= leader.log_start_offset:
                    yield at, record
        offset = batches[-1].last_offset + 1


def check(network: Network, facts: Facts) -> None:
    """Hold a node that has recovered to what was acknowledged before the crash."""
    assert {topic.name for topic in network.cluster.topics} >= facts.topics
    for place in PLACES:
        check_partition(network.leader(*place), facts, place)
    check_compacted(network.leader(*COMPACTED), facts)
    assert init_idempotent(network) not in facts.producer_ids, "a producer id is used twice"
    for group, offsets in facts.offsets.items():
        if network.cluster.topics.get("__consumer_offsets") is not None or -1 not in offsets:
            assert fetch_offset(network, group) in offsets, group
    resume(network, facts)


def check_partition(leader: PartitionLeader, facts: Facts, place: tuple[str, int]) -> None:
    stored = list(values(leader, Isolation.READ_UNCOMMITTED))
    by_offset, acked = dict(stored), facts.acked.get(place, {})
    first = max(facts.starts.get(place, 0), leader.log_start_offset)
    assert leader.log_start_offset <= facts.starts.get(place, 0), "more is deleted than was asked"
    for offset, value in acked.items():
        if offset >= first:
            assert by_offset.get(offset) == value, f"{place} lost {value} at {offset}"
    found = [value for _, value in stored]
    assert found == sorted(set(found)), f"{place} has {found}: doubled, or out of order"
    assert set(found) <= set(acked.values()) | facts.doubtful, "never written"
    committed = {value for _, value in values(leader, Isolation.READ_COMMITTED)}
    may_be = facts.plain | facts.committed | facts.doubtful_commit | facts.doubtful
    assert committed <= may_be, f"{committed - may_be} was never committed"
    stable = leader.last_stable_offset
    must_be = facts.plain | facts.committed
    for offset, value in acked.items():
        if first <= offset < stable and value in must_be:
            assert value in committed, f"{value} was committed"


def check_compacted(leader: PartitionLeader, facts: Facts) -> None:
    """Of each key the last committed value is read, or none after a tombstone; offsets stay."""
    acked = facts.acked.get(COMPACTED, {})
    must_be = facts.plain | facts.committed
    may_be = must_be | facts.doubtful_commit | facts.doubtful
    for at, record in records(leader, Isolation.READ_COMMITTED):
        value = acked.get(at)
        if value is None:
            assert at > max(acked, default=-1), f"a record at {at} was never written"
            [value] = facts.doubtful
        assert value in may_be, f"{value} at {at} was never committed"
        assert (record.key, record.value) == (key_of(value), content_of(value)), "offsets moved"
    table = read_table(leader)
    expected: dict[bytes, set[bytes | None]] = {}
    for at, value in sorted(acked.items()):
        key, content = key_of(value), content_of(value)
        if value in must_be and at < leader.last_stable_offset:
            expected[key] = {content}
        elif value in may_be:
            expected.setdefault(key, {None}).add(content)
    for value in facts.doubtful:
        expected.setdefault(key_of(value), {None}).add(content_of(value))
    for key, contents_of_key in expected.items():
        assert table.get(key) in contents_of_key, f"{key!r}: {table.get(key)!r} is read"


def read_table(leader: PartitionLeader) -> dict[bytes | None, bytes]:
    """The last committed value of each key that has one.

    A tombstone is as good as none: the next cleaning may remove it (`delete.retention.ms` is 0).
    """
    found = records(leader, Isolation.READ_COMMITTED)
    last = {record.key: record.value for _, record in found}
    return {key: value for key, value in last.items() if value is not None}


def fetch_offset(network: Network, group: str) -> int:
    network.find_group(group)
    asked = {"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}
    answer = network.ask(ApiKey.OFFSET_FETCH, 9, {"groups": [asked], "require_stable": False})
    return int(answer["groups"][0]["topics"][0]["partitions"][0]["committed_offset"])


def contents(network: Network) -> list[list[tuple[int, int]]]:
    """What stands in each partition."""
    return [list(values(network.leader(*place), Isolation.READ_UNCOMMITTED)) for place in PLACES]


def resume(network: Network, facts: Facts) -> None:
    """The idempotent producer sends its last batch again, and the next one."""
    producer_id, sequences = facts.idempotent or (0, {})
    retried = None
    if facts.retry is not None:
        retried = facts.retry[0]
        assert produce(network, *facts.retry)["error_code"] == NONE
    for place in (*PLACES, COMPACTED):
        sequence = sequences.get(place, 0) + (place == retried)
        batch = encode(
            producer_id,
            0,
            sequence,
            1 << 40,
            is_transactional=False,
            is_keyed=place == COMPACTED,
        )
        assert produce(network, place, batch)["error_code"] == NONE, "the next sequence"
    for place in PLACES:
        stored = [value for _, value in values(network.leader(*place), Isolation.READ_UNCOMMITTED)]
        assert len(stored) == len(set(stored)), "doubled"


@contextmanager
def crash_at_each_write(disk: Any, on_crash: Any) -> Iterator[None]:
    """Call `on_crash` before each write; writes to the copies do not count."""
    disk.on_write = on_crash
    try:
        yield
    finally:
        disk.on_write = lambda: None
