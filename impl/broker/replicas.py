"""The replicas that an administrator names for a partition.

Source: `ReplicationControlManager.validateManualPartitionAssignment`; answers of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from impl.broker.topic_settings import TopicRefused
from impl.protocol.errors import ErrorCode


def misplaced(problem: str) -> TopicRefused:
    """The refusal of an assignment."""
    return TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def check_replicas(replicas: Sequence[int], brokers: Container[int]) -> None:
    """Raise `TopicRefused` for replicas that no partition may have."""
    if not replicas:
        raise misplaced("The manual partition assignment includes an empty replica list.")
    for node_id, times in Counter(replicas).items():
        if times > 1:
            problem = f"includes the broker {node_id} more than once."
            raise misplaced(f"The manual partition assignment {problem}")
        if node_id not in brokers:
            problem = f"includes broker {node_id}, but no such broker is registered."
            raise misplaced(f"The manual partition assignment {problem}")


def assigned_leader(replicas: Sequence[int], brokers: Container[int]) -> int:
    """The node that is to have a partition: there is one replica. Raises `TopicRefused`."""
    check_replicas(replicas, brokers)
    if len(replicas) > 1:
        raise misplaced("A partition has one replica here.")
    return replicas[0]
