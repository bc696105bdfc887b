"""Drives `impl`'s transaction coordinator, and does what a broker does around it.

1. The harness is the log: a record counts as appended when the harness says so. Like a compacted
   log, it keeps the last record of an id.
2. Markers are held until the model writes them.
3. Time moves only where the model lets a transaction, or an id, last too long.
4. Messages for an earlier coordinator, or an earlier completion, arrive late each time, and must
   change nothing.

Theory of operation: each rule of the model's coordinator has a method with its name. A request is
decoded and passed to the coordinator. `_perform` carries out the coordinator's effects until one of
them is an answer, and builds the answer as the broker does. When the coordinator moves, a new one
of the next epoch loads the log. The previous coordinator does not know this until the log tells it
that another broker leads the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.adapters.impl.idempotent.client import UnexpectedEffects
from conformance.adapters.impl.shared.last_epoch import present_last_epoch
from conformance.adapters.impl.shared.snapshots import PicklableActor
from conformance.adapters.impl.transactions.messages import (
    FIRST_PRODUCER_ID,
    NONE,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITES,
    Body,
    Payload,
    Places,
    Sent,
    TransactionCodec,
    added,
    answer_view,
    models_id,
    written_by,
    written_to,
)
from conformance.adapters.impl.transactions.probes import Refusals
from conformance.judging.system import View
from impl import ApiKey, ErrorCode
from impl.broker.coordinators import IMPLICIT_ADD
from impl.broker.transaction_requests import END_TXN_V2_FROM
from impl.coordinator.config import TransactionConfig
from impl.coordinator.effects import AppendRecords, Effect, SendAnswer, SendMarkers
from impl.coordinator.log_records import decode_value
from impl.coordinator.metadata import TopicPartition, TransactionImage, is_epoch_exhausted
from impl.coordinator.states import TransactionState
from impl.coordinator.transactions import TransactionCoordinator
from impl.protocol.record_batch import NO_PRODUCER, ProducerIdAndEpoch

REQUEST: Final = "request"
NO_BLOCK: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The answer of a broker that waits for its next block of producer ids."""
OTHER_ID: Final = 100
"""The distance to a producer id that belongs to nobody."""

TIMEOUT_MS: Final = 50_000
LOGGED: Final = (
    "producer_id",
    "producer_epoch",
    "transaction_timeout_ms",
    "state",
    "partitions",
    "start_timestamp_ms",
    "last_update_timestamp_ms",
)
"""The fields that all releases log."""

NOTHING: Final = ("ABSENT", NONE, NONE, NONE, NONE, NONE)


def newer_epoch(epoch: int) -> int:
    """An epoch after this one, other than the last but one: an EndTxn with that epoch may be a
    retry of the one that used up its producer id."""
    return epoch + (2 if epoch + 1 == present_last_epoch() - 1 else 1)


class ProducerIds:
    """Producer ids in order; none while the block `is_empty`."""

    def __init__(self) -> None:
        self.given = 0
        self.is_empty = False

    def generate(self, now_ms: int) -> tuple[ErrorCode, int]:
        """The next one."""
        if self.is_empty:
            return NO_BLOCK, NO_PRODUCER.producer_id
        self.given += 1
        return ErrorCode.NONE, FIRST_PRODUCER_ID + self.given - 1


