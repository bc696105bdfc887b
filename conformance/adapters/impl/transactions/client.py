"""Drives `impl`'s transactional producer core as the model says.

1. Time stands still: there is no backoff and no linger, so whatever waits is due at once. Time
   moves only when the delivery time of a batch is up.
2. A producer knows a leader only while the model lets it send there. So one poll sends one batch,
   or one request to the coordinator.
3. This module answers FindCoordinator at once. If the model says that a producer looks its
   coordinator up (`find_coordinator`), the producer must have done so before its next request, and
   it must not otherwise.
4. Requests with the same priority may be sent in any order, since Kafka's queue keeps none: the one
   that the model takes is sent first. The pending addition of a new partition is such a request.
5. A request and its answer are one step. A batch that was sent before a commit of offsets may
   therefore arrive after it: the commit is put aside while the batch is sent.
6. A record for a new partition, and the commit after it, wait while another partition is being
   added: an application that sends during a turn of the sender may be as late.
7. When the time of a batch is up, the model chooses whether the batch waits for its next attempt or
   for its first answer: the connection may break before or after the time is up.
8. The model may send a new batch while an earlier one waits to be sent again. That batch left
   before the answer to the earlier one came, so the waiting batch is put aside while the new one is
   sent.

Theory of operation: each rule of `client` and `sender` in `model.transactions` has a method with
its name. The model's calls are `impl`'s calls. The requests of the model's manager are those that
`poll` returns; answers go to `receive`, and a connection that breaks is `disconnected`. Fields that
do not matter in a state are hidden: see `view`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from conformance.adapters.impl.idempotent.client import UnexpectedEffects
from conformance.adapters.impl.shared.snapshots import PicklableActor
from conformance.adapters.impl.transactions.messages import (
    GROUP,
    NONE,
    SOURCE,
    TOPIC,
    TRANSACTIONAL_ID,
    Payload,
    Places,
    Sent,
    TransactionCodec,
    added,
    group_partition,
    models_id,
    request_view,
    value_of,
)
from conformance.adapters.impl.transactions.refusals import (
    NOTHING_SENT,
    Refused,
    bumps_for,
    error_for,
    refusal,
)
from conformance.judging.system import View
from impl import ApiKey, DeliveryHandle, ErrorCode, ProducerConfig, ProducerError, SendRequest
from impl.client.arguments import GroupMetadata, OffsetAndMetadata
from impl.producer import State
from impl.producer.in_flight_requests import NodeQueue
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.transactional_requests import (
    BUMP_SINCE,
    CallResult,
    RequestVersions,
    TxnRequest,
)
from impl.protocol.fields import CoordinatorType
from impl.protocol.record_batch import NO_SEQUENCE

COORDINATOR: Final = 1000
GROUP_COORDINATOR: Final = 1001
"""The nodes that coordinate; node p leads partition p."""
NODES: Final = {
    CoordinatorType.TRANSACTION: COORDINATOR,
    CoordinatorType.GROUP: GROUP_COORDINATOR,
}
TIMESTAMP_MS: Final = 0
DELIVERY_TIMEOUT_MS: Final = 2**20
MAX_INT32: Final = 2**31 - 1

STATES: Final[Mapping[State, str]] = {
    State.UNINITIALIZED: "UNINITIALIZED",
    State.INITIALIZING: "INITIALIZING",
    State.READY: "READY",
    State.IN_TRANSACTION: "IN_TRANSACTION",
    State.COMMITTING_TRANSACTION: "COMMITTING",
    State.ABORTING_TRANSACTION: "ABORTING",
    State.ABORTABLE_ERROR: "ABORTABLE_ERROR",
    State.FATAL_ERROR: "FATAL_ERROR",
}
"""The model's names of `impl`'s states."""


class Client(PicklableActor):
    """One instance of the application, and its producer."""

    def __init__(
        self,
        codec: TransactionCodec,
        *,
        is_v2: bool,
        remembers: bool,
        instance: int,
        places: Places,
        is_told_when_to_find: bool,
    ) -> None:
        self._codec = codec
        self._instance = instance
        self._places = places
        self._of_group = group_partition(places)
        self._count = len(places)
        self._is_v2 = is_v2
        self._now_ms = 0
        self._core = TransactionalProducerCore(producer_config(is_v2=is_v2, remembers=remembers))
        self._core.update_nodes([COORDINATOR])
        self._handles: list[DeliveryHandle | None] = [None] * self._count
        self._offsets: CallResult | None = None
        self._call: CallResult | None = None
        self._adding: set[tuple[str, int]] = set()
        self._held: dict[int, bytes] = {}
        self._holds_commit = False
        self._outcomes: list[str] = []
        self._written: dict[int, int] = {}
        self._is_told_when_to_find = is_told_when_to_find
        self._may_find = self._has_found = False

    def view(self) -> View:
        """The state of the client, shaped as CLIENT. After the end only identity and outcomes
        count. While an abort is due, batches that will not be sent are hidden, and so are numbers
        that begin anew."""
        core = self._core
        state = "COMMITTING" if self._holds_commit else STATES[core.state]
        outcomes = tuple(self._outcomes)
        if state == "FATAL_ERROR":
            return (state, self._id, core.producer_epoch, None, (), outcomes)
        partitions = tuple([self._partition_view(state, p) for p in range(self._count)])
        bump = core.epoch_bump_required
        return (
            state, self._id, core.producer_epoch, bump, partitions, outcomes
        )  # fmt: skip

    @property
    def _id(self) -> int:
        return models_id(self._core.producer_id)

    def _partition_view(self, state: str, partition: int) -> View:
        if partition == self._of_group:
            return self._offsets_view(state)
        known = self._core.partition_state(TOPIC, partition)
        handle = self._handles[partition]
        write, membership = "NONE", "OUT"
        if partition in self._held:
            write = "QUEUED"
        elif handle is not None and not handle.done:
            write = "QUEUED" if self._queued(partition) else "SENT"
        earlier = tuple(batch.base_sequence for batch in known.in_flight)
        if write == "SENT":
            earlier = earlier[:-1]
        if (TOPIC, partition) in self._core.partitions:
            membership = "IN"
        elif write == "QUEUED":
            membership = "NEW"
        return seen_partition(
            state,
            membership,
            write,
            earlier,
            known.next_sequence,
            self._is_v2,
            self._core.epoch_bump_required,
        )

    def _queued(self, partition: int) -> bool:
        """Whether a batch for the partition is queued that was never sent."""
        queue = self._core._accumulator._queues.get((TOPIC, partition), ())
        return any(batch.base_sequence == NO_SEQUENCE for batch in queue)

    def _offsets_view(self, state: str) -> View:
        write = "NONE" if self._offsets is None else "QUEUED"
        manager = self._core._transactions
        membership = "IN" if GROUP in manager._groups else "OUT"
        waiting = {request.api_key for *_, request in manager._queue._waiting}
        if write == "QUEUED" and ApiKey.TXN_OFFSET_COMMIT not in waiting:
            membership = "NEW"
        return seen_offsets(state, membership, write, self._is_v2)

    def tidy(self) -> None:
        """Forget all leaders until the model makes one known. Records that ended are reported, and
        stay counted only while more may follow."""
        self._core.update_metadata({})
        if self._core.state is not State.IN_TRANSACTION:
            self._written.clear()
        self._handles = [None if h is None or h.done else h for h in self._handles]

    # ---- the application

    def init_transactions(self) -> None:
        """`initTransactions` is called."""
        self._call = self._core.initialize()

    def begin_transaction(self) -> None:
        """`beginTransaction`."""
        self._core.begin()
        self._outcomes.append("OPEN")

    def send(self, partition: int) -> None:
        """`send`; `send_offsets_to_transaction` to the group's partition."""
        number = self._written.get(partition, 0)
        self._written[partition] = number + 1
        value = value_of(self._instance, len(self._outcomes) - 1, number)
        if partition == self._of_group:
            committed = OffsetAndMetadata(number, value.decode())
            self._offsets = self._core.send_offsets({SOURCE: committed}, GroupMetadata(GROUP))
        elif self._adding and (TOPIC, partition) not in self._core.partitions:
            self._held[partition] = value
        else:
            self._append(partition, value)

    def _append(self, partition: int, value: bytes) -> None:
        self._handles[partition] = self._core.append(
            TOPIC, partition, value=value, timestamp_ms=TIMESTAMP_MS, now_ms=self._now_ms
        )

    def commit_transaction(self) -> None:
        """`commitTransaction`."""
        self._outcomes[-1] = "COMMIT_ASKED"
        self._holds_commit = bool(self._held)
        if not self._holds_commit:
            self._call = self._core.begin_commit()
            self._end()

    def abort_transaction(self) -> None:
        """`abortTransaction`."""
        self._outcomes[-1] = "ABORT_ASKED"
        self._held.clear()
        self._call = self._core.begin_abort()
        self._end()

    def _end(self) -> None:
        """End the call. If the coordinator does not know the transaction, and never will, the next
        poll ends it."""
        manager = self._core._transactions
        waiting = {request.api_key for *_, request in manager._queue._waiting}
        if not (manager._is_started or manager._new_partitions or waiting - {ApiKey.END_TXN}):
            self._polls(())
            self._settle()

    def give_up(self, partition: int, waits: bool) -> None:
        """The delivery time of the batch that was sent is up, and of no other batch. The batch
        `waits` to be sent again, or its first request is under way. See rule 7."""
        for batch in self._core._accumulator._incomplete:
            if batch.topic_partition == (TOPIC, partition):
                batch.created_ms = self._now_ms - DELIVERY_TIMEOUT_MS
                batch.in_retry = waits
                break
        self._core._expire_batches(self._now_ms)
        self._settle()

    # ---- requests

    def ask_producer_id(self) -> Sent:
        """InitProducerId."""
        return self._ask(ApiKey.INIT_PRODUCER_ID)

    def add_partitions(self) -> Sent:
        """AddPartitionsToTxn."""
        return self._ask(ApiKey.ADD_PARTITIONS_TO_TXN)

    def add_offsets(self) -> Sent:
        """AddOffsetsToTxn."""
        return self._ask(ApiKey.ADD_OFFSETS_TO_TXN)

    def end_transaction(self) -> Sent:
        """EndTxn."""
        return self._ask(ApiKey.END_TXN)

    def commit_offsets(self, instance: int, partition: int) -> Sent:
        """TxnOffsetCommit."""
        return (self._to_coordinator(ApiKey.TXN_OFFSET_COMMIT),)

    def produce(self, instance: int, partition: int) -> Sent:
        """Produce, with the newest batch. See rule 8."""
        queues, key = self._core._accumulator._queues, (TOPIC, partition)
        before = queues.get(key, deque())
        again = [batch for batch in before if batch.base_sequence != NO_SEQUENCE]
        if len(again) == len(before):
            return self._produces(partition)
        queues[key] = deque(list(before)[len(again) :])
        sent = self._produces(partition)
        if again:
            queues[key] = deque((*again, *queues.get(key, ())))
        return sent

    def produce_again(self, instance: int, partition: int) -> Sent:
        """Produce, with the first batch in flight."""
        return self._produces(partition)

    def _produces(self, partition: int) -> Sent:
        waiting = self._taken()
        self._requeue(r for r in waiting if r.api_key != ApiKey.TXN_OFFSET_COMMIT)
        sent = self._sends({(TOPIC, partition): partition})
        self._requeue(r for r in waiting if r.api_key == ApiKey.TXN_OFFSET_COMMIT)
        return (sent,)

    def _ask(self, api_key: int) -> Sent:
        """Send a request to the transaction coordinator. Raises UnexpectedEffects."""
        sent = self._to_coordinator(api_key)
        if self._is_told_when_to_find:
            if self._has_found != self._may_find:
                raise UnexpectedEffects(f"it looked for its coordinator: {self._has_found}")
            self._has_found = self._may_find = False
        return (sent,)

    def _to_coordinator(self, api_key: int) -> tuple[View, Payload]:
        """The request that goes to a coordinator now; one of `api_key` goes before others of its
        priority. Raises UnexpectedEffects."""
        manager = self._core._transactions
        if api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
            manager._enqueue_new_partitions()
            return self._sends({}, api_key)
        new, manager._new_partitions = manager._new_partitions, {}
        sent = self._sends({}, api_key)
        manager._new_partitions = new
        return sent

    def _taken(self) -> list[TxnRequest]:
        return self._core._transactions._queue.take_all()

    def _requeue(self, requests: Iterable[TxnRequest]) -> None:
        for request in requests:
            self._core._transactions._queue.retry(request, request.not_before_ms)

    def would_send(self) -> Refused:
        """The requests that the client sends if it knows all leaders and they do not throttle, and
        its reaction to an error; see `refusals`. The client must not be used after that. Raises
        UnexpectedEffects."""
        if self._core.state in (State.FATAL_ERROR, State.UNINITIALIZED):
            return NOTHING_SENT
        self._call_again()
        state, before = self.view(), STATES[self._core.state]
        leaders = {(TOPIC, p): p for p in range(self._count) if p != self._of_group}
        self._throttle((*NODES.values(), *leaders.values()))
        if too_early := self._polled(leaders):
            raise UnexpectedEffects(f"it is throttled, and poll gives {too_early}")
        self._now_ms += 1
        found = self._polled(leaders)
        if not found:
            return NOTHING_SENT
        error = error_for(found[0].api_key, state)
        bumps = self._is_v2 or bumps_for(state)
        self._serve_init_producer_id(BUMP_SINCE if bumps else BUMP_SINCE - 1)
        payload = self._codec.pack_answer(self._codec.pack(found[0]), refusal(found[0], error))
        correlation_id, body = self._codec.unpack_answer(payload)
        self._core.receive(correlation_id, body, self._now_ms)
        after = STATES[self._core.state]
        then = self._polled(leaders)
        next_api = int(then[0].api_key) if then else NONE
        return Refused(int(found[0].api_key), error, before, after, next_api, bumps)

    def _call_again(self) -> None:
        """A call that is repeated before its result was seen returns the same result (KAFKA-13412).
        Raises UnexpectedEffects."""
        core = self._core
        calls = {
            State.COMMITTING_TRANSACTION: core.begin_commit,
            State.ABORTING_TRANSACTION: core.begin_abort,
        }
        call = calls.get(core.state)
        if self._call is not None and call is not None and call() is not self._call:
            raise UnexpectedEffects(f"a call while it is {core.state.value} is another one")

    def _serve_init_producer_id(self, version: int) -> None:
        """Let the cluster serve no later version of InitProducerId."""
        newest = {**self._core._versions.newest, ApiKey.INIT_PRODUCER_ID: version}
        self._core._transactions._queue.versions = RequestVersions(newest)

    def loses_all(self) -> str:
        """The state after the delivery time of all batches that were sent is up, in a cluster that
        gives no new epochs; "" if no batch was sent. The client must not be used after that."""
        self._serve_init_producer_id(BUMP_SINCE - 1)
        sent = [b for b in self._core._accumulator._incomplete if b.base_sequence != NO_SEQUENCE]
        for batch in sent:
            batch.created_ms = self._now_ms - DELIVERY_TIMEOUT_MS
        for partition in range(self._count):
            self._core.disconnected(partition, self._now_ms)
        self._core._expire_batches(self._now_ms)
        self._core._transactions.maybe_resolve_sequences()
        return STATES[self._core.state] if sent else ""

    def _throttle(self, node_ids: Iterable[int]) -> None:
        """These nodes have said that they throttle for a millisecond."""
        nodes = self._core._in_flight._nodes
        for node_id in node_ids:
            node = nodes.setdefault(node_id, NodeQueue(node_id))
            node.throttled_until_ms = self._now_ms + 1

    def _sends(
        self, leaders: dict[tuple[str, int], int], first: int = NONE
    ) -> tuple[View, Payload]:
        found = self._polled(leaders, first)
        if len(found) != 1:
            raise UnexpectedEffects(f"poll gives {found}")
        payload = self._codec.pack(found[0])
        _, body = self._codec.unpack(payload)
        if payload.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
            self._adding = set(added(body))
        return request_view(payload.api_key, payload.api_version, body, self._places), payload

    def _polled(self, leaders: dict[tuple[str, int], int], first: int = NONE) -> list[SendRequest]:
        """The requests of a poll without FindCoordinator, which is answered. A request of the API
        `first` goes before others of its priority."""
        self._core.update_metadata(leaders)
        while True:
            if first != NONE:
                self._requeue(sorted(self._taken(), key=lambda waits: waits.api_key != first))
            effects = self._core.poll(self._now_ms)
            requests = [e for e in effects if isinstance(e, SendRequest)]
            if len(requests) != len(effects):
                raise UnexpectedEffects(f"poll gives {effects}")
            if len(requests) != 1 or requests[0].api_key != ApiKey.FIND_COORDINATOR:
                return requests
            self._found(requests[0])

    def _found(self, request: SendRequest) -> None:
        node_id = NODES[CoordinatorType(request.body["key_type"])]
        self._has_found |= node_id == COORDINATOR
        row = {"error_code": ErrorCode.NONE, "node_id": node_id, "host": "h", "port": 1}
        rows = [row | {"key": key} for key in request.body["coordinator_keys"]]
        payload = self._codec.pack_answer(self._codec.pack(request), {"coordinators": rows})
        correlation_id, body = self._codec.unpack_answer(payload)
        self._core.receive(correlation_id, body, self._now_ms)

    def _polls(self, leaders: tuple[()]) -> None:
        """Poll, and check that nothing is sent. Raises UnexpectedEffects."""
        found = self._polled(dict(leaders))
        if found:
            raise UnexpectedEffects(f"poll gives {found}")

    # ---- answers

    def on_producer_id(self, answer: Payload) -> None:
        """The client receives the answer to InitProducerId."""
        self._receive(answer)

    def on_partitions_added(self, partitions: object, answer: Payload) -> None:
        """The client receives the answer to AddPartitionsToTxn or AddOffsetsToTxn."""
        self._receive(answer)

    def on_ended(self, answer: Payload) -> None:
        """The client receives the answer to EndTxn."""
        self._receive(answer)

    def on_produced(self, partition: int, answer: Payload) -> None:
        """The client receives the answer to Produce."""
        self._receive(answer)

    def on_produced_again(self, partition: int, answer: Payload) -> None:
        """The client receives the answer to Produce for the first batch in flight."""
        self._receive(answer)

    def on_offsets_committed(self, partition: int, answer: Payload) -> None:
        """The client receives the answer to TxnOffsetCommit."""
        self._receive(answer)

    def _receive(self, answer: Payload) -> None:
        correlation_id, body = self._codec.unpack_answer(answer)
        self._core.receive(correlation_id, body, self._now_ms)
        self._settle()

    def find_coordinator(self) -> None:
        """Let the client look its coordinator up; it must do so before its next request."""
        self._may_find = True

    def lose_coordinator(self) -> None:
        """The connection to its coordinator breaks."""
        self._disconnect(COORDINATOR)

    def lose_leader(self, partition: int) -> None:
        """The connection to the leader of a partition, or to the group's coordinator, breaks."""
        self._disconnect(GROUP_COORDINATOR if partition == self._of_group else partition)

    def _disconnect(self, node_id: int) -> None:
        self._core.disconnected(node_id, self._now_ms)
        self._settle()

    # ---- outcomes for the application

    def _settle(self) -> None:
        """Return the calls that have ended, and continue with what was put aside. Steps at the
        beginning of the sender's loop are taken at once."""
        self._core._transactions.maybe_resolve_sequences()
        if self._core.state is State.ABORTABLE_ERROR:
            self._polls(())
        if self._core.state is not State.IN_TRANSACTION or self._adding <= self._core.partitions:
            self._adding.clear()
            self._hand_over()
        if self._offsets is not None and self._offsets.done:
            self._offsets = None
        call = self._call
        if call is None or not call.done:
            return
        self._call = None
        try:
            call.acknowledge()
        except ProducerError:
            return
        asked = self._outcomes[-1] if self._outcomes else ""
        self._outcomes[-1:] = [ENDED.get(asked, asked)] if self._outcomes else []

    def _hand_over(self) -> None:
        """Hand over what was put aside: records, then the call after them."""
        goes_on = self._core.state is State.IN_TRANSACTION
        for partition in sorted(self._held) if goes_on else ():
            self._append(partition, self._held[partition])
        if self._holds_commit and goes_on:
            self._call = self._core.begin_commit()
        self._held.clear()
        self._holds_commit = False


