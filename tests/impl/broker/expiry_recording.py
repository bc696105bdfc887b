"""What lives and what dies of offsets and groups, and how many members a group takes: steps for any
broker, real or not.

`python -m tests.impl.broker.expiry_recording` records a real one, in two minutes.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.kafka.wait import poll
from impl.coordinator.consumer_group import RecordKind
from impl.coordinator.consumer_group_records import decode_consumer_group_record
from impl.coordinator.group_records import decode_group_key
from impl.coordinator.offsets_records import decode_key
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import Record, RecordBatch, decode_batches
from impl.protocol.schemas import ApiKey as K

RECORDED = Path(__file__).with_name("recorded_expiry") / "kafka-4.3.1.json"
SETTINGS = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "group.max.size": "2",
    "group.consumer.max.size": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.session.timeout.ms": "300000",
    "group.consumer.session.timeout.ms": "300000",
}
"""Of the broker that is asked: a minute is enough, and no member that does nothing goes."""

AT_ONCE = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}

Values = dict[str, Any]
READ = b"\0\0\0\0\0\1\0\4read\xff\xff\xff\xff"
"""A consumer's subscription to the topic `read`."""
TOPICS = ("read", "unread", "gone")
GONE_S = 15.0
"""How long a broker may take to look for what has expired: it should every second."""


