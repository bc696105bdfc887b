"""Drives `impl`'s group coordinator with the partition of its offsets, and a broker around them.

Theory of operation: as `leader`, for TxnOffsetCommit instead of Produce. The group coordinator
decides about a commit, its batch goes to the leader with the coordinator as its origin, and what is
in the log is replayed into the coordinator (`replay`). The model has one group and one source
partition, and the group has no consumer.
"""

from __future__ import annotations

from typing import Final

from conformance.adapters.impl.transactions.leader import NOW_MS, AppendDecision, Leader
from conformance.adapters.impl.transactions.messages import (
    GROUP,
    NONE,
    SOURCE,
    UNSTABLE,
    Body,
    Payload,
    Sent,
    TransactionCodec,
    answer_view,
    models_id,
    record_of,
)
from conformance.judging.system import View
from impl import ErrorCode
from impl.broker.group_requests import IMPLICIT_ADD_FROM, error_for_version
from impl.coordinator.effects import SendMarkers
from impl.coordinator.group_config import OffsetsConfig
from impl.coordinator.offsets import OffsetsCoordinator, OffsetToCommit, RowError
from impl.coordinator.offsets_groups import Committer
from impl.coordinator.offsets_records import CommittedOffset, decode_value
from impl.coordinator.offsets_state import GroupOffsets
from impl.partition.rules import TransactionRules
from impl.partition.verification import NO_GUARD
from impl.protocol.record_batch import NO_SEQUENCE, ProducerIdAndEpoch, Record

LOG: Final = 0
"""The one partition of the topic."""
TAKEN: Final = ((0, 0),)
"""The answer to a marker that was written."""


class GroupLeader(Leader):
    """The leader of the group's partition, and the coordinator of the group."""

    def __init__(
        self, codec: TransactionCodec, rules: TransactionRules, partition: int, producer_ids: int
    ) -> None:
        super().__init__(codec, rules, partition, producer_ids)
        self._offsets = OffsetsCoordinator(OffsetsConfig(num_partitions=1))
        self._offsets.begin_loading(LOG)
        self._offsets.load(LOG, ())

    def view(self) -> View:
        """The state of leader and coordinator, shaped as GROUP."""
        return (*super().view(), self._offsets_view())

    def _offsets_view(self) -> View:
        known = self._offsets.find(GROUP, may_be_empty=False)
        assert isinstance(known, GroupOffsets), "it is loaded"
        pending = tuple(
            (models_id(producer_id), said_by(offset))
            for producer_id, offsets in sorted(known.pending.items())
            for offset in offsets.values()
        )
        return (self._fetched(require_stable=False), self._fetched(require_stable=True), pending)

    def _fetched(self, *, require_stable: bool) -> View:
        """The answer to OffsetFetch."""
        [row] = self._offsets.fetch(GROUP, [SOURCE], require_stable=require_stable).rows
        if row.error:
            return UNSTABLE if row.error is ErrorCode.UNSTABLE_OFFSET_COMMIT else row.error.name
        return None if row.offset == NONE else record_of(row.metadata.encode())

    def _said(self, record: Record) -> tuple[int, ...]:
        assert record.value is not None, "nobody deletes offsets"
        return said_by(decode_value(record.value, 0))

    def _verification_view(self, producer_id: int) -> View:
        """The verification state of a producer. Offsets have no sequences: the model has 0."""
        epoch, lowest = super()._verification_view(producer_id)
        return (epoch, 0 if lowest == NO_SEQUENCE else lowest)

    # ---- commits

    def on_offset_commit(self, request: Payload) -> Sent:
        """The commit arrives."""
        return self.on_produce(request)

    def refusals(self) -> tuple[tuple[str, ...], ...]:
        """Empty: only the coordinator writes to this partition."""
        return ()

    def _begin(self, request: Payload) -> AppendDecision:
        """The first checks of the group coordinator."""
        _, body = self._codec.unpack(request)
        is_v2 = request.api_version >= IMPLICIT_ADD_FROM
        producer = ProducerIdAndEpoch(body["producer_id"], body["producer_epoch"])
        if not (is_v2 or self._leader.log.rules.verifies):
            return AppendDecision(ErrorCode.NONE, NO_GUARD, producer)
        begun = self._leader.begin_verification(
            *producer, NO_SEQUENCE, supports_epoch_bump=is_v2, now_ms=NOW_MS
        )
        return AppendDecision(int(begun.error), begun.guard, producer)

    def _refuse(self, request: Payload, error: int) -> Sent:
        """The answer if the transaction coordinator, or the leader itself, has refused the
        commit."""
        return self._failed(request, error_for_version(ErrorCode(error), request.api_version))

    def _append(self, request: Payload, guard: int) -> Sent:
        """The commit's batch is appended, or refused."""
        _, body = self._codec.unpack(request)
        decision = self._offsets.commit_in_transaction(
            body["group_id"],
            Committer(body["generation_id"], body["member_id"], body["group_instance_id"]),
            rows_of(body),
            producer_id=body["producer_id"],
            producer_epoch=body["producer_epoch"],
            now_ms=NOW_MS,
            api_version=request.api_version,
        )
        if decision.batch is None:
            return self._told(request, decision.rows)
        outcome = self._leader.append_as_coordinator(decision.batch, now_ms=NOW_MS, guard=guard)
        if outcome.error:
            return self._failed(request, outcome.error)
        self._take_in()
        return self._told(request, decision.rows)

    def on_marker(self, sent: SendMarkers) -> Sent:
        """WriteTxnMarkers."""
        answers = super().on_marker(sent)
        if answers == TAKEN:
            self._take_in()
        return answers

    def _take_in(self) -> None:
        """Replicate and replay the last append."""
        self._leader.advance_high_watermark(self._leader.log_end_offset)
        self._offsets.replay(LOG, self._leader.batches[-1].data)

    def _failed(self, request: Payload, error: ErrorCode) -> Sent:
        _, body = self._codec.unpack(request)
        rows = [RowError(row.topic, row.partition, error) for row in rows_of(body)]
        version = request.api_version
        return self._told(request, self._offsets.on_append_error(rows, error, txn_version=version))

    def _told(self, request: Payload, rows: tuple[RowError, ...]) -> Sent:
        topics = [
            {
                "name": row.topic,
                "partitions": [{"partition_index": row.partition, "error_code": row.error}],
            }
            for row in rows
        ]
        payload = self._codec.pack_answer(request, {"topics": topics})
        return ((answer_view(request.api_key, self._codec.unpack_answer(payload)[1]), payload),)


def rows_of(body: Body) -> list[OffsetToCommit]:
    """The offsets of a request."""
    return [
        OffsetToCommit(
            topic["name"],
            row["partition_index"],
            row["committed_offset"],
            row["committed_leader_epoch"],
            row["committed_metadata"],
        )
        for topic in body["topics"]
        for row in topic["partitions"]
    ]


def said_by(committed: CommittedOffset) -> tuple[int, ...]:
    """The record that a committed offset stands for."""
    return record_of(committed.metadata.encode())