ENDED: Final[Mapping[str, str]] = {"COMMIT_ASKED": "COMMITTED", "ABORT_ASKED": "ABORTED"}
"""The outcome of a transaction when its call has succeeded."""


def seen_partition(
    state: str,
    membership: str,
    write: str,
    earlier: tuple[int, ...],
    next_sequence: int,
    is_v2: bool,
    bump_is_due: bool,
) -> View:
    """The compared part of a partition's state. While an abort is due, queued batches are hidden
    because they are not sent any more. Sequences that begin anew with the next transaction are
    hidden, too. `earlier` has the first sequences of the batches in flight before the newest."""
    ends = state in ("ABORTABLE_ERROR", "ABORTING")
    membership = "NEW" if membership == "ASKED" else membership
    if ends and membership == "NEW":
        membership = "OUT"
    if ends and write == "QUEUED":
        write = "NONE"
    begins_anew = (ends and (is_v2 or bump_is_due)) or state == "INITIALIZING"
    return (membership, write, earlier, NONE if begins_anew else next_sequence)


def seen_offsets(state: str, membership: str, write: str, is_v2: bool) -> View:
    """The compared part of the group's partition. Offsets have no sequences, V2 does not remember
    the group, and an error fails the call of `send_offsets_to_transaction`."""
    ends = state in ("ABORTABLE_ERROR", "ABORTING")
    membership = "NEW" if membership == "ASKED" else membership
    waits = write != "NONE" and not ends
    if is_v2 or (ends and membership == "NEW"):
        membership = "OUT"
    return (membership, "QUEUED" if waits else "NONE", (), NONE)


def producer_config(*, is_v2: bool, remembers: bool) -> ProducerConfig:
    """A configuration without backoff, linger and time-outs: the model says what is late."""
    config = ProducerConfig.of(
        transactional_id=TRANSACTIONAL_ID,
        transaction_requests="v2" if is_v2 else "v1",
        remember_groups=remembers,
        linger_ms=0,
        retry_backoff_ms=0,
        retry_backoff_max_ms=0,
    )
    return replace(config, request_timeout_ms=MAX_INT32, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)