class Kafka:
    """A broker; each name has a connection. `wait_until` lets time pass to so many seconds."""

    def __init__(
        self, connect: Callable[[], BrokerConnection], wait_until: Callable[[float], None]
    ) -> None:
        self._connect = connect
        self._connections: dict[str, BrokerConnection] = {}
        self.wait_until = wait_until

    def connection(self, name: str) -> BrokerConnection:
        if name not in self._connections:
            self._connections[name] = self._connect()
        return self._connections[name]

    def ask(self, key: K, version: int, body: Values, name: str = "admin") -> Values:
        answer: Values = self.connection(name).ask(key, version, body)
        return answer

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    # ---- what is there before

    def prepare(self) -> None:
        """Topics, and coordinators that have loaded their logs."""
        rows = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in TOPICS]
        self.ask(K.CREATE_TOPICS, 5, {"topics": rows, "timeout_ms": 10_000})
        asked = {"topics": [{"name": name} for name in TOPICS]}
        self._until_ready(lambda: self.ask(K.METADATA, 9, asked)["topics"])
        for kind in (0, 1):
            body = {"key": "any", "key_type": kind}
            self._until_ready(lambda body=body: [self.ask(K.FIND_COORDINATOR, 3, body)])
        describe = {"groups": ["any"], "include_authorized_operations": False}
        self._until_ready(lambda: self.ask(K.DESCRIBE_GROUPS, 5, describe)["groups"])

    def _until_ready(self, look: Callable[[], list[Values]]) -> None:
        while any(row["error_code"] for row in look()):
            pass

    # ---- members of classic groups

    def send_join(self, group_id: str, name: str, member_id: str = "", **more: Any) -> None:
        version = more.pop("version", 9)
        body = {
            "group_id": group_id,
            "session_timeout_ms": 300_000,
            "rebalance_timeout_ms": 300_000,
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": READ}],
        }
        self.connection(name).send(K.JOIN_GROUP, version, body | more)

    def receive(self, name: str) -> Values:
        return self.connection(name).receive(30_000).body

    def join(self, group_id: str, name: str, member_id: str = "", **more: Any) -> Values:
        self.send_join(group_id, name, member_id, **more)
        return self.receive(name)

    def get_id(self, group_id: str, name: str, **more: Any) -> str:
        joined = self.join(group_id, name, **more)
        assert joined["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
        return str(joined["member_id"])

    def enter(self, group_id: str, **more: Any) -> Values:
        """Become the only member of a group, which is stable then."""
        joined = self.join(group_id, "admin", self.get_id(group_id, "admin", **more), **more)
        assert self.sync(group_id, "admin", joined, **more) == ErrorCode.NONE
        return joined

    def sync(self, group_id: str, name: str, joined: Values, **more: Any) -> int:
        body = {
            "group_id": group_id,
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
            "group_instance_id": None,
            "protocol_type": more.get("protocol_type", "consumer"),
            "protocol_name": "range",
            "assignments": [
                {"member_id": row["member_id"], "assignment": b"\0\0\0\0\0\0\xff\xff\xff\xff"}
                for row in joined["members"]
            ],
        }
        return int(self.ask(K.SYNC_GROUP, 5, body, name)["error_code"])

    def leave(self, group_id: str, member_id: str) -> int:
        row = {"member_id": member_id, "group_instance_id": None, "reason": None}
        answer = self.ask(K.LEAVE_GROUP, 5, {"group_id": group_id, "members": [row]})
        return int(answer["error_code"] or answer["members"][0]["error_code"])

    def beat(self, group_id: str, joined: Values) -> int:
        who = {name: joined[name] for name in ("generation_id", "member_id")}
        body = {"group_id": group_id, "group_instance_id": None} | who
        return int(self.ask(K.HEARTBEAT, 4, body)["error_code"])

    def members(self, group_id: str) -> list[Values]:
        body = {"groups": [group_id], "include_authorized_operations": False}
        [group] = self.ask(K.DESCRIBE_GROUPS, 5, body)["groups"]
        found: list[Values] = group["members"]
        return found

    # ---- members of consumer groups

    def live(self, group_id: str, name: str, epoch: int, **more: Any) -> Values:
        body = {"group_id": group_id, "member_id": name, "member_epoch": epoch} | more
        if epoch == 0:
            first = {"rebalance_timeout_ms": 300_000, "topic_partitions": []}
            body = first | {"subscribed_topic_names": ["read"]} | body
        return self.ask(K.CONSUMER_GROUP_HEARTBEAT, 1, body)

    # ---- offsets

    def commit(self, group_id: str, *places: tuple[str, int], **more: Any) -> None:
        version = more.pop("version", 9)
        row = {"committed_offset": 7, "committed_metadata": ""}
        topics = [
            {"name": topic, "partitions": [row | {"partition_index": index}]}
            for topic, index in places
        ]
        who = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        body = {"group_id": group_id, "topics": topics} | who | more
        answer = self.ask(K.OFFSET_COMMIT, version, body)
        rows = [row for topic in answer["topics"] for row in topic["partitions"]]
        assert not any(row["error_code"] for row in rows), answer

    def commit_as(self, group_id: str, joined: Values, *places: tuple[str, int]) -> None:
        who = {"generation_id_or_member_epoch": joined["generation_id"]}
        self.commit(group_id, *places, **who, member_id=joined["member_id"])

    def begin(self, group_id: str, partition: int) -> Values:
        """Commit an offset of the topic `unread` in a transaction that stays open."""
        name = f"transaction of {group_id}"
        body = {"transactional_id": name, "transaction_timeout_ms": 600_000}
        self.ask(K.FIND_COORDINATOR, 3, {"key": name, "key_type": 1})
        while (answer := self.ask(K.INIT_PRODUCER_ID, 4, body))["error_code"]:
            pass
        ids = {key: answer[key] for key in ("producer_id", "producer_epoch")}
        row = {"partition_index": partition, "committed_offset": 8, "committed_metadata": ""}
        topics = [{"name": "unread", "partitions": [row]}]
        who = {"generation_id": -1, "member_id": "", "group_instance_id": None}
        asked = {"transactional_id": name, "group_id": group_id, "topics": topics} | ids | who
        [topic] = self.ask(K.TXN_OFFSET_COMMIT, 5, asked)["topics"]
        assert not topic["partitions"][0]["error_code"], topic
        return {"transactional_id": name} | ids

    def end(self, transaction: Values, *, commits: bool) -> None:
        answer = self.ask(K.END_TXN, 5, transaction | {"committed": commits})
        assert not answer["error_code"], answer

    def delete_offsets(self, group_id: str, partition: int) -> dict[str, str]:
        """Those of `unread` and `read`; the error of each."""
        rows = [{"partition_index": partition}]
        topics = [{"name": name, "partitions": rows} for name in ("unread", "read")]
        answer = self.ask(K.OFFSET_DELETE, 0, {"group_id": group_id, "topics": topics})
        assert not answer["error_code"], answer
        return {
            topic["name"]: ErrorCode(row["error_code"]).name
            for topic in answer["topics"]
            for row in topic["partitions"]
        }

    # ---- what is there

    def state(self, group_id: str) -> str:
        body = {"groups": [group_id], "include_authorized_operations": False}
        [group] = self.ask(K.DESCRIBE_GROUPS, 5, body)["groups"]
        return str(group["group_state"])

    def picture(self) -> dict[str, Any]:
        """Each group: its state and kind, and its offsets; how many errors a look at it has."""
        listed = self.ask(K.LIST_GROUPS, 5, {"states_filter": [], "types_filter": []})["groups"]
        rows = sorted(listed, key=lambda row: row["group_id"])
        return {row["group_id"]: self._look(row) for row in rows}

    def picture_after(self, seconds: float, gone: Collection[str]) -> dict[str, Any]:
        """The picture after so many seconds, and after these have gone, if they do."""
        self.wait_until(seconds)
        return poll(self.picture, lambda seen: not (seen.keys() | places(seen)) & {*gone}, GONE_S)

    def _look(self, row: Values) -> list[Any]:
        group_id = row["group_id"]
        asked = {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None}
        body = {"groups": [asked], "require_stable": False}
        [fetched] = self.ask(K.OFFSET_FETCH, 9, body)["groups"]
        places = {
            f"{topic['name']}-{each['partition_index']}": each["committed_offset"]
            for topic in fetched["topics"]
            for each in topic["partitions"]
        }
        offsets = dict(sorted(places.items()))
        return [row["group_state"], row["group_type"], row["protocol_type"], offsets]

    def errors(self, *group_ids: str) -> Values:
        """What DescribeGroups and ConsumerGroupDescribe say of groups."""
        body = {"include_authorized_operations": False}
        asked = body | {"groups": list(group_ids)}
        classic = self.ask(K.DESCRIBE_GROUPS, 6, asked)["groups"]
        asked = body | {"group_ids": list(group_ids)}
        consumers = self.ask(K.CONSUMER_GROUP_DESCRIBE, 1, asked)["groups"]
        return {
            row["group_id"]: [
                [each["error_code"], each["error_message"], each["group_state"]]
                for each in (row, other)
            ]
            for row, other in zip(classic, consumers, strict=True)
        }

    def tombstones(self) -> dict[str, list[Any]]:
        """Those that the log of groups has, by group."""
        found: dict[str, list[Any]] = {}
        for record in self._log_of_groups():
            if record.value is None:
                assert record.key is not None
                group_id, what = named(record.key)
                found.setdefault(group_id, []).append(what)
        return {group_id: in_order(found[group_id]) for group_id in sorted(found)}

    def _log_of_groups(self) -> Iterator[Record]:
        at = 0
        while batches := self._fetch(at):
            for batch in batches:
                yield from () if batch.is_control else batch.records
                at = batch.last_offset + 1

    def _fetch(self, offset: int) -> list[RecordBatch]:
        row = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 24}
        body = {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 24,
            "isolation_level": 0,
            "topics": [{"topic": OFFSETS_TOPIC, "partitions": [row]}],
        }
        [topic] = self.ask(K.FETCH, 12, body)["responses"]
        return decode_batches(topic["partitions"][0]["records"] or b"")


