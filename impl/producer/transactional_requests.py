"""The requests of a transactional producer: their versions, their queue, and what they carry.

1. At most one of these requests is in flight at any time. Those that wait are sent by priority, and
   in the order of their creation within one.
2. A request is built for the protocol (V1 or V2), producer id and epoch of its creation. All its
   attempts are equal, but a TxnOffsetCommit leaves out the offsets that are acknowledged already.
3. A coordinator is known until an answer, or a lost connection, says that it may have moved.
4. A call of the application has one `CallResult`; its first outcome stands.

Theory of operation: one method of `TxnRequestQueue` creates each request. `head` is the next one,
`pop` takes it out, and `retry` or `look_up` puts it back.
Source: `TransactionManager.pendingRequests`, `TxnRequestHandler` and its subclasses, Kafka 4.3.1;
KIP-98, KIP-360, KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from types import MappingProxyType
from typing import Any, Final

from impl.client.arguments import GroupMetadata, OffsetAndMetadata
from impl.producer.errors import ConfigError, DeliveryError
from impl.producer.in_flight_requests import NO_NODE
from impl.protocol.fields import CoordinatorType, TopicPartition, topic_rows
from impl.protocol.record_batch import ProducerIdAndEpoch
from impl.protocol.schemas import ApiKey

Body = dict[str, Any]
"""A message as `impl.protocol.messages` reads and writes it."""


class Priority(IntEnum):
    """The order in which waiting requests are sent. `TransactionManager.Priority`."""

    FIND_COORDINATOR = 0
    INIT_PRODUCER_ID = 1
    ADD_PARTITIONS_OR_OFFSETS = 2
    END_TXN = 3
    EPOCH_BUMP = 4


NO_GROUP: Final = GroupMetadata("")


class CallResult:
    """The result of a call of the application: once `done`, `error` is None or says why it failed.

    `is_acknowledged`: the application has the result. `TransactionalRequestResult`.
    """

    __slots__ = ("done", "error", "is_acknowledged")

    def __init__(self) -> None:
        self.done = False
        self.error: DeliveryError | None = None
        self.is_acknowledged = False

    def succeed(self) -> None:
        """Mark the call as successful."""
        self.done = True

    def fail(self, error: DeliveryError) -> None:
        """Mark the call as failed, unless it is done already."""
        if not self.done:
            self.done, self.error = True, error

    def acknowledge(self) -> None:
        """Pass the result to the application. Raises the call's error."""
        assert self.done, "only a finished call is acknowledged"
        self.is_acknowledged = True
        if self.error is not None:
            raise self.error


@dataclass(slots=True, eq=False)
class TxnRequest:
    """One request, through all its attempts.

    `coordinator` receives it (None: any node), and `key` is that coordinator's key, or the key of
    the coordinator that FindCoordinator `looks_up`. A failed attempt sets `not_before_ms`.
    `offsets` of a TxnOffsetCommit are those of `group` that are not acknowledged yet.
    """

    api_key: ApiKey
    api_version: int
    priority: Priority
    coordinator: CoordinatorType | None
    key: str
    body: Body
    result: CallResult
    not_before_ms: int = 0
    is_epoch_bump: bool = False
    looks_up: CoordinatorType | None = None
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    group: GroupMetadata = NO_GROUP


NEWEST: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.PRODUCE: 12,
        ApiKey.FIND_COORDINATOR: 6,
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.ADD_PARTITIONS_TO_TXN: 3,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 5,
        ApiKey.END_TXN: 5,
    }
)
"""The newest versions that this producer sends. AddPartitionsToTxn 4 and 5 are for brokers."""

NEWEST_IN_V1: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4}
)
"""The newest versions in V1: from the next version of each on, a request is V2."""

OLDEST: Final[Mapping[ApiKey, int]] = MappingProxyType(
    dict.fromkeys(NEWEST, 0) | {ApiKey.PRODUCE: 3}
)

BUMP_SINCE: Final = 3
"""The first InitProducerId version that bumps the epoch of the producer's id. KIP-360."""


@dataclass(frozen=True, slots=True)
class RequestVersions:
    """The newest version of each API that both the cluster and this producer support."""

    newest: Mapping[ApiKey, int] = field(default_factory=lambda: NEWEST)

    @classmethod
    def of(cls, served: Mapping[int, tuple[int, int]]) -> RequestVersions:
        """From an ApiVersions answer: api key to (oldest, newest) version.

        Raises `ConfigError` if the cluster lacks what a transaction needs.
        """
        newest = {}
        for api_key, mine in NEWEST.items():
            first, last = served.get(api_key, (0, -1))
            newest[api_key] = min(mine, last)
            if newest[api_key] < max(first, OLDEST[api_key]):
                is_served = f"served from {first} to {last}" if last >= 0 else "not served"
                spoken = f"this producer speaks {OLDEST[api_key]} to {mine}"
                what = f"{api_key.name} is {is_served}, {spoken}: upgrade one of them"
                raise ConfigError("transactional_id", what)
        return cls(MappingProxyType(newest))

    def of_api(self, api_key: ApiKey, is_v2: bool) -> int:
        """The version to send in V2, or in V1."""
        newest = self.newest[api_key]
        return newest if is_v2 else min(newest, NEWEST_IN_V1.get(api_key, newest))

    @property
    def supports_bump(self) -> bool:
        """Whether the coordinator bumps the epoch on request."""
        return self.newest[ApiKey.INIT_PRODUCER_ID] >= BUMP_SINCE


def offset_rows(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Body]:
    """Rows of TxnOffsetCommit."""
    return topic_rows(
        (topic, _offset_row(partition, committed))
        for (topic, partition), committed in offsets.items()
    )


