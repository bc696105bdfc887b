"""The leader epochs of a log: the first offset of each.

Three rules:

1. Compaction may take all batches of an epoch, or its first ones; what was known before stays.
2. At the start of the log begins the epoch that holds it; earlier ones are forgotten.
3. The epoch of a leader that has written nothing begins at the end of the log; one that ended
   without records is forgotten.

Theory of operation: batches carry their epoch. Only what they no longer tell is remembered.
Sources: `LeaderEpochFileCache`, `Partition.makeLeader`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from impl.partition.stored_batch import StoredBatch


def find_leader_epochs(
    batches: Sequence[StoredBatch], known: Mapping[int, int], log_start: int
) -> dict[int, int]:
    """The first offset of each leader epoch of a log, ascending; `known` is what it remembers."""
    found = dict(known)
    first = 0
    while first < len(batches):
        epoch = _epoch_of(batches[first])
        found.setdefault(epoch, batches[first].base_offset)
        first = bisect_right(batches, epoch, lo=first, key=_epoch_of)
    return _since(log_start, sorted(found.items()))


def with_leader(
    epochs: Mapping[int, int], leader_epoch: int, log_start: int, log_end: int
) -> dict[int, int]:
    """The epochs of a log that is led under `leader_epoch`. `LeaderEpochFileCache.assign`."""
    if leader_epoch in epochs:
        return dict(epochs)
    written = [(epoch, start) for epoch, start in epochs.items() if start < log_end]
    return _since(log_start, [*written, (leader_epoch, log_end)])


def _since(log_start: int, epochs: list[tuple[int, int]]) -> dict[int, int]:
    """`LeaderEpochFileCache.truncateFromStart`."""
    before = [epoch for epoch, start in epochs if start <= log_start]
    at_start = {before[-1]: log_start} if before else {}
    return at_start | {epoch: start for epoch, start in epochs if start > log_start}


def _epoch_of(stored: StoredBatch) -> int:
    return stored.partition_leader_epoch
