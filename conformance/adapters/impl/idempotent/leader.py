"""Drives `impl`'s partition leader, and does what a broker does around it.

Theory of operation. `produce` gets the content of the request; with one replica the high watermark
follows at once. A restart writes log and snapshot as bytes and reads them back. A replica that is
elected was a follower that had fetched the whole log, and truncates the part that is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from conformance.adapters.impl.idempotent.client import UnexpectedEffects
from conformance.adapters.impl.idempotent.messages import (
    PRODUCE_VERSION,
    TOPIC,
    ProducePayload,
    Shared,
    size_of_batch,
)
from conformance.adapters.impl.shared.snapshots import PicklableActor
from conformance.judging.system import Reaction, View
from impl import ApiKey, ErrorCode, PartitionLeader, ProduceOutcome, ReplicaLog
from impl.partition.log_config import LogConfig
from impl.partition.producer_state import UNKNOWN_PRODUCER, ProducerStateEntry
from impl.partition.stored_batch import StoredBatch
from impl.partition.verification import NO_GUARD
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    Record,
    RecordBatch,
    encode_batch,
    read_header,
)
from model.idempotent.configuration import Configuration

BROKER_NOW_MS: Final = 0
NEVER_MS: Final = 2**62
"""A time longer than anything in a trace lasts, in ms."""
REPLICAS: Final = 2
"""The replicas of a partition; all must be in sync. The model's bounds say how long that takes."""


PLAIN_BATCH: Final = encode_batch(RecordBatch((Record(0, 0, None, b"plain"),)))
"""A batch of a producer without idempotence."""