class Coordinator(PicklableActor):
    """The coordinator of one transactional id, with its log."""

    def __init__(
        self,
        codec: TransactionCodec,
        config: TransactionConfig,
        places: Places,
        *,
        holds_appends: bool,
    ) -> None:
        self._codec = codec
        self._config = config
        self._places = places
        self._holds_appends = holds_appends
        self._now_ms = 0
        self._epoch = NONE
        self._ids = ProducerIds()
        self._leads_log = True
        self._log: bytes | None = None
        self._key: bytes = b""
        self._append: AppendRecords | None = None
        self._markers: dict[TopicPartition, SendMarkers] = {}
        self._to_send: SendAnswer | None = None
        self._waiting: Payload | None = None
        self.take_over()

    def view(self) -> View:
        """The state of the coordinator, shaped as COORDINATOR."""
        rows = self._core.view().transactions
        image = rows[0].image if rows else None
        log = None if self._log is None else decode_value(self._log)
        pending = self._core.view().pending_appends
        return (
            self._leadership(),
            self._image_view(image),
            self._image_view(log),
            self._image_view(pending[0].image if pending else None),
            tuple(place in self._markers for place in self._places),
            self._epoch,
            self._ids.given,
        )

    def _leadership(self) -> str:
        states = self._core._states
        if states.loading:
            return "LOADS"
        if not states.coordinator_epochs:
            return "RESIGNED"
        return "LEADS" if self._leads_log else "REPLACED"

    def _image_view(self, image: TransactionImage | None) -> View:
        """Shaped as METADATA; the previous producer id is shown only if it is a different one."""
        if image is None:
            return (*NOTHING, (False,) * len(self._places))
        previous = image.previous_producer_id
        return (
            image.state.name,
            models_id(image.producer_id),
            image.producer_epoch,
            image.last_producer_epoch,
            NONE if previous == image.producer_id else models_id(previous),
            models_id(image.next_producer_id),
            tuple(place in image.partitions for place in self._places),
        )

    # ---- requests

    def on_init_producer_id(self, request: Payload, requester: int) -> Sent:
        """InitProducerId arrives. Returns its answer, or None while an append is held."""
        _, body = self._codec.unpack(request)
        expected = producer_of(body)
        effects = self._core.init_producer_id(
            REQUEST,
            body["transactional_id"],
            body["transaction_timeout_ms"],
            None if expected == NO_PRODUCER else expected,
            self._now_ms,
        )
        return self._answer(request, requester, effects)

    def on_add_partitions(self, request: Payload, requester: int) -> Sent:
        """AddPartitionsToTxn or AddOffsetsToTxn of V1 arrives, or a leader asks about a batch of
        V2, which adds its partition."""
        if request.api_key in WRITES:
            return self._add_implicitly(request)
        _, body = self._codec.unpack(request)
        producer, name = producer_of(body), body.get("transactional_id")
        if name is None:
            name = body["v3_and_below_transactional_id"]
        effects = self._core.add_partitions(REQUEST, name, producer, added(body), 0, self._now_ms)
        return self._answer(request, requester, effects)

    def on_end_txn(self, request: Payload, requester: int) -> Sent:
        """EndTxn arrives."""
        _, body = self._codec.unpack(request)
        version = IMPLICIT_ADD if request.api_version >= END_TXN_V2_FROM else 0
        effects = self._core.end_txn(
            REQUEST,
            body["transactional_id"],
            producer_of(body),
            body["committed"],
            version,
            self._now_ms,
        )
        return self._answer(request, requester, effects)

    def on_verify(self, request: Payload, partition: int) -> Sent:
        """A leader asks whether the partition of a batch was added."""
        producer, place = self._written_by(request)
        error = int(self._core.verify_partitions(TRANSACTIONAL_ID, producer, [place])[place])
        return ((error, error),)

    def _add_implicitly(self, request: Payload) -> Sent:
        producer, place = self._written_by(request)
        self._perform(
            self._core.add_partitions(
                REQUEST, TRANSACTIONAL_ID, producer, [place], IMPLICIT_ADD, self._now_ms
            )
        )
        answer, self._to_send = self._to_send, None
        if answer is None:
            return ()
        error = int(answer.error)
        return (((error, NONE, NONE, NONE), error),)

    def _written_by(self, request: Payload) -> tuple[ProducerIdAndEpoch, TopicPartition]:
        """The producer of a batch, and its partition."""
        _, body = self._codec.unpack(request)
        partition = written_to(request.api_key, body, self._places)
        return written_by(request.api_key, body), self._places[partition]

    def _answer(self, request: Payload, requester: int, effects: Sequence[Effect]) -> Sent:
        self._perform(effects)
        answer, self._to_send = self._to_send, None
        if answer is None:
            self._waiting = None if requester == NONE else request
            return ()
        return (self._built(request, answer),)

    def _built(self, request: Payload, answer: SendAnswer) -> tuple[View, Payload]:
        """The answer in the form in which it is sent."""
        _, asked = self._codec.unpack(request)
        payload = self._codec.pack_answer(request, body_of(request, asked, answer))
        _, body = self._codec.unpack_answer(payload)
        return answer_view(request.api_key, body), payload

    def refusals(self) -> Refusals:
        """The answers to producers that are not this id's. The coordinator must not be used after
        that. See `probes`."""
        view = self._core.view()
        rows = view.transactions
        known = rows[0].image.identity if rows else ProducerIdAndEpoch(FIRST_PRODUCER_ID, 0)
        newer = known._replace(producer_epoch=newer_epoch(known.producer_epoch))
        other = known._replace(producer_id=known.producer_id + OTHER_ID)
        strangers = tuple([(self._ends(who), self._joins(who)) for who in (newer, other)])
        if rows and rows[0].image.state is TransactionState.ONGOING:
            self._check_without_ids(known)
        believing = self._begins(other) if rows else ""
        if view.coordinator_epochs and not view.loading:
            self._check_records()
        return Refusals(strangers, believing)

    def _check_without_ids(self, known: ProducerIdAndEpoch) -> None:
        """Check that a transaction of V2 with the last epoch does not end while no producer id is
        available. Raises UnexpectedEffects."""
        if self._core.view().pending_appends or not is_epoch_exhausted(known.producer_epoch):
            return
        self._ids.is_empty = True
        effects = self._core.end_txn(
            REQUEST, TRANSACTIONAL_ID, known, True, IMPLICIT_ADD, self._now_ms
        )
        self._ids.is_empty = False
        if effects != [SendAnswer(REQUEST, NO_BLOCK)]:
            raise UnexpectedEffects(f"it ends without a producer id: {effects}")

    def _begins(self, who: ProducerIdAndEpoch) -> str:
        """Send InitProducerId with this identity."""
        return error_in(
            self._core.init_producer_id(REQUEST, TRANSACTIONAL_ID, TIMEOUT_MS, who, self._now_ms)
        )

    def _check_records(self) -> None:
        """Check the records that are logged next: a new instance of the producer, a moment later,
        must read them as they were meant. Raises UnexpectedEffects."""
        later_ms = self._now_ms + 1
        self._core.init_producer_id(REQUEST, TRANSACTIONAL_ID, TIMEOUT_MS, None, later_ms)
        for pending in self._core.view().pending_appends:
            _, value = pending.append.records[0]
            if value is None or pending.image is None:
                continue
            read = decode_value(value)
            wrong = [name for name in LOGGED if getattr(read, name) != getattr(pending.image, name)]
            if wrong:
                raise UnexpectedEffects(f"the log's record has other {', '.join(wrong)}")

    def _ends(self, who: ProducerIdAndEpoch) -> tuple[str, ...]:
        """Send EndTxn in V1, then in V2."""
        return tuple(
            [
                error_in(
                    self._core.end_txn(REQUEST, TRANSACTIONAL_ID, who, True, spoken, self._now_ms)
                )
                for spoken in (0, IMPLICIT_ADD)
            ]
        )

    def _joins(self, who: ProducerIdAndEpoch) -> tuple[str, ...]:
        """Send AddPartitionsToTxn: to verify, then to add."""
        place = self._places[0]
        verified = self._core.verify_partitions(TRANSACTIONAL_ID, who, [place])[place]
        added = self._core.add_partitions(REQUEST, TRANSACTIONAL_ID, who, [place], 0, self._now_ms)
        return verified.name, error_in(added)

    # ---- effects

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendAnswer):
                assert self._to_send is None, "one request has one answer"
                self._to_send = effect
            elif isinstance(effect, SendMarkers):
                self._hear_too_late(effect)
                self._markers |= dict.fromkeys(effect.partitions, effect)
            elif not self._leads_log:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                self._perform(self._core.on_appended(effect.token, error, self._now_ms))
            elif self._holds_appends and not is_tombstone(effect):
                assert self._append is None, "one append at a time"
                self._append = effect
            else:
                self._write(effect)
                self._perform(self._core.on_appended(effect.token, ErrorCode.NONE, self._now_ms))

    def _hear_too_late(self, sent: SendMarkers) -> None:
        """Leaders answer markers of an earlier completion, which have been sent again since. Such
        an answer says nothing about the present completion."""
        late = sent._replace(token=sent.token - 1)
        written = dict.fromkeys(sent.partitions, ErrorCode.NONE)
        expect_nothing("an answer of before counts", self._core.on_markers_written(late, written))

    def _write(self, append: AppendRecords) -> None:
        assert append.coordinator_epoch == self._epoch, "nobody else leads the log"
        ((self._key, self._log),) = append.records

    # ---- appends that are held

    def append_succeeds(self) -> Sent:
        """The held append is in the log; the waiting client is answered."""
        append = self._taken_append()
        self._write(append)
        return self._settled(self._core.on_appended(append.token, ErrorCode.NONE, self._now_ms))

    def append_fails(self, in_log: bool) -> Sent:
        """The append is reported as failed; a completion is tried again at once."""
        append = self._taken_append()
        if in_log:
            self._write(append)
        error = ErrorCode.NOT_ENOUGH_REPLICAS
        effects = self._core.on_appended(append.token, error, self._now_ms)
        return self._settled([*effects, *self._core.retry()])

    def _taken_append(self) -> AppendRecords:
        append, self._append = self._append, None
        assert append is not None, "an append is on its way"
        return append

    def _settled(self, effects: Sequence[Effect]) -> Sent:
        self._perform(effects)
        answer, self._to_send = self._to_send, None
        request, self._waiting = self._waiting, None
        if request is None:
            return ((None, None),)
        return () if answer is None else (self._built(request, answer),)

    def lose_requester(self) -> None:
        """The requester no longer waits for the answer."""
        self._waiting = None

    # ---- markers

    def marker_for(self, partition: int) -> Sent:
        """The marker that a partition is waiting for."""
        sent = self._markers[self._places[partition]]
        producer = sent.producer
        who = models_id(producer.producer_id), producer.producer_epoch
        return (((*who, sent.commit, sent.coordinator_epoch, partition), sent),)

    def on_marker_written(self, partition: int, error: int) -> None:
        """A leader has answered the marker."""
        place = self._places[partition]
        sent = self._markers.pop(place)
        effects = self._core.on_markers_written(sent, {place: ErrorCode(error)})
        self._perform([*effects, *self._core.retry()])
        if not self._core.view().transactions[0].markers_sent:
            self._markers.clear()

    def lose_marker(self, partition: int) -> None:
        """No answer arrives: the marker is sent again."""
        self.on_marker_written(partition, ErrorCode.NETWORK_EXCEPTION)

    def skip_marker(self, partition: int) -> None:
        """A partition has no leader: `impl` waits for one."""

    # ---- time and leadership

    def time_out(self) -> None:
        """The open transaction exceeds its time-out: by 1 ms, and not before."""
        image = self._core.view().transactions[0].image
        due_ms = image.start_timestamp_ms + image.transaction_timeout_ms
        expect_nothing("an abort before its time", self._core.abort_timed_out(due_ms))
        self._now_ms = due_ms + 1
        self._perform(self._core.abort_timed_out(self._now_ms))

    def forget(self) -> None:
        """The id was not used for the expiration time; 1 ms earlier it must not be forgotten."""
        image = self._core.view().transactions[0].image
        due_ms = image.last_update_timestamp_ms + self._config.transactional_id_expiration_ms
        expect_nothing("an id forgotten before its time", self._core.remove_expired(due_ms - 1))
        self._now_ms = max(self._now_ms, due_ms)
        before = self._log
        self._perform(self._core.remove_expired(self._now_ms))
        if self._log is None:
            self._check_forgotten(before)

    def _check_forgotten(self, before: bytes | None) -> None:
        """A log that is not compacted yet must make its next reader forget the id, too. Raises
        UnexpectedEffects."""
        loads, epoch = TransactionCoordinator(self._ids.generate, self._config), self._epoch + 1
        loads.elect(self._partition, epoch)
        loads.load(self._partition, epoch, [(self._key, before), (self._key, None)], self._now_ms)
        if known := loads.view().transactions:
            raise UnexpectedEffects(f"loaded after it was forgotten: {known}")

    def take_over_with_append(self) -> None:
        """Another broker loads the log, which has the held append."""
        self._write(self._taken_append())
        self.take_over()

    def take_over(self) -> None:
        """Another broker loads the log."""
        self.begin_loading()
        self.finish_loading()

    def begin_loading(self) -> None:
        """Another broker is elected."""
        self._epoch += 1
        self._append = self._waiting = None
        self._markers.clear()
        self._core = TransactionCoordinator(self._ids.generate, self._config)
        self._core.elect(self._partition, self._epoch)
        self._hear_of_before()

    def finish_loading(self) -> None:
        """The elected broker has read the log."""
        records = [] if self._log is None else [(self._key, self._log)]
        self._perform(self._core.load(self._partition, self._epoch, records, self._now_ms))
        self._hear_of_before()

    def _hear_of_before(self) -> None:
        """Steps that were begun in an earlier epoch end late, and must count for nothing: a load,
        and the notice that another broker leads."""
        before = self._epoch - 1
        expect_nothing("an old load", self._core.load(self._partition, before, [], self._now_ms))
        self._core.resign(self._partition, before)

    @property
    def _partition(self) -> int:
        return self._core._states.partition_of(TRANSACTIONAL_ID)

    def depose(self) -> None:
        """Another broker leads the log, and this one does not know it."""
        self._leads_log = False
        self._key, self._log = b"", None
        self.count_producer_ids(0)

    def count_producer_ids(self, given: int) -> None:
        """Set the number of producer ids that the cluster has given out."""
        self._ids.given = given

    def resign(self) -> None:
        """This broker learns that it is no longer the coordinator."""
        self.depose()
        self._core.resign(self._partition, None)
        self._markers.clear()
        self._epoch = 0

    def retire(self) -> None:
        """A broker that was the coordinator long ago, or never."""
        self._core = TransactionCoordinator(self._ids.generate, self._config)
        self.depose()
        self._epoch = 0