def places(picture: Mapping[str, Any]) -> set[str]:
    """The offsets of all groups."""
    return {f"{group_id}/{place}" for group_id, row in picture.items() for place in row[3]}


def named(key: bytes) -> tuple[str, str]:
    """The group and kind of a record."""
    offset = decode_key(key)
    if offset is not None:
        return offset.group_id, f"offset of {offset.topic}-{offset.partition}"
    found = decode_consumer_group_record(key, None)
    if found is not None:
        return found[0], RecordKind(found[1].kind).name
    return decode_group_key(key) or "", "classic group"


def in_order(rows: list[str]) -> list[str]:
    """Offsets that follow each other have no order of their own."""
    runs = groupby(rows, key=lambda row: row.startswith("offset"))
    return [row for is_offset, run in runs for row in (sorted(run) if is_offset else run)]


# ---- what lives and what dies


UNREAD, READ_0, GONE = ("unread", 0), ("read", 0), ("gone", 0)


GONE_AT_ONCE = ("never committed", "never joined", "new, never committed", "deleted topic")
GONE_WHEN_SAID = ("simple, 20 s", "left, 20 s/unread-1")
GONE_AFTER_A_MINUTE = (
    *("left", "left, committed later", "left, 20 s", "connect, left"),
    *("simple", "simple, committed later/unread-0", "deleted topic, and another"),
    *("new/unread-0", "new, left", "new, left, committed later/unread-0"),
    *("reader/unread-0", "open, another partition/unread-0"),
)
GONE_IN_THE_END = (
    *("open", "open, another partition", "open, nothing else", "simple, 90 s"),
    *("simple, committed later", "new, left, committed later"),
)
"""Groups, and offsets of groups, that a picture waits for: a busy machine looks for them late."""