class ImplLeader(PicklableActor):
    """One `PartitionLeader` of a topic with two replicas, and the broker around it.

    `_stored` has every batch that was ever kept, including deleted ones: a follower that fetched
    them all remembers their producers.
    """

    SHARED = frozenset(
        [
            "_k",
            "_codec",
            "_views",
            "_transform",
            "_partition",
            "_producers",
            "_config",
            "_has_one_replica",
            "_entries",
        ]
    )

    def __init__(self, shared: Shared, partition: int) -> None:
        self._k, self._codec, self._views, self._transform = shared
        self._partition = partition
        self._producers = range(self._k.bounds.producer_ids)
        self._config = log_config(self._k)
        self._has_one_replica = self._k.bounds.replicas == 1
        self._entries = [(UNKNOWN_PRODUCER, entry_view(UNKNOWN_PRODUCER)) for _ in self._producers]
        self.reset()

    def reset(self) -> None:
        """Begin with an empty log."""
        self._leader = PartitionLeader(config=self._config, replication_factor=REPLICAS)
        self._stored: list[StoredBatch] = []

    def view(self) -> View:
        """The state of the leader, shaped as LEADER."""
        log, stored = self._leader.log, self._views.stored
        start = log.log_start_offset
        return (
            tuple([stored[batch.data] for batch in log.batches if batch.base_offset >= start]),
            start,
            log.high_watermark,
            self._producers_view(log.producer_states.entries),
        )

    def on_produce(self, request: ProducePayload) -> Reaction:
        """Pass the request's batch to `produce`."""
        outcome = self._produced(request)
        if self._has_one_replica:
            self._replicate()
        self._check_settled(outcome)
        return self._answers(request, outcome)

    def on_produce_then_unreplicated(self, request: ProducePayload, timed_out: int) -> Reaction:
        """Pass the batch to `produce`; then a replica is slow, or no longer in sync."""
        leader = self._leader
        outcome = self._produced(request)
        if timed_out:
            settled = leader.settle(outcome, is_overdue=True)
        else:
            leader.update_in_sync_replicas(1)
            leader.advance_high_watermark(leader.log_end_offset)
            settled = leader.settle(outcome)
            leader.update_in_sync_replicas(REPLICAS)
        if self._has_one_replica:
            self._replicate()
        return self._answers(request, settled or outcome)

    def on_produce_without_replicas(self, request: ProducePayload) -> Reaction:
        """Only one of two replicas is in sync: the broker refuses the batch and writes nothing."""
        self._leader.update_in_sync_replicas(1)
        outcome = self._produced(request)
        self._check_settled(outcome)
        self._leader.update_in_sync_replicas(REPLICAS)
        return self._answers(request, outcome)

    def on_invalid_produce(self, request: ProducePayload) -> Reaction:
        """The broker's clock is so far behind that the broker rejects the records' timestamps."""
        outcome = self._produced(request, now_ms=-NEVER_MS)
        return self._answers(request, outcome)

    def advance_high_watermark(self) -> Reaction:
        """Advance the high watermark to the end of the log."""
        self._replicate()
        return self.view(), ()

    def restart(self) -> Reaction:
        """Write log and snapshot as bytes, and read them back."""
        return self._restarted({self._leader.log_end_offset: self._leader.snapshot()})

    def recover(self, covered: int) -> Reaction:
        """A broker is killed: write the log, and an older snapshot taken where a segment begins, as
        bytes, and read them back."""
        earlier = self._elected(covered)
        flushed = earlier.log_end_offset
        segments = (0, flushed) if covered else (0,)
        snapshots = {flushed: earlier.snapshot()} if covered else {}
        return self._restarted(snapshots, segments, recovery_point=flushed)

    def fail_over(self, kept: int) -> Reaction:
        """A follower that has fetched the whole log becomes leader, after it has truncated
        its log."""
        leader, end = self._leader, end_of(self._stored[:kept])
        replica = ReplicaLog(config=self._config)
        for batch in self._stored:
            leave_out_what_is_later(replica, batch)
            replica.append_as_follower(batch.data, leader.leader_epoch)
        remember_no_plain_writer(self._config)
        replica.advance_high_watermark(leader.high_watermark)
        replica.truncate_to(end, BROKER_NOW_MS)
        self._leader = PartitionLeader(
            log=replica, leader_epoch=leader.leader_epoch + 1, replication_factor=REPLICAS
        )
        if leader.log_start_offset <= end:
            self._leader.delete_records(leader.log_start_offset)
        del self._stored[kept:]
        return self.view(), ()

    def expire_producer(self, producer_id: int) -> Reaction:
        """Advance to the time at which the producer has been silent for too long, and others have
        not. Records have no time here, so producers that have written later get their time for the
        moment. Raises UnexpectedEffects."""
        entries = self._leader.log.producer_states.entries
        others = {other: entry for other, entry in entries.items() if other != producer_id}
        entries.update((o, entry._replace(last_timestamp=NEVER_MS)) for o, entry in others.items())
        due_ms = entries[producer_id].last_timestamp + self._config.producer_id_expiration_ms
        self._leader.remove_expired_producers(due_ms - 1)
        if producer_id not in entries:
            raise UnexpectedEffects(f"producer {producer_id}, 1 ms before its time")
        self._leader.remove_expired_producers(due_ms)
        entries.update((o, others[o]) for o in others if o in entries)
        return self.view(), ()

    def delete_records(self, deleted: int) -> Reaction:
        """Call `delete_records` up to the end of a batch, after it has refused to delete records
        that are not replicated. Raises UnexpectedEffects."""
        refused = self._leader.delete_records(self._leader.high_watermark + 1)
        if refused != (ErrorCode.OFFSET_OUT_OF_RANGE, INVALID_OFFSET):
            raise UnexpectedEffects(f"records are deleted above the high watermark: {refused}")
        last = self._stored[deleted - 1]
        self._leader.delete_records(last.base_offset + last.last_offset_delta + 1)
        return self.view(), ()

    def _produced(self, request: ProducePayload, now_ms: int = BROKER_NOW_MS) -> ProduceOutcome:
        """Pass the request's batch to `produce`, and note the new batches of the log."""
        leader, body = self._leader, request.body
        log = leader.log
        before = log.log_end_offset
        records = body["topics"][0]["partitions"][0]["records"]
        guard = self._guard(records) if body["transactional_id"] else NO_GUARD
        outcome = leader.produce(records, required_acks=body["acks"], now_ms=now_ms, guard=guard)
        if log.log_end_offset > before:
            self._stored.append(log.batches[-1])
        return outcome

    def _check_settled(self, outcome: ProduceOutcome) -> None:
        """Check when the request is answered: at once if it is refused or waits for no replica,
        else once replicas have the batch. Raises UnexpectedEffects."""
        is_over = outcome.error or outcome.required_offset <= self._leader.high_watermark
        settled = self._leader.settle(outcome)
        if settled != (outcome if is_over else None):
            raise UnexpectedEffects(f"{outcome} is answered {settled}")

    def _guard(self, records: bytes) -> int:
        """The guard with which a transactional batch is appended, once the coordinator has
        agreed."""
        header = read_header(records)
        return self._leader.begin_verification(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            supports_epoch_bump=False,
            now_ms=BROKER_NOW_MS,
        ).guard

    def _replicate(self) -> None:
        """The followers fetch the whole log. With one replica in the model this happens at once."""
        log = self._leader.log
        log.advance_high_watermark(log.log_end_offset)

    def _restarted(
        self,
        snapshots: dict[int, bytes],
        segments: tuple[int, ...] = (),
        recovery_point: int | None = None,
    ) -> Reaction:
        leader = self._leader
        self._leader = PartitionLeader.restart(
            [b"".join(batch.data for batch in leader.batches)],
            snapshots,
            leader_epoch=leader.leader_epoch + 1,
            high_watermark=leader.high_watermark,
            log_start_offset=leader.log_start_offset,
            now_ms=BROKER_NOW_MS,
            config=self._config,
            replication_factor=REPLICAS,
            segments=segments,
            recovery_point=recovery_point,
        )
        return self.view(), ()

    def _elected(self, kept: int) -> PartitionLeader:
        leader, stored = self._leader, self._stored[:kept]
        end = end_of(stored)
        elected = PartitionLeader.elect(
            stored,
            leader_epoch=leader.leader_epoch + 1,
            high_watermark=min(leader.high_watermark, end),
            config=self._config,
            replication_factor=REPLICAS,
        )
        if leader.log_start_offset <= end:
            elected.delete_records(leader.log_start_offset)
        return elected

    def _answers(self, request: ProducePayload, outcome: ProduceOutcome) -> Reaction:
        row = {
            "index": self._partition,
            "error_code": outcome.error,
            "base_offset": outcome.base_offset,
            "log_append_time_ms": outcome.log_append_time_ms,
            "log_start_offset": outcome.log_start_offset,
        }
        body = {"topics": [{"name": TOPIC, "partitions": [row]}]}
        correlation_id = request.correlation_id
        answer = self._codec.response(PRODUCE_VERSION, ApiKey.PRODUCE, correlation_id, body)
        read = answer.body["topics"][0]["partitions"][0]
        # For an answer that waits for no replica, the model has high watermark 0, and `impl` has
        # -1.
        required_offset = 0 if outcome.error else max(outcome.required_offset, 0)
        view = (
            request.view[4],
            int(read["error_code"]),
            read["base_offset"],
            required_offset,
            read["log_start_offset"],
        )
        return self.view(), ((view, self._transform(answer)),)

    def _producers_view(self, entries: Mapping[int, ProducerStateEntry]) -> View:
        """The view of the producers. An append replaces entries, so the same entry has the same
        view."""
        views = []
        for producer in self._producers:
            entry = entries.get(producer, UNKNOWN_PRODUCER)
            known, view = self._entries[producer]
            if known is not entry:
                view = entry_view(entry)
                self._entries[producer] = entry, view
            views.append(view)
        return tuple(views)


