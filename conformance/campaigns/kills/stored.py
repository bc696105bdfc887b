"""The content of the disk: records with the outcome of their transactions, and offsets of groups.

A copy of the directory is opened, so that the judged files are not changed. A broker completes
decided transactions in the copy; then its logs are read, batch by batch. Only markers decide
whether a transaction was committed. The index of aborted transactions and the last stable offset
are conclusions of the broker, and are not used.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from conformance.campaigns.kills.served_broker import fetch_offsets, open_transactions
from conformance.campaigns.kills.workload import (
    GROUP_ROLES,
    LIBRARIES,
    TOPIC,
    TRANSACTIONAL,
    group_id,
)
from impl import Broker
from impl.coordinator.offsets_records import decode_key, decode_value
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.partition.leader import PartitionLeader
from impl.partition.reading import read
from impl.protocol.control_records import ControlType, control_type
from impl.protocol.fields import Isolation
from impl.protocol.record_batch import Record, RecordBatch, decode_whole_batches

FETCH_BYTES: Final = 1 << 20
COMPLETE_S: Final = 20.0
"""The longest time until the markers of decided transactions are written."""
PAUSE_S: Final = 0.05

Place = tuple[str, int]


@dataclass(slots=True)
class StoredLog:
    """One partition: (offset, value) of all records, and of committed ones, in order."""

    written: list[tuple[int, str]] = field(default_factory=list)
    committed: list[tuple[int, str]] = field(default_factory=list)
    producers: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The owners of values by producer id."""


@dataclass(slots=True)
class StoredState:
    """The whole content. `commits` has (partition, offset) of each group, in the order of the
    log."""

    logs: dict[Place, StoredLog] = field(default_factory=dict)
    commits: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    """A broker's answers to OffsetFetch."""
    undecided: list[str] = field(default_factory=list)
    """Transactional ids whose decision was not carried out in time."""


def read_stored(directory: Path, libraries: Iterable[str]) -> StoredState:
    """Read a copy of a directory that no broker serves. Raises `DecodeError`, `OSError`."""
    with tempfile.TemporaryDirectory(prefix="kafka-eos-kills-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(directory, copy)
        with Broker(directory=copy) as kafka:
            port = int(kafka.bootstrap_servers.rpartition(":")[2])
            stored = StoredState(undecided=asyncio.run(_await_markers(port)))
            topics = kafka.cluster.topics
            # A broker that was killed before any member came has no coordinator.
            has_groups = any(topic.name == OFFSETS_TOPIC for topic in topics)
            for group in groups_of(libraries) if has_groups else ():
                stored.offsets[group] = asyncio.run(fetch_offsets(port, group))
            for topic in topics:
                for index, leader in enumerate(topic.partitions):
                    if topic.name == OFFSETS_TOPIC:
                        _read_commits(leader, stored)
                    elif not topic.name.startswith("__"):
                        stored.logs[topic.name, index] = read_log(topic.name, leader)
    return stored


def groups_of(libraries: Iterable[str]) -> list[str]:
    """The groups of these libraries."""
    return [
        group_id(library, role)
        for library in libraries
        for role in LIBRARIES[library]
        if role in GROUP_ROLES
    ]


async def _await_markers(port: int) -> list[str]:
    limit = time.monotonic() + COMPLETE_S
    while True:
        found = [
            row["transactional_id"]
            for row in await open_transactions(port)
            if row["transaction_state"] != "Ongoing"
        ]
        if not found or time.monotonic() > limit:
            return found
        await asyncio.sleep(PAUSE_S)


def read_log(topic: str, leader: PartitionLeader) -> StoredLog:
    """The records of a partition of a topic."""
    log = StoredLog()
    for offset, producer_id, is_committed, record in read_records(leader):
        value = (record.value or b"").decode()
        log.written.append((offset, value))
        if is_committed:
            log.committed.append((offset, value))
        log.producers[producer_id].add(owner_of(topic, value))
    return log


def owner_of(topic: str, value: str) -> str:
    """The producer that wrote a value; producers of one transactional id count as one owner."""
    if topic != TOPIC:
        return topic
    client, instance = value.split("/")[:2], value.split("/")[2]
    return "/".join(client if client[1] == TRANSACTIONAL else [*client, instance])


def read_records(leader: PartitionLeader) -> Iterator[tuple[int, int, bool, Record]]:
    """Offset, producer id, whether it is committed, and the record; markers are left out."""
    open_batches = defaultdict[int, list[int]](list)
    batches = list(_read_batches(leader))
    is_committed = [True] * len(batches)
    for number, batch in enumerate(batches):
        if batch.is_control:
            commits = control_type(batch.records[0], batch.base_offset) == ControlType.COMMIT
            for ended in open_batches.pop(batch.producer_id, ()):
                is_committed[ended] = commits
        elif batch.is_transactional:
            is_committed[number] = False
            open_batches[batch.producer_id].append(number)
    for batch, commits in zip(batches, is_committed, strict=True):
        if not batch.is_control:
            for record in batch.records:
                offset = batch.base_offset + record.offset_delta
                yield offset, batch.producer_id, commits, record


def _read_batches(leader: PartitionLeader) -> Iterator[RecordBatch]:
    offset = leader.log_start_offset
    while True:
        answer = read(
            leader.log,
            offset,
            FETCH_BYTES,
            at_least_one=True,
            isolation=Isolation.READ_UNCOMMITTED,
        )
        batches = list(decode_whole_batches(answer.records))
        if not batches:
            return
        yield from batches
        offset = batches[-1].last_offset + 1


def _read_commits(leader: PartitionLeader, stored: StoredState) -> None:
    for offset, _, is_committed, record in read_records(leader):
        key = decode_key(record.key)
        if key is not None and record.value is not None and is_committed and key.topic == TOPIC:
            committed = decode_value(record.value, offset)
            stored.commits[key.group_id].append((key.partition, committed.offset))
