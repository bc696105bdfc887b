"""One partition of `__consumer_offsets`, to commit to and to fetch from."""

from typing import Any

from impl.coordinator.group_config import OffsetsConfig
from impl.coordinator.offsets import OffsetsCoordinator, OffsetToCommit
from impl.coordinator.offsets_groups import Committer
from impl.coordinator.offsets_state import GroupOffsets
from impl.partition.leader import PartitionLeader
from impl.protocol.control_records import ControlType
from impl.protocol.errors import ErrorCode

NOW_MS = 1_000
NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
NOBODY = Committer()


class Shard:
    """One partition of `__consumer_offsets`, its leader and the coordinator before it."""

    def __init__(self, config: OffsetsConfig | None = None) -> None:
        self.leader = PartitionLeader()
        self.coordinator = OffsetsCoordinator(config or OffsetsConfig(num_partitions=1))
        self.coordinator.begin_loading(0)
        self.load()

    def load(self) -> None:
        self.coordinator.load(0, (stored.data for stored in self.leader.batches))

    @property
    def offsets(self) -> GroupOffsets:
        offsets = self.coordinator.partitions[0]
        assert offsets is not None
        return offsets

    def commit(
        self, offset: int, *, partition: int = 0, group: str = "g", who: Committer = NOBODY
    ) -> ErrorCode:
        rows = [OffsetToCommit("t", partition, offset)]
        decision = self.coordinator.commit(group, who, rows, now_ms=NOW_MS)
        if decision.batch is not None:
            assert self.leader.append_as_coordinator(decision.batch, now_ms=NOW_MS).error == NONE
            self.coordinator.replay(0, self.leader.batches[-1].data)
        return decision.rows[0].error

    def commit_in_transaction(
        self,
        offset: int,
        *,
        producer_id: int = 1,
        epoch: int = 0,
        partition: int = 0,
        group: str = "g",
        who: Committer = NOBODY,
    ) -> ErrorCode:
        """As the broker does it: verified, judged, appended, taken in."""
        begun = self.leader.begin_verification(
            producer_id, epoch, -1, supports_epoch_bump=True, now_ms=NOW_MS
        )
        if begun.error:
            return begun.error
        decision = self.coordinator.commit_in_transaction(
            group,
            who,
            [OffsetToCommit("t", partition, offset)],
            producer_id=producer_id,
            producer_epoch=epoch,
            now_ms=NOW_MS,
        )
        if decision.batch is not None:
            done = self.leader.append_as_coordinator(
                decision.batch, now_ms=NOW_MS, guard=begun.guard
            )
            if done.error:
                return done.error
            self.coordinator.replay(0, self.leader.batches[-1].data)
        return decision.rows[0].error

    def mark(self, kind: ControlType, *, producer_id: int = 1, epoch: int = 0) -> None:
        done = self.leader.write_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            control_type=kind,
            coordinator_epoch=0,
            now_ms=NOW_MS,
        )
        assert done.error == NONE
        self.coordinator.replay(0, self.leader.batches[-1].data)

    def fetch(self, *, stable: bool = False, group: str = "g", partition: int = 0) -> Any:
        found = self.coordinator.fetch(group, [("t", partition)], require_stable=stable)
        assert found.error == NONE
        (row,) = found.rows
        return row.error or row.offset