def end_of(stored: Sequence[StoredBatch]) -> int:
    """The offset after the last of these batches."""
    return stored[-1].base_offset + stored[-1].last_offset_delta + 1 if stored else 0


def leave_out_what_is_later(replica: ReplicaLog, batch: StoredBatch) -> None:
    """A leader of the epoch before the batch's own sends the batch: a follower must leave it out
    (KAFKA-18723). Raises UnexpectedEffects."""
    asked_epoch = read_header(batch.data).partition_leader_epoch - 1
    replica.append_as_follower(batch.data, asked_epoch)
    if replica.log_end_offset > batch.base_offset:
        raise UnexpectedEffects(f"a leader of epoch {asked_epoch} gives a batch of a later one")


def remember_no_plain_writer(config: LogConfig) -> None:
    """A follower must keep no producer state for a batch without a producer id. Raises
    UnexpectedEffects."""
    replica = ReplicaLog(config=config)
    replica.append_as_follower(PLAIN_BATCH, 0)
    if replica.producer_states.entries:
        raise UnexpectedEffects(f"of a plain batch it has {replica.producer_states.entries}")


def entry_view(entry: ProducerStateEntry) -> View:
    """A producer state entry, shaped as PRODUCER_STATE_ENTRY."""
    batches = tuple([(b.last_sequence, b.last_offset, b.offset_delta) for b in entry.batches])
    return entry.producer_epoch, batches


def log_config(k: Configuration) -> LogConfig:
    """The topic's settings: a batch of more records than `max_message` is too large for it."""
    if not k.bounds.splits:
        return LogConfig(min_insync_replicas=REPLICAS)
    largest = size_of_batch(k.bounds.max_message)
    return LogConfig(min_insync_replicas=REPLICAS, max_message_bytes=largest)
