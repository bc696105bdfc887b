"""A consumer without a group: it reads all partitions of the topics that it subscribes to.

New partitions, and new topics that match a pattern, are noticed when the metadata is refreshed.
Source: aiokafka's consumers have this; Kafka's own must be in a group to subscribe.
"""

from __future__ import annotations

from typing import NoReturn

from impl.client.arguments import GroupMetadata
from impl.client.connection import Body
from impl.client.errors import IllegalStateError
from impl.consumer.membership import MembershipManager
from impl.coordinator.metadata import TopicPartition as NamedPartition
from impl.protocol.errors import ErrorCode

WITHOUT_GROUP = "a consumer without a group_id: create one with it"


class TopicMembership(MembershipManager):
    """The subscription of a consumer without a group."""

    rejoin_errors: frozenset[ErrorCode] = frozenset()

    @property
    def metadata(self) -> GroupMetadata:
        """Raises `IllegalStateError`."""
        return self._raise()

    @property
    def fetching_identity(self) -> Body:
        """Raises `IllegalStateError`."""
        return self._raise()

    def _raise(self) -> NoReturn:
        raise IllegalStateError(WITHOUT_GROUP)

    def on_refused(self, error: ErrorCode) -> None:
        """No coordinator refuses it anything."""

    def _resubscribe(self) -> None:
        self.request_rebalance()

    async def _leave_group(self) -> None:
        """It is in none."""

    async def _rebalance(self) -> None:
        """Take all partitions of the topics; those that stay are read on."""
        self._needs_rebalance = False
        if self._pattern is not None:
            await self._requests.request_metadata()
        counts = {topic: await self._requests.count_partitions(topic) for topic in self.topics}
        self._watch(self.topics)
        places = {NamedPartition(t, index) for t, n in counts.items() for index in range(n)}
        assigned = self._fetcher.assigned.keys()
        revoked, added = assigned - places, places - assigned
        if revoked:
            await self._call("on_partitions_revoked", revoked)
        self._fetcher.reassign(sorted(places))
        if added:
            await self._call("on_partitions_assigned", added)