def record_lives(kafka: Kafka) -> Iterator[Any]:
    """Groups of all kinds, and pictures of them before and after their minute."""
    kafka.prepare()
    begin_classic(kafka)
    begin_simple(kafka)
    begin_consumers(kafka)
    unborn = kafka.get_id("never joined", "admin")
    transactions = [
        kafka.begin("open", 0),
        kafka.begin("open, another partition", 1),
        kafka.begin("open, nothing else", 0),
    ]
    kafka.ask(K.DELETE_TOPICS, 5, {"topic_names": ["gone"], "timeout_ms": 10_000})
    yield kafka.picture_after(5, GONE_AT_ONCE)
    yield ErrorCode(kafka.join("never joined", "admin", unborn)["error_code"]).name
    kafka.wait_until(40)
    for name in ("left", "simple", "new, left"):
        kafka.commit(f"{name}, committed later", ("unread", 1))
    yield kafka.picture_after(55, GONE_WHEN_SAID)
    yield kafka.picture_after(75, GONE_AFTER_A_MINUTE)
    for transaction, commits in zip(transactions, (False, False, True), strict=True):
        kafka.end(transaction, commits=commits)
    yield kafka.picture_after(110, GONE_IN_THE_END)
    yield kafka.errors("left", "new, left", "simple", "reader")
    yield kafka.tombstones()


def begin_classic(kafka: Kafka) -> None:
    for name in ("left", "left, committed later", "left, 20 s"):
        joined = kafka.enter(name)
        kafka.commit_as(name, joined, UNREAD)
        assert not kafka.leave(name, joined["member_id"])
    kafka.commit("left, 20 s", ("unread", 1), version=2, retention_time_ms=20_000)
    for name in ("connect", "connect, left"):
        joined = kafka.enter(name, protocol_type="connect")
        kafka.commit_as(name, joined, UNREAD)
    assert not kafka.leave("connect, left", joined["member_id"])
    kafka.commit_as("reader", kafka.enter("reader"), UNREAD, READ_0)
    kafka.commit_as("rebalances", kafka.enter("rebalances"), UNREAD)
    kafka.send_join("rebalances", "waits", kafka.get_id("rebalances", "waits"))
    never = kafka.enter("never committed")
    assert not kafka.leave("never committed", never["member_id"])


def begin_simple(kafka: Kafka) -> None:
    for name in ("simple", "simple, committed later", "open", "open, another partition"):
        kafka.commit(name, UNREAD)
    kafka.commit("simple, 20 s", UNREAD, version=2, retention_time_ms=20_000)
    kafka.commit("simple, 90 s", UNREAD, version=4, retention_time_ms=90_000)
    kafka.commit("deleted topic", GONE)
    kafka.commit("deleted topic, and another", GONE, UNREAD)


def begin_consumers(kafka: Kafka) -> None:
    for name in ("new", "new, left", "new, left, committed later", "new, never committed"):
        joined = kafka.live(name, "one", 0)
        assert not joined["error_code"], joined
        if "never" not in name:
            epoch = {"generation_id_or_member_epoch": joined["member_epoch"]}
            kafka.commit(name, UNREAD, READ_0, **epoch, member_id="one")
        if name != "new":
            assert not kafka.live(name, "one", -1)["error_code"]


# ---- how many members a group takes


def record_sizes(kafka: Kafka) -> Iterator[Any]:
    """Members beyond `group.max.size`, 2, and `group.consumer.max.size`, 4."""
    kafka.prepare()
    yield from refuse_classic(kafka)
    yield from refuse_who_rejoins(kafka)
    yield from refuse_consumers(kafka)
    yield from keep_kind(kafka)


