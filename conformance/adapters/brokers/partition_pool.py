"""Partitions that one trace after the other has for itself.

1. A partition is one trace's alone until that ends, and then the next one's. A leader keeps its
   state by producer id, so all that one trace leaves to the next is where the log starts and ends,
   and that is known. So offsets are compared exactly, and a hundred partitions serve a thousand
   traces. (Traces that share a partition at a time could compare offsets only with those that they
   have seen before; a fresh partition for each trace costs 2 ms.)
2. A trace that ended in a difference leaves nobody knows what: its partitions are not given back.
   Nor is a partition used again that has served its number of traces: leaders list all of their
   producers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from conformance.adapters.brokers.kafka.admin import TopicPartition


class PartitionOffsets(NamedTuple):
    """A partition, and where its log starts and ends when a trace gets it."""

    partition: TopicPartition
    start: int = 0
    end: int = 0

    def relative_start(self, offset: int) -> int:
        """The log's start in the numbers of a trace: 0 if it is where it was."""
        return 0 if offset == self.start else offset - self.end


class PartitionPool:
    """`create` makes a topic, whose partitions serve `most_traces` each. `created` are all."""

    def __init__(self, create: Callable[[], Sequence[TopicPartition]], most_traces: int) -> None:
        self.created: list[TopicPartition] = []
        self._create = create
        self._most_traces = most_traces
        self._free: deque[PartitionOffsets] = deque()
        self._used: Counter[TopicPartition] = Counter()

    def has(self, count: int) -> bool:
        """Whether so many are there without another topic."""
        return len(self._free) >= count

    def take(self, count: int) -> list[PartitionOffsets]:
        """So many of them. Raises what `create` raises."""
        while not self.has(count):
            created = self._create()
            self.created += created
            self._free.extend(map(PartitionOffsets, created))
        return [self._free.popleft() for _ in range(count)]

    def give_back(self, log: PartitionOffsets) -> None:
        """A trace has ended as it should, and left this."""
        self._used[log.partition] += 1
        if self._used[log.partition] < self._most_traces:
            self._free.append(log)

    def restart(self, starts: Mapping[TopicPartition, int]) -> None:
        """The broker was away, and the logs start here now."""
        self._free = deque(restarted(log, starts) for log in self._free)


def restarted(log: PartitionOffsets, starts: Mapping[TopicPartition, int]) -> PartitionOffsets:
    """With the log's start after a restart: what was deleted is there again after a crash. Where it
    is the trace itself that deleted more, the start stays."""
    start = starts[log.partition]
    return log._replace(start=start) if start <= log.end else log