def expect_nothing(what: str, effects: Sequence[Effect]) -> None:
    """Raises UnexpectedEffects if there are effects."""
    if effects:
        raise UnexpectedEffects(f"{what}: {effects}")


def error_in(effects: Sequence[Effect]) -> str:
    """The error of an answer; "" if the effects are more than an answer."""
    answers = [effect.error.name for effect in effects if isinstance(effect, SendAnswer)]
    return answers[0] if len(answers) == len(effects) == 1 else ""


def is_tombstone(append: AppendRecords) -> bool:
    """Whether the append makes the log forget an id; such an append is done at once."""
    return all(value is None for _, value in append.records)


def producer_of(body: Body) -> ProducerIdAndEpoch:
    """The producer that sent a request."""
    prefix = "" if "producer_id" in body else "v3_and_below_"
    return ProducerIdAndEpoch(body[f"{prefix}producer_id"], body[f"{prefix}producer_epoch"])


def body_of(request: Payload, asked: Body, answer: SendAnswer) -> Body:
    """The body of the answer, as the broker builds it."""
    if request.api_key == ApiKey.ADD_OFFSETS_TO_TXN:
        return {"error_code": answer.error}
    if request.api_key != ApiKey.ADD_PARTITIONS_TO_TXN:
        return {"error_code": answer.error, **answer.producer._asdict()}
    rows = [
        {"partition_index": place.partition, "partition_error_code": answer.error}
        for place in sorted(added(asked))
    ]
    return {"results_by_topic_v3_and_below": [{"name": TOPIC, "results_by_partition": rows}]}
