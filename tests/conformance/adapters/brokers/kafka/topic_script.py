"""What topics do with settings, batches, deletion and leader epochs, asked of a real broker and of
ours."""

from __future__ import annotations

import time
from typing import Any

from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Timestamp
from impl.protocol.record_batch import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME,
    RecordBatch,
    decode_batch,
    encode_batch,
    read_header,
)
from impl.protocol.schemas import ApiKey
from tests.conformance.adapters.brokers.kafka.compaction_script import RETRIABLE, Side

TOPIC, SET, DELETE, APPEND, SUBTRACT = 2, 0, 1, 2, 3
WAIT_S = 10.0


class TopicScript:
    """Requests about topics, and `seen`, what was answered.

    `epochs_of_a_restart`: by how many epochs the leader of a partition is ahead after a restart.
    """

    def __init__(self, side: Side, prefix: str, epochs_of_a_restart: int) -> None:
        self.side = side
        self.prefix = prefix
        self.step = epochs_of_a_restart
        self.seen: list[Any] = []
        self.marks = 0

    def note(self, *what: Any) -> None:
        self.seen.append(what)

    def name(self, topic: str) -> str:
        return topic if topic.startswith("__") else f"{self.prefix}-{topic}"

    # ---- settings

    def create(self, topic: str, **configs: str) -> None:
        """Create a topic with a partition; settings with _ for dots."""
        rows = [{"name": name.replace("_", "."), "value": text} for name, text in configs.items()]
        row = {
            "name": self.name(topic),
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": rows,
        }
        answer = self.side.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [row], "timeout_ms": 10_000})
        [done] = answer["topics"]
        self.note(topic, configs, done["error_code"], done["error_message"])
        if not done["error_code"]:
            self.ask_leader(topic)

    def ask_leader(self, topic: str) -> None:
        """Wait until the topic has a leader."""
        end_s = time.monotonic() + WAIT_S
        while self.offset(topic, Timestamp.LATEST)["error_code"] in RETRIABLE:
            assert time.monotonic() < end_s
            time.sleep(0.02)

    def change(self, topic: str, name: str, value: str | None, operation: int = SET) -> None:
        row = {"name": name, "config_operation": operation, "value": value}
        resource = {"resource_type": TOPIC, "resource_name": self.name(topic), "configs": [row]}
        body = {"resources": [resource], "validate_only": False}
        [done] = self.side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, body)["responses"]
        self.note(name, value, operation, done["error_code"], done["error_message"])

    def describe(self, topic: str, *names: str) -> None:
        """Settings, after all changes. A broker learns of them in order, and of this one last."""
        self.marks += 1
        mark = str(10_000 + self.marks)
        self.change(topic, "delete.retention.ms", mark)
        end_s = time.monotonic() + WAIT_S
        while (rows := self.settings(topic))["delete.retention.ms"]["value"] != mark:
            assert time.monotonic() < end_s
            time.sleep(0.02)
        for name in names:
            row = rows[name]
            own = [each for each in row["synonyms"] if each["source"] == 1]
            self.note(name, row["value"], row["config_source"], row["config_type"], own)

    def settings(self, topic: str) -> dict[str, Any]:
        row = {"resource_type": TOPIC, "resource_name": self.name(topic)}
        body = {"resources": [row | {"configuration_keys": None}], "include_synonyms": True}
        [found] = self.side.ask(ApiKey.DESCRIBE_CONFIGS, 4, body)["results"]
        return {each["name"]: each for each in found["configs"]}

    def await_coordinator(self, kind: int) -> None:
        """Have the topic of a kind of coordinators created."""
        body = {"key_type": kind, "coordinator_keys": ["g"]}
        end_s = time.monotonic() + WAIT_S
        while True:
            answer = self.side.ask(ApiKey.FIND_COORDINATOR, 4, body)
            if answer["coordinators"][0]["error_code"] not in RETRIABLE:
                return
            assert time.monotonic() < end_s
            time.sleep(0.02)

    def own_settings(self, topic: str, *names: str) -> None:
        """Some settings of a topic, with the kind of their source."""
        found = self.settings(topic)
        self.note(
            topic, [(name, found[name]["value"], found[name]["config_source"]) for name in names]
        )

    # ---- records

    def send(self, topic: str, batch: RecordBatch) -> None:
        """Append a batch, and note how it is stored."""
        asked = {"name": self.name(topic)}
        rows = [{"index": 0, "records": encode_batch(batch)}]
        body = {"acks": -1, "timeout_ms": 5_000, "topics": [asked | {"partitions": rows}]}
        answer = self.side.ask(ApiKey.PRODUCE, 9, body)
        [done] = answer["topics"][0]["partitions"]
        self.note(done["error_code"], done["base_offset"], done["log_append_time_ms"] > 0)
        if not done["error_code"]:
            self.note(*self.stored(topic, done["base_offset"]))

    def stored(self, topic: str, offset: int) -> tuple[Any, ...]:
        """A batch, without what the broker's clock and the codec's library have to do with."""
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1}
        body = {
            "max_wait_ms": 1_000,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "topics": [{"topic": self.name(topic), "partitions": [partition]}],
        }
        answer = self.side.ask(ApiKey.FETCH, 11, body)
        data = bytes(answer["responses"][0]["partitions"][0]["records"])
        header, batch = read_header(data), decode_batch(data)
        has_time = bool(header.attributes & LOG_APPEND_TIME)
        is_same = not has_time and not header.attributes & COMPRESSION_MASK
        return (
            batch._replace(
                partition_leader_epoch=0, max_timestamp=0 if has_time else batch.max_timestamp
            ),
            header.records_count,
            header.crc if is_same else 0,
        )

    def delete(self, topic: str, offset: int, partition: int = 0) -> None:
        row = {"partition_index": partition, "offset": offset}
        topics = [{"name": self.name(topic), "partitions": [row]}]
        body = {"topics": topics, "timeout_ms": 5_000}
        answer = self.side.ask(ApiKey.DELETE_RECORDS, 2, body)
        [done] = answer["topics"][0]["partitions"]
        self.note(topic, offset, ErrorCode(done["error_code"]), done["low_watermark"])

    # ---- leader epochs

    def offset(self, topic: str, timestamp: int) -> Any:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": self.name(topic), "partitions": [partition]}]
        body = {"replica_id": -1, "topics": topics, "timeout_ms": 1_000}
        return self.side.ask(ApiKey.LIST_OFFSETS, 11, body)["topics"][0]["partitions"][0]

    def end_of_epoch(self, topic: str, epoch: int) -> Any:
        partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        topics = [{"topic": self.name(topic), "partitions": [partition]}]
        body = {"replica_id": -1, "topics": topics}
        answer = self.side.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, body)
        return answer["topics"][0]["partitions"][0]

    def look(self, topic: str) -> None:
        """Every kind of offset, and the end of every epoch of a leader."""
        for timestamp in (*Timestamp, 0, 2**60):
            row = self.offset(topic, timestamp)
            found = row["timestamp"], row["offset"], self.plain(row["leader_epoch"])
            self.note(topic, timestamp, row["error_code"], *found)
        for restarts in range(6):
            row = self.end_of_epoch(topic, restarts * self.step)
            self.note(topic, restarts, self.plain(row["leader_epoch"]), row["end_offset"])

    def plain(self, epoch: int) -> int:
        """In restarts."""
        return epoch if epoch < 0 else epoch // self.step

    def restart(self, *topics: str) -> None:
        self.side.restart()
        for topic in topics:
            self.ask_leader(topic)
