"""Defects of the broker that a run must find: each serves like `kafka-eos serve`, with one defect.

Most of them show only after a kill, which is why they are tested here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

from conformance.campaigns.kills.served_broker import Main, serve_directory
from conformance.campaigns.kills.workload import TOPIC
from impl.coordinator.placement import OFFSETS_TOPIC
from impl.partition.leader import PartitionLeader
from impl.partition.stored_batch import StoredBatch
from impl.protocol.record_batch import CONTROL
from impl.storage import log_directory
from impl.storage.log_directory import LogDirectory
from impl.storage.metadata_log import MetadataLog
from impl.storage.partition_files import PartitionFiles

MARKERS_LOST: Final = 10
"""One of this many markers is not written."""


def answer_before_write(arguments: Sequence[str]) -> None:
    """A batch is written only when the next one comes."""
    write, held = PartitionFiles.append, dict[int, tuple[StoredBatch, int]]()

    def append_late(self: PartitionFiles, stored: StoredBatch, flush_messages: int) -> None:
        late = held.pop(id(self), None)
        if not self.folder.startswith(TOPIC):
            write(self, stored, flush_messages)
            return
        if late is not None:
            write(self, *late)
        held[id(self)] = (stored, flush_messages)

    PartitionFiles.append = append_late  # type: ignore[method-assign]
    serve_directory(arguments)


def forget_producers(arguments: Sequence[str]) -> None:
    """After a restart the broker knows no producer."""
    load = LogDirectory.load

    def load_without(self: LogDirectory, *rest: Any) -> PartitionLeader:
        leader = load(self, *rest)
        leader.log.producer_states.entries.clear()
        return leader

    LogDirectory.load = load_without  # type: ignore[assignment, method-assign]
    serve_directory(arguments)


def remember_one_batch(arguments: Sequence[str]) -> None:
    """After a restart the broker knows only the last batch of each producer, as in Kafka's
    snapshots."""
    log_directory.remember_batches = lambda log: None
    serve_directory(arguments)


def give_ids_again(arguments: Sequence[str]) -> None:
    """Blocks of producer ids are not stored."""
    MetadataLog.store_next_producer_id = lambda *_: None  # type: ignore[method-assign]
    serve_directory(arguments)


def lose_markers(arguments: Sequence[str]) -> None:
    """Some markers are only in memory."""
    write, numbers = PartitionFiles.append, count(1)

    def append_some(self: PartitionFiles, stored: StoredBatch, flush_messages: int) -> None:
        is_marker = stored.attributes & CONTROL and self.folder.startswith(TOPIC)
        if not is_marker or next(numbers) % MARKERS_LOST:
            write(self, stored, flush_messages)

    PartitionFiles.append = append_some  # type: ignore[method-assign]
    serve_directory(arguments)


def lose_offsets(arguments: Sequence[str]) -> None:
    """Offsets of groups are only in memory."""
    write = PartitionFiles.append

    def append_others(self: PartitionFiles, stored: StoredBatch, flush_messages: int) -> None:
        if not self.folder.startswith(OFFSETS_TOPIC):
            write(self, stored, flush_messages)

    PartitionFiles.append = append_others  # type: ignore[method-assign]
    serve_directory(arguments)


_ALL: Final[Sequence[Callable[[Sequence[str]], None]]] = (
    answer_before_write,
    forget_producers,
    remember_one_batch,
    give_ids_again,
    lose_markers,
    lose_offsets,
)
DEFECTS: Final[Mapping[str, Main]] = {defect.__name__: defect for defect in _ALL}
"""The defects by name."""
