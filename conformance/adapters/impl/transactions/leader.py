"""Drives `impl`'s partition leader in transactions, and does what a broker does around it.

Theory of operation: each rule of the model's leader has a method with its name. A broker first asks
the leader whether a batch must be verified (`_begin`). If the leader returns a guard, the
coordinator is asked, and the batch is then appended with the guard, refused, or held with it. The
one replica has the whole log at once, so the high watermark follows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from conformance.adapters.impl.idempotent.client import UnexpectedEffects
from conformance.adapters.impl.shared.snapshots import PicklableActor
from conformance.adapters.impl.transactions.messages import (
    FIRST_PRODUCER_ID,
    NONE,
    TRANSACTIONAL,
    Body,
    Payload,
    Sent,
    TransactionCodec,
    answer_view,
    models_id,
    produced,
    record_of,
)
from conformance.adapters.impl.transactions.probes import WHILE_VERIFIED
from conformance.judging.system import View
from impl import ErrorCode, PartitionLeader, ProduceOutcome, decode_batch
from impl.broker.produce_requests import IMPLICIT_ADD_FROM, error_for_version
from impl.coordinator.effects import SendMarkers
from impl.partition.consuming import committed_batches
from impl.partition.log_config import LogConfig
from impl.partition.producer_state import UNKNOWN_PRODUCER
from impl.partition.reading import read
from impl.partition.rules import TransactionRules
from impl.partition.stored_batch import StoredBatch
from impl.partition.transactions import is_open
from impl.partition.verification import NO_GUARD
from impl.protocol.control_records import ControlType, read_marker
from impl.protocol.fields import Isolation
from impl.protocol.record_batch import (
    CONTROL,
    ProducerIdAndEpoch,
    Record,
    RecordBatch,
    decode_batches,
    encode_batch,
    read_header,
)

NOW_MS: Final = 0
NEVER_MS: Final = 2**62
MAX_BYTES: Final = 2**20
OTHER: Final = 9000
"""The producer id of another transactional id."""
OTHERS: Final = b"other"
"""The value of its records."""
KINDS: Final = {ControlType.COMMIT: "COMMIT", ControlType.ABORT: "ABORT"}


class AppendDecision(NamedTuple):
    """The decision about a batch: refuse it with an error, verify its producer, or append it."""

    error: int
    guard: int
    producer: ProducerIdAndEpoch


class Leader(PicklableActor):
    """The leader of one partition."""

    def __init__(
        self, codec: TransactionCodec, rules: TransactionRules, partition: int, producer_ids: int
    ) -> None:
        self._codec = codec
        self._partition = partition
        self._producers = range(FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + producer_ids)
        self._leader = PartitionLeader(config=LogConfig(rules=rules))
        self._guard = NO_GUARD
        self._held: dict[Payload, list[int]] = {}

    def view(self) -> View:
        """The state of the leader, shaped as READ."""
        leader = self._leader
        return (
            tuple([self._stored_view(stored) for stored in leader.batches]),
            tuple([self._entry_view(producer) for producer in self._producers]),
            tuple([self._verification_view(producer) for producer in self._producers]),
            leader.last_stable_offset,
            self._read_committed(),
        )

    def _stored_view(self, stored: StoredBatch) -> View:
        """One offset of the log, parsed from its bytes."""
        batch = decode_batch(stored.data)
        if batch.producer_id == OTHER:
            return ("OTHER", 0, 0, None, None)
        who = models_id(batch.producer_id), batch.producer_epoch
        if batch.attributes & CONTROL:
            marker = read_marker(batch.records[0])
            kind = None if marker is None else KINDS[ControlType(marker.control_type)]
            return (kind, *who, None, None)
        kind = "DATA" if batch.attributes & TRANSACTIONAL else "PLAIN"
        said = [self._said(record) for record in batch.records]
        return (kind, *who, batch.base_sequence, said[0] if len(said) == 1 else tuple(said))

    def _said(self, record: Record) -> tuple[int, ...]:
        """The content of a record."""
        return record_of(record.value)

    def _read_committed(self) -> View:
        """The records that a read_committed consumer sees of all that it may fetch."""
        fetched = read(
            self._leader.log, 0, MAX_BYTES, at_least_one=True, isolation=Isolation.READ_COMMITTED
        )
        aborted = [(told.producer_id, told.first_offset) for told in fetched.aborted_transactions]
        batches = committed_batches(decode_batches(fetched.records), aborted)
        records = [record for batch in batches for record in batch.records]
        return tuple([self._said(record) for record in records if record.value != OTHERS])

    def _entry_view(self, producer_id: int) -> View:
        entry = self._leader.producers.get(producer_id, UNKNOWN_PRODUCER)
        return (
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.last_sequence,
            len(entry.batches),
            entry.current_txn_first_offset,
        )

    def _verification_view(self, producer_id: int) -> View:
        entry = self._leader.log.producer_states.verifications.get(producer_id)
        return (NONE, 0) if entry is None else (entry.producer_epoch, entry.lowest_sequence)

    def restarted(self) -> None:
        """The broker restarted, with the data on its disk."""
        old = self._leader
        self._leader = PartitionLeader.restart(
            [b"".join([stored.data for stored in old.batches])],
            {},
            leader_epoch=old.view().leader_epoch,
            high_watermark=old.high_watermark,
            now_ms=NOW_MS,
            config=old.config,
        )

    # ---- batches

    def verify(self, request: Payload) -> None:
        """The leader asks the coordinator about the transaction of a batch. Raises
        UnexpectedEffects if this leader would not ask."""
        begun = self._begin(request)
        if begun.error or begun.guard == NO_GUARD:
            raise UnexpectedEffects(f"the coordinator is not asked: {begun}")
        self._guard = begun.guard

    def on_produce(self, request: Payload) -> Sent:
        """The batch arrives, verified already if that is necessary. Raises UnexpectedEffects if
        this leader would ask first."""
        guard = self._taken_guard()
        if guard != NO_GUARD:
            return self._append(request, guard)
        begun = self._begin(request)
        if begun.error:
            return self._refuse(request, begun.error)
        if begun.guard != NO_GUARD:
            raise UnexpectedEffects(f"the coordinator is asked: {begun}")
        return self._append(request, NO_GUARD)

    def hold(self, request: Payload) -> None:
        """The batch is verified, and its append waits."""
        self._held.setdefault(request, []).append(self._taken_guard())

    def on_verified(self, request: Payload, guard: object) -> Sent:
        """The append of a batch that was verified some time ago."""
        guards = self._held.pop(request)
        if guards[1:]:
            self._held[request] = guards[1:]
        return self._append(request, guards[0])

    def _taken_guard(self) -> int:
        guard, self._guard = self._guard, NO_GUARD
        return guard

    def refuse(self, request: Payload, error: int, of_group: bool) -> Sent:
        """The coordinator has refused the batch."""
        self._guard = NO_GUARD
        return self._refuse(request, error)

    def turn_away(self, request: Payload) -> Sent:
        """The broker does not lead the partition; no leader sees the batch."""
        return self._refuse(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def on_invalid_produce(self, request: Payload) -> Sent:
        """The broker's clock is so far behind that the broker rejects the record's timestamp."""
        return self._produce(request, self._taken_guard(), -NEVER_MS)

    def _begin(self, request: Payload) -> AppendDecision:
        """The first checks of the broker."""
        _, body = self._codec.unpack(request)
        header = read_header(produced(body)[1])
        is_v2 = request.api_version >= IMPLICIT_ADD_FROM
        producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
        if not (is_v2 or self._leader.log.rules.verifies):
            return AppendDecision(ErrorCode.NONE, NO_GUARD, producer)
        begun = self._leader.begin_verification(
            *producer, header.base_sequence, supports_epoch_bump=is_v2, now_ms=NOW_MS
        )
        return AppendDecision(int(begun.error), begun.guard, producer)

    def _refuse(self, request: Payload, error: int) -> Sent:
        """The answer if the coordinator, or the leader itself, has refused the batch."""
        told = error_for_version(ErrorCode(error), request.api_version)
        return self._answered(request, ProduceOutcome(told, NONE, NONE, NONE, NONE))

    def _append(self, request: Payload, guard: int) -> Sent:
        """Append the batch, or refuse it."""
        return self._produce(request, guard, NOW_MS)

    def _produce(self, request: Payload, guard: int, now_ms: int) -> Sent:
        """Pass the batch to `produce`, at a time of the broker's clock."""
        _, body = self._codec.unpack(request)
        outcome = self._leader.produce(
            produced(body)[1], required_acks=body["acks"], now_ms=now_ms, guard=guard
        )
        self._leader.advance_high_watermark(self._leader.log_end_offset)
        return self._answered(request, outcome)

    def _answered(self, request: Payload, outcome: ProduceOutcome) -> Sent:
        row = {
            "index": self._partition,
            "error_code": outcome.error,
            "base_offset": outcome.base_offset,
            "log_append_time_ms": outcome.log_append_time_ms,
            "log_start_offset": outcome.log_start_offset,
        }
        topic = self._codec.unpack(request)[1]["topics"][0]["name"]
        body: Body = {"topics": [{"name": topic, "partitions": [row]}]}
        payload = self._codec.pack_answer(request, body)
        return ((answer_view(request.api_key, self._codec.unpack_answer(payload)[1]), payload),)

    def on_other(self) -> None:
        """Another transactional id begins to write to this partition, or ends its transaction."""
        entry = self._leader.producers.get(OTHER, UNKNOWN_PRODUCER)
        if is_open(entry):
            self._leader.write_marker(
                producer_id=OTHER,
                producer_epoch=entry.producer_epoch,
                control_type=ControlType.COMMIT,
                coordinator_epoch=0,
                now_ms=NOW_MS,
            )
        else:
            self._other_begins(entry.last_sequence + 1)
        self._leader.advance_high_watermark(self._leader.log_end_offset)

    def _other_begins(self, base_sequence: int) -> None:
        record = Record(0, NOW_MS, None, OTHERS)
        batch = RecordBatch(
            (record,),
            attributes=TRANSACTIONAL,
            producer_id=OTHER,
            producer_epoch=0,
            base_sequence=base_sequence,
        )
        begun = self._leader.begin_verification(
            OTHER, 0, base_sequence, supports_epoch_bump=False, now_ms=NOW_MS
        )
        outcome = self._leader.produce(
            encode_batch(batch), required_acks=1, now_ms=NOW_MS, guard=begun.guard
        )
        assert not outcome.error, "nothing is in its way"

    # ---- refusals

    def refusals(self) -> tuple[tuple[str, ...], ...]:
        """The errors for batches inside open transactions, by producer. The leader must not be used
        after that. See `probes`."""
        return tuple([self._refusals_of(producer) for producer in self._producers])

    def _refusals_of(self, producer_id: int) -> tuple[str, ...]:
        entry = self._leader.producers.get(producer_id, UNKNOWN_PRODUCER)
        verifications = self._leader.log.producer_states.verifications
        following = entry.last_sequence + 1
        if producer_id in verifications and entry is not UNKNOWN_PRODUCER and not is_open(entry):
            self._offer(producer_id, 0, following)
            return WHILE_VERIFIED if producer_id in verifications else ()
        if not is_open(entry) or producer_id in verifications:
            return ()
        refused = ((0, following), (TRANSACTIONAL, following + 1))
        return tuple([self._offer(producer_id, *batch) for batch in refused])

    def _offer(self, producer_id: int, attributes: int, base_sequence: int) -> str:
        """The error of a batch with the given sequence in the producer's epoch."""
        batch = RecordBatch(
            (Record(0, NOW_MS, None, OTHERS),),
            attributes=attributes,
            producer_id=producer_id,
            producer_epoch=self._leader.producers[producer_id].producer_epoch,
            base_sequence=base_sequence,
        )
        return self._leader.produce(encode_batch(batch), required_acks=1, now_ms=NOW_MS).error.name

    # ---- markers

    def on_marker(self, sent: SendMarkers) -> Sent:
        """WriteTxnMarkers."""
        outcome = self._leader.write_marker(
            producer_id=sent.producer.producer_id,
            producer_epoch=sent.producer.producer_epoch,
            control_type=ControlType.COMMIT if sent.commit else ControlType.ABORT,
            coordinator_epoch=sent.coordinator_epoch,
            now_ms=NOW_MS,
            transaction_version=sent.transaction_version,
        )
        self._leader.advance_high_watermark(self._leader.log_end_offset)
        return ((int(outcome.error), int(outcome.error)),)
