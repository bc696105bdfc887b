"""The offsets that a group has committed: what a consumer asks for, and what it commits.

Both say who the member is, if the consumer is one: a coordinator refuses what a member asks that
its group has gone on without. Source: `CommitRequestManager`, `ConsumerCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from impl.client.arguments import OffsetAndMetadata
from impl.client.connection import Body
from impl.consumer.consumer_requests import ConsumerRequests, only_row
from impl.consumer.errors import RefusedError
from impl.consumer.membership import MembershipManager
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation, TopicPartition, topic_rows
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.record_batch import INVALID_OFFSET
from impl.protocol.schemas import ApiKey

REQUIRE_STABLE_FROM: Final = 7
"""The first OffsetFetch version that can refuse offsets of open transactions."""
MANY_GROUPS_FROM: Final = 8
"""The first OffsetFetch version that asks for several groups."""


class OffsetRequests:
    """Read-only: `group`, the consumer's membership, None without a group; `commits`, how many
    there were.
    """

    def __init__(self, requests: ConsumerRequests, isolation_level: Isolation) -> None:
        self._requests = requests
        self._isolation = isolation_level
        self.group: MembershipManager | None = None
        self.commits = 0

    async def fetch(self, place: TopicPartition) -> OffsetAndMetadata | None:
        """See `Consumer.committed`: its offset."""
        what = f"OffsetFetch of {place}"
        return await self._requests.retry_until_timeout(lambda: self._fetch(place), what)

    async def _fetch(self, place: TopicPartition) -> OffsetAndMetadata | None:
        version = self._requests.cluster.version(ApiKey.OFFSET_FETCH)
        if self._isolation and version < REQUIRE_STABLE_FROM:
            what = f"read_committed needs OffsetFetch {REQUIRE_STABLE_FROM}, not {version}"
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, what)
        group_id = self._requests.group_id
        who = {} if self.group is None else self.group.fetching_identity
        topics = [{"name": place[0], "partition_indexes": [place[1]]}]
        asked = {"group_id": group_id, "topics": topics}
        body = {**asked, "groups": [{**asked, **who}], "require_stable": bool(self._isolation)}
        answer = await self._requests.ask_coordinator(ApiKey.OFFSET_FETCH, body)
        found: Body = answer["groups"][0] if version >= MANY_GROUPS_FROM else answer
        self._requests.check(found["error_code"], f"OffsetFetch of {group_id}")
        row = only_row(found, f"OffsetFetch of {place}")
        self._requests.check(row["error_code"], f"OffsetFetch of {place}")
        if row["committed_offset"] == INVALID_OFFSET:
            return None
        return OffsetAndMetadata(
            row["committed_offset"], row["metadata"] or "", row["committed_leader_epoch"]
        )

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """See `Consumer.commit`."""
        rows = (
            (
                topic,
                {
                    "partition_index": index,
                    "committed_offset": committed.offset,
                    "committed_leader_epoch": committed.leader_epoch,
                    "committed_metadata": committed.metadata,
                },
            )
            for (topic, index), committed in offsets.items()
        )
        topics = self._requests.with_ids(topic_rows(rows))
        if topics:
            await self._requests.retry_until_timeout(lambda: self._commit(topics), "OffsetCommit")
            self.commits += 1

    async def _commit(self, topics: Sequence[Body]) -> None:
        """Commit, but for a topic that was created again since the first attempt."""
        ids = self._requests.cluster.topic_ids
        left = [row for row in topics if row["topic_id"] in (ZERO_UUID, ids.get(row["name"]))]
        who = {"member_id": ""} if self.group is None else self.group.identity
        body = {"group_id": self._requests.group_id, "topics": left, **who}
        names = {row["name"] for row in left}
        answer = await self._requests.ask_coordinator(ApiKey.OFFSET_COMMIT, body, topics=names)
        for topic in answer["topics"]:
            name = self._requests.name_of(topic)
            for row in topic["partitions"]:
                if self.group is not None:
                    self.group.check_commit(row["error_code"], who)
                self._requests.check(row["error_code"], f"OffsetCommit of {name}")
