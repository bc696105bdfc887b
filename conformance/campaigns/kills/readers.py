"""Checks the directory with other readers: librdkafka over the wire, and the audit of its files.

`stored.py` reads through this project's broker. These two share less code with it. librdkafka
decides by itself which records are committed, from the broker's last stable offset and list of
aborted transactions. The audit reads the files, and checks them by the model's rules of a leader.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from conformance.audit.kinds import KINDS
from conformance.audit.partition_audit import AuditSettings, audit_partition
from conformance.audit.report import conclude
from conformance.audit.segments import find_partitions
from conformance.campaigns.kills.served_broker import (
    BrokerProcess,
    open_transactions,
    serve_directory,
)
from conformance.campaigns.kills.stored import Place, StoredState
from conformance.campaigns.kills.workload import TOPIC
from impl.coordinator.placement import OFFSETS_TOPIC
from model.idempotent.variants import RELEASES

POLL_S: Final = 0.3
MOST_S: Final = 120.0
"""The time-out for one partition."""
RECORDS: Final = 1_000
PAUSE_S: Final = 0.2
LEVELS: Final = ("read_uncommitted", "read_committed")


async def check_wire(directory: Path, stored: StoredState) -> list[str]:
    """Serve a copy, and compare the records that librdkafka reads with the stored ones.

    Open transactions time out before that. Raises `BrokerFailed`, `KafkaException`.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-eos-kills-") as folder:
        shutil.copytree(directory, Path(folder) / "copy")
        broker = BrokerProcess(Path(folder) / "copy", serve_directory, Path(folder) / "log")
        await broker.start()
        try:
            while await open_transactions(broker.port):
                await asyncio.sleep(PAUSE_S)
            return await asyncio.to_thread(lambda: list(_compare(broker.address, stored)))
        finally:
            broker.kill()


def _compare(address: str, stored: StoredState) -> Iterator[str]:
    for level in LEVELS:
        for place, log in stored.logs.items():
            wanted = log.committed if level == "read_committed" else log.written
            found = _read(address, place, level)
            if found != wanted:
                pairs = zip(found, wanted, strict=False)
                same = next((at for at, (one, two) in enumerate(pairs) if one != two), "the end")
                yield (
                    f"{place[0]}-{place[1]}: {level} librdkafka reads {len(found)} records,"
                    f" {len(wanted)} are there; they differ from {same} on"
                )


def _read(address: str, place: Place, level: str) -> list[tuple[int, str]]:
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": "reader",
        "enable.auto.commit": False,
        "isolation.level": level,
        "enable.partition.eof": True,
    }
    consumer, found = Consumer(settings), list[tuple[int, str]]()
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING)])
    try:
        limit = time.monotonic() + MOST_S
        while time.monotonic() < limit:
            for message in consumer.consume(RECORDS, POLL_S):
                error = message.error()
                if error is None:
                    found.append((message.offset() or 0, (message.value() or b"").decode()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise KafkaException(error)
        raise TimeoutError(f"{place}: {len(found)} records and no end after {MOST_S} s")
    finally:
        consumer.close()


def check_audit(directory: Path) -> list[str]:
    """The defects that an audit finds in the files. Raises `OSError`."""
    settings = AuditSettings(next(iter(RELEASES)))
    logs = find_partitions(
        [str(directory)], topics=rf"{TOPIC}|output-.*|__transaction_state|{OFFSETS_TOPIC}"
    )
    result = conclude([audit_partition(log, settings) for log in logs], settings)
    return [
        f"audit: {one.kind} in {one.topic}-{one.partition} at {one.offset}"
        for one in result.findings
        if KINDS[one.kind].is_defect
    ]