def fill(kafka: Kafka, group_id: str, **more: Any) -> list[str]:
    """Let two members join a classic group, which is stable then; their ids."""
    one = kafka.join(group_id, "one", kafka.get_id(group_id, "one"), **more)
    two = kafka.get_id(group_id, "two")
    kafka.send_join(group_id, "two", two, **more)
    while kafka.beat(group_id, one) != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    first = kafka.join(group_id, "one", one["member_id"], **more)
    second = kafka.receive("two")
    for name, joined in (("one", first), ("two", second)):
        assert not kafka.sync(group_id, name, joined)
    return [first["member_id"], second["member_id"]]


def refuse_classic(kafka: Kafka) -> Iterator[Any]:
    """In a stable group, whoever is not in it."""
    member_ids = fill(kafka, "full")
    for version, more in (
        (9, {}),
        (3, {}),
        (9, {"group_instance_id": "i"}),
        (9, {"member_id": "nobody"}),
        (9, {"protocol_type": "connect"}),
    ):
        yield summary(kafka.join("full", "three", version=version, **more))
    yield kafka.live("full", "four", 0)["error_code"], "a consumer"
    for member_id in member_ids:
        assert kafka.leave("full", member_id) in (0, ErrorCode.UNKNOWN_MEMBER_ID)


def refuse_who_rejoins(kafka: Kafka) -> Iterator[Any]:
    """While a group rebalances, whoever comes last, though it is in it."""
    one, two = fill(kafka, "last", rebalance_timeout_ms=2_000)
    kafka.send_join("last", "one", one, rebalance_timeout_ms=2_000)
    while kafka.beat("last", {"generation_id": 2, "member_id": two}) == ErrorCode.NONE:
        pass
    kafka.send_join("last", "three", version=3, rebalance_timeout_ms=2_000)
    while len(kafka.members("last")) < 3:
        pass
    yield summary(kafka.join("last", "two", two, rebalance_timeout_ms=2_000))
    yield len(kafka.members("last"))
    yield [summary(kafka.receive(name)) for name in ("one", "three")]


def refuse_consumers(kafka: Kafka) -> Iterator[Any]:
    """The fifth member, also one in the place of a static member that is away."""
    for name in ("one", "two", "three"):
        yield kafka.live("full consumers", name, 0)["error_code"]
    static = {"instance_id": "i"}
    yield kafka.live("full consumers", "four", 0, **static)["error_code"]
    for name, more in (("five", {}), ("five", static)):
        refused = kafka.live("full consumers", name, 0, **more)
        yield refused["error_code"], refused["error_message"]
    yield summary(kafka.join("full consumers", "admin"))
    yield kafka.live("full consumers", "four", -2, **static)["error_code"]
    returns = kafka.live("full consumers", "six", 0, **static)
    yield returns["error_code"], returns["error_message"]


def keep_kind(kafka: Kafka) -> Iterator[Any]:
    """A consumer group does not become a classic one that is too large."""
    yield kafka.live("mixed", "native", 0)["error_code"]
    joined = [kafka.join("mixed", "admin", kafka.get_id("mixed", "admin")) for _ in range(3)]
    yield [each["error_code"] for each in joined]
    yield kafka.live("mixed", "native", -1)["error_code"]
    yield kafka.picture()["mixed"][1]
    yield kafka.leave("mixed", joined[0]["member_id"])
    yield kafka.picture()["mixed"][1]


def summary(joined: Values) -> list[Any]:
    """An answer to JoinGroup; ids that are given differ."""
    has_id = joined["member_id"] != ""
    return [ErrorCode(joined["error_code"]).name, has_id, joined["generation_id"]]


# ---- whose offsets can be deleted