def _offset_row(partition: int, committed: OffsetAndMetadata) -> Body:
    return {
        "partition_index": partition,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "committed_metadata": committed.metadata,
    }


class TxnRequestQueue:
    """The waiting requests of one transactional id. Attribute: `is_v2`."""

    def __init__(self, transactional_id: str, versions: RequestVersions) -> None:
        self.transactional_id = transactional_id
        self.versions = versions
        self.is_v2 = False
        self._waiting: list[tuple[Priority, int, TxnRequest]] = []
        self._ticket = count()
        self._coordinators: dict[CoordinatorType, int] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def head(self) -> TxnRequest:
        """The next request; the queue must not be empty."""
        return self._waiting[0][-1]

    def pop(self) -> TxnRequest:
        """Remove and return the head."""
        return heappop(self._waiting)[-1]

    def find(self, api_key: ApiKey) -> TxnRequest | None:
        """A waiting request of this API, if there is one."""
        return next((request for *_, request in self._waiting if request.api_key is api_key), None)

    def take_all(self) -> list[TxnRequest]:
        """Remove and return all requests, the head first."""
        taken = [request for *_, request in sorted(self._waiting)]
        self._waiting.clear()
        return taken

    def retry(self, request: TxnRequest, not_before_ms: int = 0) -> None:
        """Queue the request for another attempt, not before this time, ms."""
        request.not_before_ms = not_before_ms
        heappush(self._waiting, (request.priority, next(self._ticket), request))

    # ---- coordinators

    def coordinator(self, kind: CoordinatorType) -> int:
        """The coordinator's node, `NO_NODE` if it must be looked up."""
        return self._coordinators.get(kind, NO_NODE)

    def set_coordinator(self, kind: CoordinatorType, node_id: int) -> None:
        """Remember the node that FindCoordinator named."""
        self._coordinators[kind] = node_id

    def look_up(self, request: TxnRequest) -> None:
        """Forget the request's coordinator, and queue a lookup.

        Source: `TransactionManager.lookupCoordinator`.
        """
        kind = request.coordinator
        assert kind is not None, "a request for any node has no coordinator"
        self._coordinators.pop(kind, None)
        body: Body = {
            "key": request.key,
            "key_type": int(kind),
            "coordinator_keys": [request.key],
        }
        lookup = self._add(ApiKey.FIND_COORDINATOR, Priority.FIND_COORDINATOR, None, body)
        lookup.key, lookup.looks_up = request.key, kind

    # ---- new requests

    def init_producer_id(
        self, expected: ProducerIdAndEpoch, transaction_timeout_ms: int, *, is_epoch_bump: bool
    ) -> CallResult:
        """`expected` is the producer's current id and epoch, `NO_PRODUCER` the first time."""
        body: Body = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": transaction_timeout_ms,
            **expected._asdict(),
        }
        priority = Priority.EPOCH_BUMP if is_epoch_bump else Priority.INIT_PRODUCER_ID
        request = self._add_for_transaction(ApiKey.INIT_PRODUCER_ID, priority, body)
        request.is_epoch_bump = is_epoch_bump
        return request.result

    def add_partitions(
        self, identity: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> None:
        """V1: before the first Produce to each partition."""
        body: Body = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": identity.producer_id,
            "v3_and_below_producer_epoch": identity.producer_epoch,
            "v3_and_below_topics": topic_rows(partitions),
        }
        priority = Priority.ADD_PARTITIONS_OR_OFFSETS
        self._add_for_transaction(ApiKey.ADD_PARTITIONS_TO_TXN, priority, body)

    def add_offsets(
        self,
        identity: ProducerIdAndEpoch,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
    ) -> CallResult:
        """V1: before TxnOffsetCommit, which its answer triggers; both share the result."""
        body = self._identity_fields(identity) | {"group_id": group.group_id}
        priority = Priority.ADD_PARTITIONS_OR_OFFSETS
        request = self._add_for_transaction(ApiKey.ADD_OFFSETS_TO_TXN, priority, body)
        request.offsets, request.group = offsets, group
        return request.result

    def txn_offset_commit(
        self,
        identity: ProducerIdAndEpoch,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        result: CallResult,
    ) -> CallResult:
        """Commit offsets at the group's coordinator."""
        body = self._identity_fields(identity) | group._asdict() | {"topics": offset_rows(offsets)}
        request = self._add(
            ApiKey.TXN_OFFSET_COMMIT,
            Priority.ADD_PARTITIONS_OR_OFFSETS,
            CoordinatorType.GROUP,
            body,
        )
        request.key, request.result = group.group_id, result
        request.offsets, request.group = offsets, group
        return result

    def end_txn(self, identity: ProducerIdAndEpoch, *, is_commit: bool) -> CallResult:
        """Commit or abort the transaction."""
        body = self._identity_fields(identity) | {"committed": is_commit}
        return self._add_for_transaction(ApiKey.END_TXN, Priority.END_TXN, body).result

    def _identity_fields(self, identity: ProducerIdAndEpoch) -> Body:
        return {"transactional_id": self.transactional_id, **identity._asdict()}

    def _add_for_transaction(self, api_key: ApiKey, priority: Priority, body: Body) -> TxnRequest:
        return self._add(api_key, priority, CoordinatorType.TRANSACTION, body)

    def _add(
        self,
        api_key: ApiKey,
        priority: Priority,
        coordinator: CoordinatorType | None,
        body: Body,
    ) -> TxnRequest:
        version = self.versions.of_api(api_key, self.is_v2)
        key = self.transactional_id
        request = TxnRequest(api_key, version, priority, coordinator, key, body, CallResult())
        self.retry(request)
        return request
