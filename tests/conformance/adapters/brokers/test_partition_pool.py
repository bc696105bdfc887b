"""Partitions that one trace after the other has for itself."""

from itertools import count

import pytest

from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.partition_pool import PartitionOffsets, PartitionPool

pytestmark = pytest.mark.fast


def pool(width: int, most_traces: int = 2) -> PartitionPool:
    """Topics 0, 1, ... of some partitions."""
    names = count()

    def create() -> list[TopicPartition]:
        topic = str(next(names))
        return [(topic, index) for index in range(width)]

    return PartitionPool(create, most_traces)


def test_no_two_traces_have_a_partition_at_a_time() -> None:
    partitions = pool(2)
    taken = [partitions.take(2), partitions.take(1), partitions.take(3)]
    assert len({log.partition for logs in taken for log in logs}) == 6
    assert partitions.created == [(topic, index) for topic in "012" for index in range(2)]


def test_a_partition_serves_so_many_traces_from_where_its_log_ends() -> None:
    partitions = pool(1)
    (first,) = partitions.take(1)
    partitions.give_back(PartitionOffsets(first.partition, start=1, end=5))
    (second,) = partitions.take(1)
    assert second == PartitionOffsets(("0", 0), start=1, end=5)
    assert (second.relative_start(1), second.relative_start(7)) == (0, 2)
    partitions.give_back(second)
    assert partitions.take(1) == [PartitionOffsets(("1", 0))]


def test_logs_start_elsewhere_after_a_crash_unless_the_trace_deleted_more() -> None:
    partitions = pool(2)
    for log in partitions.take(2):
        partitions.give_back(log._replace(start=3, end=4))
    partitions.restart({("0", 0): 0, ("0", 1): 6})
    assert [log.start for log in partitions.take(2)] == [0, 3]
