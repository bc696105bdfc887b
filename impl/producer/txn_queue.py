"""The requests of a transactional producer that wait, and whom they go to.

1. Requests leave by priority, and in the order of their making within one.
2. A request is made for the requests (V1 or V2), producer id and epoch of its making; its attempts
   are all the same, but for a TxnOffsetCommit, which leaves out what is acknowledged.
3. A coordinator is known until an answer, or the lack of one, says that it may be another.

Theory of operation: one method makes each request. `head` is what goes next, `take` takes it out,
and `retry` or `look_up` puts it back. Source: `TransactionManager.pendingRequests`.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from impl.producer.batch import TopicPartition
from impl.producer.connections import NO_NODE
from impl.producer.txn_requests import (
    Body,
    CallResult,
    GroupMetadata,
    OffsetAndMetadata,
    Priority,
    RequestVersions,
    TxnRequest,
    offset_rows,
    topics_of,
)
from impl.protocol.fields import CoordinatorType
from impl.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from impl.protocol.schemas import ApiKey


class ProducerIdAndEpoch(NamedTuple):
    """Who writes; -1 for none."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class TxnQueue:
    """What waits, of one transactional id: see the rules above. Attribute: `is_v2`."""

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
        """What goes next. There must be something."""
        return self._waiting[0][-1]

    def take(self) -> TxnRequest:
        """Take the head out."""
        return heappop(self._waiting)[-1]

    def waiting(self, api_key: ApiKey) -> TxnRequest | None:
        """A request of this API that waits, if there is one."""
        return next((request for *_, request in self._waiting if request.api_key is api_key), None)

    def take_all(self) -> list[TxnRequest]:
        """Take everything out, the head first."""
        taken = [request for *_, request in sorted(self._waiting)]
        self._waiting.clear()
        return taken

    def retry(self, request: TxnRequest, not_before_ms: int = 0) -> None:
        """The request waits for another attempt."""
        request.not_before_ms = not_before_ms
        heappush(self._waiting, (request.priority, next(self._ticket), request))

    # ---- coordinators

    def coordinator(self, kind: CoordinatorType) -> int:
        """The node that coordinates, `NO_NODE` if it must be looked up."""
        return self._coordinators.get(kind, NO_NODE)

    def found(self, kind: CoordinatorType, node_id: int) -> None:
        """FindCoordinator was answered."""
        self._coordinators[kind] = node_id

    def look_up(self, request: TxnRequest) -> None:
        """Forget the request's coordinator, and find it again.

        Source: `TransactionManager.lookupCoordinator`.
        """
        kind = request.coordinator
        assert kind is not None, "a request for any node needs no coordinator"
        self._coordinators.pop(kind, None)
        body: Body = {
            "key": request.key,
            "key_type": int(kind),
            "coordinator_keys": [request.key],
        }
        found = self._new(ApiKey.FIND_COORDINATOR, Priority.FIND_COORDINATOR, None, body)
        found.key, found.looks_up = request.key, kind

    # ---- the making of requests

    def init_producer_id(
        self, expected: ProducerIdAndEpoch, transaction_timeout_ms: int, *, is_epoch_bump: bool
    ) -> CallResult:
        """`expected` is what the producer has; the first time, nothing."""
        body: Body = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": transaction_timeout_ms,
            **expected._asdict(),
        }
        priority = Priority.EPOCH_BUMP if is_epoch_bump else Priority.INIT_PRODUCER_ID
        request = self._to_txn_coordinator(ApiKey.INIT_PRODUCER_ID, priority, body)
        request.is_epoch_bump = is_epoch_bump
        return request.result

    def add_partitions(
        self, identity: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> None:
        """V1: before the first Produce to each."""
        body: Body = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": identity.producer_id,
            "v3_and_below_producer_epoch": identity.producer_epoch,
            "v3_and_below_topics": topics_of(partitions),
        }
        priority = Priority.ADD_PARTITIONS_OR_OFFSETS
        self._to_txn_coordinator(ApiKey.ADD_PARTITIONS_TO_TXN, priority, body)

    def add_offsets(
        self,
        identity: ProducerIdAndEpoch,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
    ) -> CallResult:
        """V1: before TxnOffsetCommit, which its answer makes. The result is that one's."""
        body = self._identified(identity) | {"group_id": group.group_id}
        priority = Priority.ADD_PARTITIONS_OR_OFFSETS
        request = self._to_txn_coordinator(ApiKey.ADD_OFFSETS_TO_TXN, priority, body)
        request.offsets, request.group = offsets, group
        return request.result

    def txn_offset_commit(
        self,
        identity: ProducerIdAndEpoch,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
        result: CallResult,
    ) -> CallResult:
        """To the group's coordinator."""
        body = self._identified(identity) | group._asdict() | {"topics": offset_rows(offsets)}
        request = self._new(
            ApiKey.TXN_OFFSET_COMMIT,
            Priority.ADD_PARTITIONS_OR_OFFSETS,
            CoordinatorType.GROUP,
            body,
        )
        request.key, request.result = group.group_id, result
        request.offsets, request.group = offsets, group
        return result

    def end_txn(self, identity: ProducerIdAndEpoch, *, is_commit: bool) -> CallResult:
        """Commit or abort."""
        body = self._identified(identity) | {"committed": is_commit}
        return self._to_txn_coordinator(ApiKey.END_TXN, Priority.END_TXN, body).result

    def _identified(self, identity: ProducerIdAndEpoch) -> Body:
        return {"transactional_id": self.transactional_id, **identity._asdict()}

    def _to_txn_coordinator(self, api_key: ApiKey, priority: Priority, body: Body) -> TxnRequest:
        return self._new(api_key, priority, CoordinatorType.TRANSACTION, body)

    def _new(
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
