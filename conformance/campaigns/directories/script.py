"""Actions of clients at a broker before it stops, as lines of text.

A line is a verb, its arguments, and options as NAME=VALUE. `VERBS` has all verbs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from conformance.adapters.brokers.kafka.wait import wait_until
from conformance.campaigns.directories.client import Client
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CoordinatorType, Timestamp
from impl.protocol.message_form import Value
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey

TRANSACTION_TIMEOUT_MS: Final = 600_000
"""Longer than a broker takes to restart: transactions open at the stop stay open."""
SESSION_TIMEOUT_MS: Final = 300_000
_WAIT_S: Final = 150.0

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
RESOURCES: Final = MappingProxyType(
    {"topic": TOPIC, "broker": BROKER, "client_metrics": CLIENT_METRICS, "group": GROUP}
)
_SET: Final = 0


class BadLine(ValueError):
    """A line of a script that has no meaning; correct it in `scenarios.toml`."""


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """A line of a script."""

    verb: str
    arguments: tuple[str, ...]
    options: Mapping[str, str]

    def number(self, name: str, default: int) -> int:
        """An option that is a number."""
        return int(self.options.get(name, default))


def parse(text: str) -> list[ScriptLine]:
    """The lines of a script. Raises BadLine."""
    lines = []
    for row in filter(None, map(str.strip, text.splitlines())):
        verb, *words = row.split()
        if verb not in VERBS:
            raise BadLine(f"no verb {verb!r} in {row!r}; there are {', '.join(VERBS)}")
        options = dict(word.split("=", 1) for word in words if "=" in word)
        lines.append(ScriptLine(verb, tuple(word for word in words if "=" not in word), options))
    return lines


@dataclass
class _Producer:
    """A producer, with the next sequence of each partition."""

    producer_id: int = -1
    producer_epoch: int = -1
    transactional_id: str | None = None
    sequences: dict[str, int] = field(default_factory=dict)


@dataclass
class Play:
    """Plays a script on a broker whose files are in `data`. Producers have names."""

    client: Client
    data: Path
    producers: dict[str, _Producer] = field(default_factory=dict)
    written: int = 0

    def play(self, text: str) -> None:
        """Play a script. Raises what `Client` raises, BadLine."""
        for line in parse(text):
            VERBS[line.verb](self, line)

    def producer(self, name: str, *, is_transactional: bool) -> _Producer:
        """The producer with this name; it gets its id at its first use."""
        if name not in self.producers:
            transactional_id = name if is_transactional else None
            if is_transactional:
                self.find_coordinator(name, CoordinatorType.TRANSACTION)
            body = {
                "transactional_id": transactional_id,
                "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
            }
            answer = self.client.change(ApiKey.INIT_PRODUCER_ID, body)
            self.producers[name] = _Producer(
                answer["producer_id"], answer["producer_epoch"], transactional_id
            )
        return self.producers[name]

    def find_coordinator(self, key: str, key_type: int = CoordinatorType.GROUP) -> None:
        """Wait for a coordinator; its topic may have to be created."""
        self.client.change(ApiKey.FIND_COORDINATOR, {"key": key, "key_type": key_type})


def split(partition: str) -> tuple[str, int]:
    """A topic and an index."""
    topic, _, index = partition.rpartition("-")
    return topic, int(index)


def one_partition(partition: str, row: Value, name: str = "name") -> list[Value]:
    """The `topics` of a request about one partition."""
    return [{name: split(partition)[0], "partitions": [row]}]


# ---- topics and records


def _create(play: Play, line: ScriptLine) -> None:
    name, count = line.arguments
    configs = [{"name": key, "value": value} for key, value in line.options.items()]
    row = {"name": name, "num_partitions": int(count), "replication_factor": 1, "configs": configs}
    play.client.change(ApiKey.CREATE_TOPICS, {"topics": [row]})
    for index in range(int(count)):
        _offset(play, f"{name}-{index}", Timestamp.LATEST)


def _delete(play: Play, line: ScriptLine) -> None:
    body = {"topic_names": list(line.arguments), "timeout_ms": 10_000}
    play.client.change(ApiKey.DELETE_TOPICS, body)


def _grow(play: Play, line: ScriptLine) -> None:
    name, count = line.arguments
    row = {"name": name, "count": int(count), "assignments": None}
    body = {"topics": [row], "timeout_ms": 10_000, "validate_only": False}
    play.client.change(ApiKey.CREATE_PARTITIONS, body)
    _offset(play, f"{name}-{int(count) - 1}", Timestamp.LATEST)


def _produce(play: Play, line: ScriptLine) -> None:
    """`produce PARTITION BATCHES`: batches of `records`, with keys from `keys`.

    The first batch is `age_ms` old, and each is `apart_ms` younger than the one before.
    """
    partition, count = line.arguments
    name = line.options.get("producer")
    producer = play.producer(name, is_transactional=False) if name else _Producer()
    oldest_ms, apart_ms = line.number("age_ms", 0), line.number("apart_ms", 0)
    for number in range(int(count)):
        options = {**line.options, "age_ms": str(oldest_ms - number * apart_ms)}
        _write(play, producer, partition, ScriptLine(line.verb, line.arguments, options))


def _write(play: Play, producer: _Producer, partition: str, line: ScriptLine) -> None:
    """Write one batch."""
    records = _records(play, line)
    sequence = producer.sequences.get(partition, 0) if producer.producer_id >= 0 else -1
    batch = client_batch(
        records,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        is_transactional=producer.transactional_id is not None,
    )
    batch = batch._replace(attributes=batch.attributes | line.number("codec", 0))
    producer.sequences[partition] = sequence + len(records)
    row = {"index": split(partition)[1], "records": encode_batch(batch)}
    body = {
        "transactional_id": producer.transactional_id,
        "acks": -1,
        "timeout_ms": 10_000,
        "topics": one_partition(partition, row),
    }
    play.client.change(ApiKey.PRODUCE, body)


def _records(play: Play, line: ScriptLine) -> list[Record]:
    now_ms = time.time_ns() // 1_000_000 - line.number("age_ms", 0)
    keys = line.number("keys", 0)
    filling = b"." * line.number("size", 0)
    found = []
    for delta in range(line.number("records", 1)):
        play.written += 1
        number = play.written
        key = b"k%d" % (number % keys) if keys else None
        value = None if "tombstone" in line.options else b"v%d" % number + filling
        headers = () if "bare" in line.options else (("h", b"%d" % number),)
        found.append(Record(delta, now_ms + delta, key, value, headers))
    return found


def _delete_records(play: Play, line: ScriptLine) -> None:
    partition, offset = line.arguments
    row = {"partition_index": split(partition)[1], "offset": int(offset)}
    body = {"topics": one_partition(partition, row), "timeout_ms": 10_000}
    play.client.change(ApiKey.DELETE_RECORDS, body)


# ---- transactions and groups


def _transaction(play: Play, line: ScriptLine) -> None:
    """`transaction ID PARTITION...`: writes a batch to each; `end` is commit, abort or open.

    `group=G` commits an offset of the first partition as well.
    """
    transactional_id, *partitions = line.arguments
    producer = play.producer(transactional_id, is_transactional=True)
    who: Value = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }
    rows = [{"name": split(each)[0], "partitions": [split(each)[1]]} for each in partitions]
    body = {f"v3_and_below_{name}": value for name, value in who.items()}
    body |= {"v3_and_below_transactional_id": transactional_id, "v3_and_below_topics": rows}
    play.client.change(ApiKey.ADD_PARTITIONS_TO_TXN, body)
    for partition in partitions:
        _write(play, producer, partition, line)
    who["transactional_id"] = transactional_id
    group = line.options.get("group")
    if group:
        play.find_coordinator(group)
        play.client.change(ApiKey.ADD_OFFSETS_TO_TXN, {**who, "group_id": group})
        row = _committed(partitions[0], play.written)
        body = {**who, "group_id": group, "topics": one_partition(partitions[0], row)}
        play.client.change(ApiKey.TXN_OFFSET_COMMIT, body)
    if line.options["end"] != "open":
        committed = line.options["end"] == "commit"
        play.client.change(ApiKey.END_TXN, {**who, "committed": committed})


def _committed(partition: str, offset: int) -> Value:
    return {
        "partition_index": split(partition)[1],
        "committed_offset": offset,
        "committed_leader_epoch": 0,
        "committed_metadata": f"m{offset}",
    }


def _commit(play: Play, line: ScriptLine) -> None:
    """`commit GROUP PARTITION OFFSET`: as a client without group management."""
    group, partition, offset = line.arguments
    play.find_coordinator(group)
    topics = one_partition(partition, _committed(partition, int(offset)))
    body = {"group_id": group, "member_id": "", "topics": topics}
    play.client.change(ApiKey.OFFSET_COMMIT, body)


def _join(play: Play, line: ScriptLine) -> None:
    """`join GROUP`: a member of a classic group, which it leads."""
    [group] = line.arguments
    play.find_coordinator(group)
    body = {
        "group_id": group,
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "rebalance_timeout_ms": SESSION_TIMEOUT_MS,
        "member_id": "",
        "group_instance_id": line.options.get("instance"),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff"}],
    }
    answer = play.client.ask(ApiKey.JOIN_GROUP, body)
    if answer["error_code"] == ErrorCode.MEMBER_ID_REQUIRED:
        answer = play.client.change(ApiKey.JOIN_GROUP, {**body, "member_id": answer["member_id"]})
    member = {
        "group_id": group,
        "generation_id": answer["generation_id"],
        "member_id": answer["member_id"],
        "group_instance_id": line.options.get("instance"),
    }
    rows = [{"member_id": member["member_id"], "assignment": b"\0\1\0\0\0\0\xff\xff\xff\xff"}]
    play.client.change(ApiKey.SYNC_GROUP, {**member, "assignments": rows})


def _consume(play: Play, line: ScriptLine) -> None:
    """`consume GROUP TOPIC`: a member of a consumer group (KIP-848), until it has partitions."""
    group, topic = line.arguments
    play.find_coordinator(group)
    body = {
        "group_id": group,
        "member_id": "",
        "member_epoch": 0,
        "rebalance_timeout_ms": SESSION_TIMEOUT_MS,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }

    def joined() -> bool:
        answer = play.client.change(ApiKey.CONSUMER_GROUP_HEARTBEAT, body)
        body.update(member_id=answer["member_id"], member_epoch=answer["member_epoch"])
        given = answer["assignment"]
        if given is not None and given["topic_partitions"]:
            body["topic_partitions"] = given["topic_partitions"]
            play.client.change(ApiKey.CONSUMER_GROUP_HEARTBEAT, body)
            return True
        body["topic_partitions"] = None
        return False

    _await(joined, f"assignment of {group}")


# ---- settings and access


def _set(play: Play, line: ScriptLine) -> None:
    """`set KIND NAME NAME=VALUE...`; of the default of all brokers the name is `-`."""
    kind, name = line.arguments
    rows = [
        {"name": key, "config_operation": _SET, "value": value}
        for key, value in line.options.items()
    ]
    resource = "" if name == "-" else name
    row = {"resource_type": RESOURCES[kind], "resource_name": resource, "configs": rows}
    body = {"resources": [row], "validate_only": False}
    play.client.change(ApiKey.INCREMENTAL_ALTER_CONFIGS, body)


def _scram(play: Play, line: ScriptLine) -> None:
    """`scram USER MECHANISM`: a credential of any password; `removed=1`: without it."""
    [user, mechanism] = line.arguments
    row = {"name": user, "mechanism": int(mechanism)}
    upsertion = {**row, "iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32}
    body = {"deletions": [], "upsertions": [upsertion]}
    if line.options:
        body = {"deletions": [row], "upsertions": []}
    play.client.change(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, body)


def _acl(play: Play, line: ScriptLine) -> None:
    """`acl PRINCIPAL TOPIC OPERATION`."""
    principal, topic, operation = line.arguments
    row = {
        "resource_type": 2,
        "resource_name": topic,
        "resource_pattern_type": line.number("pattern", 3),
        "principal": principal,
        "host": "*",
        "operation": int(operation),
        "permission_type": 3,
    }
    play.client.change(ApiKey.CREATE_ACLS, {"creations": [row]})


def _quota(play: Play, line: ScriptLine) -> None:
    """`quota TYPE ENTITY KEY=VALUE...`; the default entity is `-`."""
    kind, name = line.arguments
    entity = [{"entity_type": kind, "entity_name": None if name == "-" else name}]
    ops = [
        {"key": key, "value": float(value), "remove": False} for key, value in line.options.items()
    ]
    body = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}
    play.client.change(ApiKey.ALTER_CLIENT_QUOTAS, body)


# ---- actions that a broker takes by itself


def _await(holds: Callable[[], object], what: str) -> None:
    wait_until(holds, _WAIT_S, TimeoutError(f"{what}: not within {_WAIT_S:.0f} s"))


def _offset(play: Play, partition: str, timestamp: int) -> int:
    row = {"partition_index": split(partition)[1], "timestamp": timestamp}
    body = {"replica_id": -1, "topics": one_partition(partition, row)}
    answer = play.client.change(ApiKey.LIST_OFFSETS, body)
    return int(answer["topics"][0]["partitions"][0]["offset"])


def _await_start(play: Play, line: ScriptLine) -> None:
    """`await_start PARTITION OFFSET`: wait until the log begins at this offset, or behind it."""
    partition, offset = line.arguments
    _await(lambda: _offset(play, partition, Timestamp.EARLIEST) >= int(offset), partition)


def _await_end(play: Play, line: ScriptLine) -> None:
    """`await_end PARTITION OFFSET`: wait until markers are written, and the log ends at this
    offset."""
    partition, offset = line.arguments
    _await(lambda: _offset(play, partition, Timestamp.LATEST) >= int(offset), partition)


def _await_cleaned(play: Play, line: ScriptLine) -> None:
    """`await_cleaned PARTITION OFFSET`: wait until the cleaner has reached this offset."""
    partition, offset = line.arguments
    topic, index = split(partition)

    def is_cleaned() -> bool:
        path = play.data / "cleaner-offset-checkpoint"
        rows = path.read_text().splitlines() if path.exists() else []
        wanted = f"{topic} {index} "
        return any(
            int(row.removeprefix(wanted)) >= int(offset) for row in rows if row.startswith(wanted)
        )

    _await(is_cleaned, f"cleaning of {partition}")


def _await_file(play: Play, line: ScriptLine) -> None:
    """`await_file GLOB`: wait until the data folder has such a file; `absent=1`: until it has
    none."""
    [pattern] = line.arguments
    is_absent = "absent" in line.options
    _await(lambda: any(play.data.glob(pattern)) != is_absent, pattern)


def _wait(_: Play, line: ScriptLine) -> None:
    """`wait MS`: wait until a segment is old enough to get no more records (`segment.ms`)."""
    time.sleep(int(line.arguments[0]) / 1000)


def _repeat(play: Play, line: ScriptLine) -> None:
    """`repeat COUNT LINE`: play the same line this many times."""
    count, verb, *arguments = line.arguments
    for _ in range(int(count)):
        VERBS[verb](play, ScriptLine(verb, tuple(arguments), line.options))


def _ending(play: Play, line: ScriptLine) -> None:
    """`ending COUNT PARTITION...`: transactions that all end at once; only as the last line.

    A broker that is killed then has not written all of their markers.
    """
    count, *partitions = line.arguments
    for number in range(int(count)):
        opened = ScriptLine("transaction", (f"E{number:03}", *partitions), {"end": "open"})
        _transaction(play, opened)
    for number in range(int(count)):
        producer = play.producers[f"E{number:03}"]
        body = {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "committed": bool(number % 3),
        }
        play.client.send(ApiKey.END_TXN, body)
    play.client.receive()


def _repeat_set(play: Play, line: ScriptLine) -> None:
    """`repeat_set COUNT KIND NAME SETTING`: set it to 1000, 1001 and so on: metadata records."""
    count, kind, name, setting = line.arguments
    for number in range(int(count)):
        _set(play, ScriptLine("set", (kind, name), {setting: str(1_000 + number)}))


VERBS: Final[Mapping[str, Callable[[Play, ScriptLine], None]]] = MappingProxyType(
    {
        "create": _create,
        "delete": _delete,
        "grow": _grow,
        "produce": _produce,
        "delete_records": _delete_records,
        "transaction": _transaction,
        "commit": _commit,
        "join": _join,
        "consume": _consume,
        "set": _set,
        "repeat": _repeat,
        "repeat_set": _repeat_set,
        "ending": _ending,
        "scram": _scram,
        "acl": _acl,
        "quota": _quota,
        "await_start": _await_start,
        "await_end": _await_end,
        "await_cleaned": _await_cleaned,
        "await_file": _await_file,
        "wait": _wait,
    }
)
