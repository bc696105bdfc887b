"""The leader epochs of a log: the first offset of each.

Two rules:

1. Compaction may take all batches of an epoch, or its first ones; what was known before stays.
2. At the start of the log begins the epoch that holds it; earlier ones are forgotten.

Theory of operation: batches carry their epoch. Only what they no longer tell is remembered, in
`ReplicaLog.known_epochs`. Source: `LeaderEpochFileCache`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from impl.partition.replica_log import ReplicaLog
    from impl.partition.stored_batch import StoredBatch


def leader_epochs(log: ReplicaLog) -> dict[int, int]:
    """The first offset of each leader epoch of the log, ascending."""
    found = dict(log.known_epochs)
    first = 0
    while first < len(log.batches):
        epoch = _epoch_of(log.batches[first])
        found.setdefault(epoch, log.batches[first].base_offset)
        first = bisect_right(log.batches, epoch, lo=first, key=_epoch_of)
    return _since(log.log_start_offset, sorted(found.items()))


def _since(log_start: int, epochs: list[tuple[int, int]]) -> dict[int, int]:
    """`LeaderEpochFileCache.truncateFromStart`."""
    before = [epoch for epoch, start in epochs if start <= log_start]
    at_start = {before[-1]: log_start} if before else {}
    return at_start | {epoch: start for epoch, start in epochs if start > log_start}


def _epoch_of(stored: StoredBatch) -> int:
    return stored.partition_leader_epoch