def record_deletions(kafka: Kafka) -> Iterator[Any]:
    """OffsetDelete goes by the topics of the last generation, and by all before the first."""
    kafka.prepare()
    for place in (UNREAD, READ_0):
        kafka.commit("g", place, ("unread", 1), ("read", 1))
    yield "simple", kafka.delete_offsets("g", 0)
    kafka.send_join("g", "one", version=3)
    while kafka.state("g") != "PreparingRebalance":
        pass
    yield kafka.state("g"), kafka.delete_offsets("g", 1)
    one = kafka.receive("one")
    yield kafka.state("g"), kafka.delete_offsets("g", 1)
    assert not kafka.sync("g", "one", one)
    kafka.commit_as("g", one, ("unread", 1))
    both = [{"name": "range", "metadata": READ.replace(b"\4read", b"\6unread")}]
    kafka.send_join("g", "two", version=3, protocols=both)
    while kafka.state("g") != "PreparingRebalance":
        pass
    yield kafka.state("g"), kafka.delete_offsets("g", 1)
    yield kafka.leave("g", one["member_id"])
    two = kafka.receive("two")
    assert not kafka.sync("g", "two", two)
    kafka.commit_as("g", two, ("unread", 1), ("read", 1))
    yield kafka.state("g"), kafka.delete_offsets("g", 1)
    yield kafka.leave("g", two["member_id"])
    yield kafka.state("g"), kafka.delete_offsets("g", 1)


# ---- a group that has too many members after a restart


def record_three(kafka: Kafka) -> Iterator[Any]:
    """Three members of a group that is stable."""
    kafka.prepare()
    first, second = fill(kafka, "g", rebalance_timeout_ms=3_000)
    kafka.send_join("g", "three", version=3, rebalance_timeout_ms=3_000)
    while kafka.state("g") != "PreparingRebalance":
        pass
    kafka.send_join("g", "one", first, rebalance_timeout_ms=3_000)
    kafka.send_join("g", "two", second, rebalance_timeout_ms=3_000)
    for name in ("one", "two", "three"):
        joined = kafka.receive(name)
        yield summary(joined), kafka.sync("g", name, joined)


def record_shrunk(kafka: Kafka) -> Iterator[Any]:
    """The same group, of which two members may stay: those that rejoin first."""
    kafka.prepare()
    member_ids = [row["member_id"] for row in kafka.members("g")]
    yield kafka.state("g"), len(member_ids)
    yield [kafka.beat("g", {"generation_id": 3, "member_id": each}) for each in member_ids]
    names = ("one", "two", "three")
    for name, member_id in zip(names, member_ids, strict=True):
        kafka.send_join("g", name, member_id, rebalance_timeout_ms=3_000)
    yield sorted(summary(kafka.receive(name)) for name in names)
    yield kafka.state("g"), len(kafka.members("g"))


# ---- a real broker


RECORDINGS = {
    "lives": ((record_lives, SETTINGS),),
    "sizes": ((record_sizes, SETTINGS),),
    "deletions": ((record_deletions, {"group.initial.rebalance.delay.ms": "2000"}),),
    "shrunk": ((record_three, AT_ONCE), (record_shrunk, AT_ONCE | {"group.max.size": "2"})),
}
"""What a broker is asked with these settings; the second, when it has been started again."""


def record_real(name: str) -> list[Any]:
    """What a broker that is started for it answers."""
    with tempfile.TemporaryDirectory(prefix="kafka-eos-") as folder:
        return [row for phase in RECORDINGS[name] for row in _record_real(Path(folder), *phase)]


def _record_real(
    folder: Path, phase: Callable[[Kafka], Iterator[Any]], settings: Mapping[str, str]
) -> list[Any]:
    with KafkaBroker("4.3.1", folder=folder, properties=settings) as broker:
        began_s = time.monotonic()

        def wait_until(seconds: float) -> None:
            time.sleep(max(0.0, began_s + seconds - time.monotonic()))

        rows = recorded(phase, Kafka(broker.connect, wait_until))
        broker.stop()
        return rows


def recorded(phase: Callable[[Kafka], Iterator[Any]], kafka: Kafka) -> list[Any]:
    """The answers to a part of a recording."""
    try:
        rows: list[Any] = json.loads(json.dumps(list(phase(kafka))))
    finally:
        kafka.close()
    return rows


def text(found: dict[str, list[Any]]) -> str:
    """Recordings as a file has them: a row a line."""
    rows = {
        name: ",\n".join(json.dumps(row, sort_keys=True) for row in each)
        for name, each in found.items()
    }
    return "{\n" + ",\n".join(f'"{name}": [\n{each}\n]' for name, each in rows.items()) + "\n}\n"


def main() -> None:
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(text({name: record_real(name) for name in RECORDINGS}))


if __name__ == "__main__":
    main()
