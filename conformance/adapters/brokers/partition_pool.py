"""A pool of partitions; each serves one trace after the other.

1. A partition belongs to one trace until that ends, and then to the next. A leader keeps its state
   by producer id, so one trace leaves to the next only the start and end of the log, which are
   known. So offsets are compared exactly, and a hundred partitions serve a thousand traces. (If
   traces shared a partition at the same time, offsets could be compared only with those seen
   before; a fresh partition for each trace costs 2 ms.)
2. If a trace ended in a difference, the state of its partitions is unknown: they are not reused. A
   partition that has served its number of traces is not reused either, since leaders list all of
   their producers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from conformance.adapters.brokers.kafka.admin import TopicPartition


class PartitionOffsets(NamedTuple):
    """A partition, and the start and end of its log when a trace gets it."""

    partition: TopicPartition
    start: int = 0
    end: int = 0

    def relative_start(self, offset: int) -> int:
        """The log start offset in the numbers of a trace: 0 if it has not changed."""
        return 0 if offset == self.start else offset - self.end


class PartitionPool:
    """`create` makes a topic, whose partitions serve `most_traces` traces each. `created` has all
    partitions."""

    def __init__(self, create: Callable[[], Sequence[TopicPartition]], most_traces: int) -> None:
        self.created: list[TopicPartition] = []
        self._create = create
        self._most_traces = most_traces
        self._free: deque[PartitionOffsets] = deque()
        self._used: Counter[TopicPartition] = Counter()

    def has(self, count: int) -> bool:
        """Whether this many partitions are free without another topic."""
        return len(self._free) >= count

    def take(self, count: int) -> list[PartitionOffsets]:
        """Takes this many partitions. Raises what `create` raises."""
        while not self.has(count):
            created = self._create()
            self.created += created
            self._free.extend(map(PartitionOffsets, created))
        return [self._free.popleft() for _ in range(count)]

    def give_back(self, log: PartitionOffsets) -> None:
        """A trace has ended as it should, and left the partition in this state."""
        self._used[log.partition] += 1
        if self._used[log.partition] < self._most_traces:
            self._free.append(log)

    def restart(self, starts: Mapping[TopicPartition, int]) -> None:
        """The broker was restarted, and the logs have these start offsets now."""
        self._free = deque(restarted(log, starts) for log in self._free)


def restarted(log: PartitionOffsets, starts: Mapping[TopicPartition, int]) -> PartitionOffsets:
    """The partition with its log start offset after a restart. After a crash, deleted
    records are present again. If the trace itself has deleted more, the start stays as it is."""
    start = starts[log.partition]
    return log._replace(start=start) if start <= log.end else log
