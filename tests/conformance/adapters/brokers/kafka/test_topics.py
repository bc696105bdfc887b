"""Topics: our broker takes, refuses, stores and finds what a real one of 4.3.1 does."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl.partition.log_config import COMPRESSION_TYPES
from impl.protocol.compression import Compression
from impl.protocol.record_batch import (
    LOG_APPEND_TIME,
    Record,
    RecordBatch,
    client_batch,
)
from tests.conformance.adapters.brokers.kafka.test_compaction import OurSide, RealSide
from tests.conformance.adapters.brokers.kafka.topic_script import (
    APPEND,
    DELETE,
    SUBTRACT,
    TopicScript,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NOW_MS = time.time_ns() // 1_000_000 - 60_000

LEVELS = {
    "gzip": ("1", "9", "-1", "0", "10", "-2", "x", " 5 ", "1_0", "+3", "007", " x "),
    "lz4": ("1", "17", "0", "18", "-1", "9"),
    "zstd": ("0", "22", "-131072", "23", "-131073", "-1", "3"),
}
FLAGS = ("true", "TRUE", " False ", "yes", "", "1", "x", "false")
REPLICAS = ("*", "0:1", " 0:1 , 1:2 ", "x", "*,*", "0:1,*", "", "0:1,", "0:1,0:1", ":")
TIMES = ("0", "-1", "5", "99999999999", "9223372036854775808")
SIZES = ("4", "3", "100", "2147483648", "-2147483649")
VALUES = {
    "compression.type": (*COMPRESSION_TYPES, "none", "GZIP", " gzip ", "", "x"),
    "compression.gzip.level": LEVELS["gzip"],
    "compression.lz4.level": LEVELS["lz4"],
    "compression.zstd.level": LEVELS["zstd"],
    "unclean.leader.election.enable": FLAGS,
    "preallocate": FLAGS,
    "segment.index.bytes": SIZES,
    "index.interval.bytes": ("0", *SIZES, "-1"),
    "flush.ms": TIMES,
    "flush.messages": ("1", "0", "77"),
    "file.delete.delay.ms": TIMES,
    "segment.jitter.ms": TIMES,
    "local.retention.ms": ("-2", "-3", *TIMES),
    "local.retention.bytes": ("-2", "-3", *TIMES),
    "leader.replication.throttled.replicas": REPLICAS,
    "follower.replication.throttled.replicas": REPLICAS,
    "remote.storage.enable": ("false", "true", " TRUE", "x"),
    "remote.log.copy.disable": FLAGS,
    "remote.log.delete.on.disable": FLAGS,
    "retention.ms": (" 5 ", "+7", "1_0", "0x5", "007", "5L", "-2", "-1"),
    "retention.bytes": ("-5", "-1", "7"),
    "min.cleanable.dirty.ratio": (".5", " 0.25 ", "1e-1", "nan", "2", "-1", "0.5f", "1e-5", "1"),
    "cleanup.policy": ("compact, delete", "compact,compact", "COMPACT", ",", "", "delete"),
    "message.timestamp.type": (" CreateTime ", "LogAppendTime", "createtime", "CreateTime"),
    "max.message.bytes": ("0", "-1", "1000000"),
    "nope": ("1",),
}


def all_kinds_of_values(s: TopicScript) -> None:
    s.create("t")
    for values in zip_longest(*VALUES.values()):
        for name, value in zip(VALUES, values, strict=True):
            if value is not None:
                s.change("t", name, value)
        s.describe("t", *(VALUES.keys() - {"nope"}))
    for name in VALUES:
        s.change("t", name, None, DELETE)
    for operation, value in ((APPEND, "0:1"), (APPEND, "1:1"), (SUBTRACT, "0:1"), (APPEND, "*")):
        s.change("t", "leader.replication.throttled.replicas", value, operation)
    s.change("t", "compression.type", "gzip", APPEND)
    s.describe("t", "leader.replication.throttled.replicas", "compression.type")


def topics_that_cannot_be(s: TopicScript) -> None:
    s.create("bad", compression_type="x")
    s.create("bad", retention_ms="x", nope="1")
    s.create("bad", remote_storage_enable="true")
    s.create("good", compression_type="zstd", compression_zstd_level="9", preallocate="true")
    s.describe("good", "compression.type", "compression.zstd.level", "preallocate")


def batch(count: int = 3, codec: int = 0, at_ms: int = NOW_MS, **more: int) -> RecordBatch:
    """Its last record is not its newest."""
    headers = (("h", b"x"), ("h", None), ("é", b""))
    records = [
        Record(delta, at_ms + 5 * (delta * 2 % count), b"k%d" % delta, b"v" * 60, headers)
        for delta in range(count)
    ]
    made = client_batch(records, **more)
    return made._replace(attributes=made.attributes | codec)


def batches_get_the_codec_of_their_topic(s: TopicScript) -> None:
    for kind in COMPRESSION_TYPES:
        for time_type in ("CreateTime", "LogAppendTime"):
            topic = f"{kind}-{time_type}"
            s.create(topic, compression_type=kind, message_timestamp_type=time_type)
            for codec in Compression:
                s.send(topic, batch(codec=codec))
            s.send(topic, batch(1, codec=Compression.GZIP))
            s.send(topic, batch(1, at_ms=-1))
            for _ in range(2):  # the second is a duplicate
                s.send(topic, batch(producer_id=7000, producer_epoch=0, base_sequence=0, codec=2))
            s.send(topic, batch(producer_id=7000, producer_epoch=0, base_sequence=3, codec=0))
            s.send(topic, batch(producer_id=7000, producer_epoch=0, base_sequence=9, codec=1))
            s.send(topic, batch(codec=Compression.ZSTD)._replace(max_timestamp=5))
            s.send(topic, batch(codec=Compression.LZ4 | LOG_APPEND_TIME))
            s.send(topic, batch(at_ms=9_000_000_000_000, codec=Compression.GZIP))


def odd_offsets_count_from_zero_after_a_conversion(s: TopicScript) -> None:
    s.create("odd", compression_type="uncompressed")
    odd = batch(2, codec=Compression.GZIP)
    s.send("odd", odd._replace(records=(odd.records[0]._replace(offset_delta=5), odd.records[1])))


def a_batch_may_be_too_large_before_and_after_its_conversion(s: TopicScript) -> None:
    small = {"max_message_bytes": "1000"}
    s.create("plain", compression_type="uncompressed", **small)
    s.send("plain", batch(20, codec=Compression.GZIP))
    s.create("zipped", compression_type="gzip", **small)
    s.send("zipped", batch(20))


def a_changed_codec_is_that_of_the_next_batch(s: TopicScript) -> None:
    s.create("t2", compression_type="gzip")
    s.send("t2", batch())
    s.change("t2", "compression.type", "snappy")
    s.describe("t2", "compression.type")
    s.send("t2", batch())
    s.change("t2", "compression.type", None, DELETE)
    s.describe("t2", "compression.type")
    s.send("t2", batch())


def records_of_a_compacted_topic_are_not_deleted(s: TopicScript) -> None:
    for policy in ("compact", "compact,delete", "delete", ""):
        topic = f"policy-{policy.replace(',', '-')}"
        s.create(topic, cleanup_policy=policy)
        s.send(topic, batch())
        for offset in (1, -5, 99, -1):
            s.delete(topic, offset)
    s.delete("policy-compact", 0, 9)
    s.delete("nope", 0)


def topics_of_coordinators_have_settings(s: TopicScript) -> None:
    for kind in (0, 1):
        s.await_coordinator(kind)
    common = "cleanup.policy", "compression.type", "segment.bytes"
    s.own_settings("__consumer_offsets", *common, "unclean.leader.election.enable")
    s.own_settings("__transaction_state", *common, "unclean.leader.election.enable")
    s.delete("__consumer_offsets", 0)
    s.delete("__consumer_offsets", 0, 99)


def logs_without_records_have_leader_epochs(s: TopicScript) -> None:
    topics = ("empty", "written", "deleted")
    for topic in topics:
        s.create(topic)
    s.send("deleted", batch())
    s.delete("deleted", -1)
    for restarts in range(4):
        for topic in topics:
            s.look(topic)
        if restarts == 1:
            s.send("written", batch())
        if restarts == 2:
            s.send("deleted", batch())
            s.delete("written", -1)
        for topic in topics:
            s.look(topic)
        s.restart(*topics)
    s.send("written", batch())
    s.delete("deleted", -1)
    for topic in topics:
        s.look(topic)


SCRIPTS = [
    all_kinds_of_values,
    topics_that_cannot_be,
    batches_get_the_codec_of_their_topic,
    odd_offsets_count_from_zero_after_a_conversion,
    a_batch_may_be_too_large_before_and_after_its_conversion,
    a_changed_codec_is_that_of_the_next_batch,
    records_of_a_compacted_topic_are_not_deleted,
    topics_of_coordinators_have_settings,
    logs_without_records_have_leader_epochs,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_our_broker_answers_as_a_real_one(
    script: Callable[[TopicScript], None], broker: KafkaBroker, tmp_path: Path
) -> None:
    ours, real = OurSide(tmp_path), RealSide(broker)
    mine, theirs = (TopicScript(ours, script.__name__, 1), TopicScript(real, script.__name__, 2))
    for played in (mine, theirs):
        script(played)
    ours.stop()
    real.connection.close()
    for own, other in zip(mine.seen, theirs.seen, strict=True):
        assert own == other
