"""Where the replicas of a partition are, who of them leads, and who is in sync.

Four rules:

1. Each replica that runs while its partition has a leader is in sync: all replicas share one log
   (`impl.broker.cluster`), so none lags behind.
2. The leader stays as long as it runs. After it the first replica leads that runs and may lead; in
   an unclean election, the first that runs.
3. A replica may lead that is in sync, or that left when fewer than `min.insync.replicas` stayed:
   such replicas are eligible (KIP-966).
4. Without a leader no replica is in sync.

Sources: `PartitionChangeBuilder`, `StripedReplicaPlacer`,
`ReplicationControlManager.validateManualPartitionAssignment`; answers of 4.3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from impl.broker.topic_refused import TopicRefused
from impl.protocol.errors import ErrorCode


class ReplicaPlacement(NamedTuple):
    """The nodes of a partition's replicas, of which the first is the preferred leader.

    `leader_id` is the node that leads, or that led last: there is a leader if any replica is in
    sync. `in_sync` and `eligible` are parts of `replicas`.
    """

    leader_id: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] = ()

    @classmethod
    def on(cls, replicas: Sequence[int], running: Container[int]) -> ReplicaPlacement:
        """A new partition: the first replica that runs leads, and all that run are in sync."""
        ready = tuple(node_id for node_id in replicas if node_id in running)
        return cls(ready[0] if ready else replicas[0], tuple(replicas), ready)

    @property
    def is_led(self) -> bool:
        """Whether there is a leader."""
        return bool(self.in_sync)

    @property
    def last_leaders(self) -> list[int]:
        """Who led last, if nobody leads. `PartitionRegistration.lastKnownElr`."""
        return [] if self.is_led else [self.leader_id]

    def settle(
        self, running: Container[int], min_in_sync: int, *, is_unclean: bool = False
    ) -> ReplicaPlacement:
        """The placement while these nodes run."""
        ready = tuple(node_id for node_id in self.replicas if node_id in running)
        leader_id = self._choose(ready, is_unclean)
        in_sync = () if leader_id is None else ready
        left = (node_id for node_id in self.in_sync if node_id not in in_sync)
        still = (node_id for node_id in self.eligible if node_id not in in_sync)
        enough = min(min_in_sync, len(self.replicas))
        return ReplicaPlacement(
            self.leader_id if leader_id is None else leader_id,
            self.replicas,
            in_sync,
            () if len(in_sync) >= enough else (*still, *left),
        )

    def _choose(self, ready: Sequence[int], is_unclean: bool) -> int | None:
        """Who of the running replicas leads; None if nobody may."""
        clean = [node_id for node_id in ready if node_id in self.in_sync + self.eligible]
        if self.leader_id in clean:
            return self.leader_id
        return next(iter(clean or (ready if is_unclean else ())), None)

    def prefer(self) -> ReplicaPlacement:
        """The preferred leader leads, if it is in sync."""
        first = self.replicas[0]
        return self._replace(leader_id=first) if first in self.in_sync else self

    def reassign(self, replicas: Sequence[int], running: Container[int]) -> ReplicaPlacement:
        """The placement on other nodes, which have the log at once. A leader among them stays."""
        new = ReplicaPlacement.on(replicas, running)
        return new._replace(leader_id=self.leader_id) if self.leader_id in new.in_sync else new

    def lead_by(self, node_id: int) -> ReplicaPlacement:
        """This node leads; without a replica it gets that of the leader."""
        replicas = self.replicas
        if node_id not in replicas:
            replicas = tuple(node_id if each == self.leader_id else each for each in replicas)
        return ReplicaPlacement(node_id, replicas, (node_id,))


def misplaced(problem: str) -> TopicRefused:
    """The refusal of an assignment."""
    return TopicRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def check_replicas(
    replicas: Sequence[int], registered: Container[int], count: int | None = None
) -> None:
    """Raise `TopicRefused` for replicas that no partition may have.

    `count` is how many the topic's other partitions have; None if there are no others.
    """
    if not replicas:
        raise misplaced("The manual partition assignment includes an empty replica list.")
    for node_id, times in sorted(Counter(replicas).items()):
        if node_id not in registered:
            problem = f"includes broker {node_id}, but no such broker is registered."
            raise misplaced(f"The manual partition assignment {problem}")
        if times > 1:
            problem = f"includes the broker {node_id} more than once."
            raise misplaced(f"The manual partition assignment {problem}")
    if count is not None and count != len(replicas):
        raise misplaced(
            f"The manual partition assignment includes a partition with {len(replicas)}"
            " replica(s), but this is not consistent with previous partitions, which have"
            f" {count} replica(s)."
        )


def check_running(replicas: Sequence[int], running: Container[int], partition: int) -> None:
    """Raise `TopicRefused` for a new partition that nobody could lead."""
    if not any(node_id in running for node_id in replicas):
        raise misplaced(
            f"All brokers specified in the manual partition assignment for partition {partition}"
            " are fenced or in controlled shutdown."
        )


def spread(
    running: Sequence[int], down: Sequence[int], partitions: range, replication_factor: int
) -> list[list[int]]:
    """The replicas of new partitions: each node leads as many; those that are down come last.

    Raises `TopicRefused` if there are fewer nodes than replicas.
    """
    known = len(running) + len(down)
    if replication_factor > known:
        problem = (
            f"Unable to replicate the partition {replication_factor} time(s): The target"
            f" replication factor of {replication_factor} cannot be reached because only {known}"
            " broker(s) are registered or some brokers have all their log directories cordoned."
        )
        raise TopicRefused(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    if not running:
        problem = (
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are"
            " currently fenced or have all their log directories cordoned."
        )
        raise TopicRefused(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    turns = (
        [running[(index + turn) % len(running)] for turn in range(len(running))] + list(down)
        for index in partitions
    )
    return [turn[:replication_factor] for turn in turns]
