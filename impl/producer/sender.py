"""The sender of an asyncio producer: it drives a core over connections, and resolves futures.

1. The core is polled, and its requests are sent, whenever it may have work: after calls of the
   application, once in a turn of the event loop; with each answer; and when something is due.
2. Requests to a node are sent in the core's order; a broken connection fails all of them.
3. The core's metadata is replaced when it requests that, and at least every metadata_max_age_ms.

Theory of operation: `notify` schedules `_run`; `track_record` and `track_call` return futures that
it resolves. Source: `Sender.run`, `NetworkClient.poll` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from functools import partial
from typing import Final

from impl.client.connection import Body, Connection
from impl.client.network_client import NetworkClient, UnsupportedClusterError
from impl.clock import Timer
from impl.producer.batch import ProducerBatch
from impl.producer.config import ProducerConfig
from impl.producer.core import Effect, IdempotentProducerCore, SendRequest
from impl.producer.errors import DeliveryError, MalformedAnswerError, UnexpectedAnswerError
from impl.producer.interceptors import Interceptors
from impl.producer.metrics import ProducerMetrics
from impl.producer.record_metadata import RecordMetadata, record_metadata
from impl.producer.sender_log import SenderLog
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.transactional_requests import CallResult
from impl.protocol.errors import ProtocolError
from impl.protocol.fields import TopicPartition
from impl.protocol.schemas import ApiKey

MOST_POLLS: Final = 8
"""So many polls at once: then other work of the event loop gets its turn."""

_Outcome = asyncio.Future[RecordMetadata]


class _NodeLink:
    """A node's connection, or the requests that wait for one."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.waiting: list[SendRequest] = []


class Sender:
    """Runs one core on the network, and on the current event loop."""

    def __init__(
        self,
        core: IdempotentProducerCore,
        cluster: NetworkClient,
        config: ProducerConfig,
        metrics: ProducerMetrics,
        interceptors: Interceptors,
    ) -> None:
        self._core = core
        self._cluster = cluster
        self._metrics = metrics
        self._interceptors = interceptors
        self._log = SenderLog(core, config.client_id)
        # Cached: get_running_loop costs a system call, and every record needs it.
        self._loop = asyncio.get_running_loop()
        self._clock = cluster.clock
        self._create_future = self._loop.create_future
        self._retry_backoff_s = config.retry_backoff_ms / 1_000
        self._metadata_max_age_s = config.metadata_max_age_ms / 1_000
        self._links: dict[int, _NodeLink] = {}
        self._scheduled: asyncio.Handle | None = None
        self.is_closed = False
        self._timer: Timer | None = None
        self._metadata_requested = asyncio.Event()
        self._changed = asyncio.Event()
        self._batches: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._calls: list[tuple[CallResult, asyncio.Future[None]]] = []
        self.topics: set[str] = set()

    def start(self) -> None:
        """Start; `NetworkClient.close` cancels the tasks."""
        self.update_core()
        self._cluster.start_task(self._run_metadata())

    def close(self) -> None:
        """Poll no more."""
        self.is_closed = True
        for handle in (self._scheduled, self._timer):
            if handle is not None:
                handle.cancel()

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return int(self._clock.time_s() * 1_000)

    def notify(self) -> None:
        """The core may have work: poll it in the next turn of the event loop."""
        if self._scheduled is None and not self.is_closed:
            self._scheduled = self._loop.call_soon(self._run)

    # ---- futures

    def track_record(self, batch: ProducerBatch, is_awaited: bool = False) -> _Outcome:
        """A future of the metadata of the batch's last record, or its `DeliveryError`.

        A record that its caller waits for leaves now if no other one is on its way; those that may
        follow without a pause leave together, in the next turn of the event loop.
        """
        future: _Outcome = self._create_future()
        is_alone = not self._batches
        if not batch.thunks:
            self._batches.setdefault(batch.topic_partition, deque()).append(batch)
        elif not batch.is_full:
            batch.thunks.append(future)
            return future
        batch.thunks.append(future)
        if is_awaited and is_alone:
            self._run()
        else:
            self.notify()
        return future

    def track_call(self, result: CallResult) -> asyncio.Future[None]:
        """A future that is resolved when the call is done, successful or not."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._calls.append((result, future))
        self.notify()
        return future

    async def wait_for_change(self) -> None:
        """Wait until the core may have free memory, new metadata, or finished records."""
        self._changed.clear()
        await self._changed.wait()

    def resolve_futures(self) -> None:
        """Resolve what is done. Records of a partition are resolved in the order of `send`."""
        for place in list(self._batches):
            waiting = self._batches[place]
            while waiting and (waiting[0].is_done or waiting[0].parts):
                batch = waiting.popleft()
                if batch.parts:
                    waiting.extendleft(reversed(batch.parts))
                else:
                    self._resolve(batch)
            if not waiting:
                del self._batches[place]
        for result, future in self._calls:
            if result.done and not future.done():
                future.set_result(None)
        self._calls = [waits for waits in self._calls if not waits[1].done()]
        self._changed.set()

    def _resolve(self, batch: ProducerBatch) -> None:
        """Resolve the futures of a batch that is done."""
        self._metrics.on_batch(batch)
        if batch.error is not None:
            self._fail(batch.thunks, batch.error)
            found: Sequence[RecordMetadata | None] = [None] * len(batch.thunks)
        else:
            found = record_metadata(batch)
            # A batch that the application filled has one future.
            for future, metadata in zip(batch.thunks, found, strict=False):
                if not future.done():
                    future.set_result(metadata)
        if self._interceptors and not batch.is_whole:
            for each in found:
                self._interceptors.on_acknowledgement(each, batch.error)

    def _fail(self, futures: Iterable[_Outcome], error: DeliveryError) -> None:
        is_transactional = isinstance(self._core, TransactionalProducerCore)
        if isinstance(self._core, TransactionalProducerCore):
            error.legal_calls = self._core.legal_calls()
        for future in futures:
            if not future.done():
                # Each has an error of its own, to which its traceback is added.
                future.set_exception(copy(error))
                if is_transactional:
                    # The commit raises it as well: the application need not await each record.
                    future.exception()

    # ---- the loop

    def _run(self) -> None:
        try:
            self._poll()
        except Exception:
            self._abort()

    def _abort(self) -> None:
        """After an unexpected error the producer is aborted, so that no future stays open."""
        self._log.note_defect()
        self._core.abort()
        self.resolve_futures()

    def _poll(self) -> None:
        if self._scheduled is not None:
            self._scheduled.cancel()
            self._scheduled = None
        core = self._core
        for _ in range(MOST_POLLS):
            effects = core.poll(self.now_ms())
            for effect in effects:
                self._perform(effect)
            if not effects:
                break
        self.resolve_futures()
        self._log.note_changes()
        if core.metadata_update_requested:
            self._metadata_requested.set()
        wait_ms = core.next_timeout_ms(self.now_ms())
        if wait_ms == 0:
            self.notify()
        elif wait_ms is not None:
            self._run_after(wait_ms / 1_000)

    def _run_after(self, wait_s: float) -> None:
        """Set a timer, unless there is one already: to wake too early costs less than a timer."""
        timer = self._timer
        if timer is not None:
            if timer.due_s <= self._clock.time_s() + wait_s:
                return
            timer.cancel()
        if not self.is_closed:
            self._timer = self._clock.call_later(wait_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._run()

    def _perform(self, effect: Effect) -> None:
        link = self._links.get(effect.node_id)
        if not isinstance(effect, SendRequest):
            self._log.note_overdue(effect.node_id)
            self._drop(effect.node_id)
        elif link is None:
            link = self._links[effect.node_id] = _NodeLink()
            link.waiting.append(effect)
            self._cluster.start_task(self._connect(effect.node_id, link))
        elif link.connection is None:
            link.waiting.append(effect)
        else:
            self._send(link.connection, link, effect)

    def _drop(self, node_id: int) -> None:
        link = self._links.pop(node_id, None)
        if link is not None and link.connection is not None:
            link.connection.close()

    async def _connect(self, node_id: int, link: _NodeLink) -> None:
        try:
            connection = await self._cluster.connect_node(node_id)
        except (OSError, UnsupportedClusterError):
            self._on_connection_lost(node_id, link)
            return
        if self._links.get(node_id) is not link:
            return
        link.connection = connection
        connection.on_closed(partial(self._on_connection_lost, node_id, link))
        self.update_core()
        for request in link.waiting:
            self._send(connection, link, request)
        link.waiting.clear()

    def _send(self, connection: Connection, link: _NodeLink, request: SendRequest) -> None:
        self._metrics.on_request()
        if request.api_key == ApiKey.PRODUCE:
            self._metrics.on_produce(request.body)
        if request.api_key == ApiKey.PRODUCE and request.body["acks"] == 0:
            connection.send(request.api_key, request.api_version, request.body, None)
            self._core.confirm_sent(request.correlation_id, self.now_ms())
        else:
            on_answer = partial(self._on_answer, link, request, self._clock.time_s())
            connection.send(request.api_key, request.api_version, request.body, on_answer)

    def _on_answer(
        self, link: _NodeLink, request: SendRequest, sent_s: float, answer: Body | None
    ) -> None:
        if answer is None or self._links.get(request.node_id) is not link:
            return
        self._metrics.on_answer((self._clock.time_s() - sent_s) * 1_000, answer)
        try:
            self._core.receive(request.correlation_id, answer, self.now_ms())
        except (UnexpectedAnswerError, MalformedAnswerError):
            assert link.connection is not None
            link.connection.close()
        else:
            self._log.note_answer(request, answer, self.now_ms())
            if request.api_key == ApiKey.FIND_COORDINATOR:
                self._cluster.read_coordinators(answer)
        self._run()

    def _on_connection_lost(self, node_id: int, link: _NodeLink) -> None:
        """The node's connection broke, or could not be opened."""
        if self._links.get(node_id) is not link:
            return
        del self._links[node_id]
        # What cannot be reached is logged where it is tried; `stop` closes connections, too.
        if link.connection is not None and not self.is_closed:
            self._log.note_lost(node_id)
        self._core.disconnected(node_id, self.now_ms())
        self._metadata_requested.set()
        self.notify()

    # ---- metadata

    def request_metadata(self) -> None:
        """Request a metadata refresh."""
        self._metadata_requested.set()

    def update_core(self) -> None:
        """Pass the cluster's metadata to the core."""
        self._core.update_metadata(self._cluster.leaders, self._cluster.leader_epochs)
        if isinstance(self._core, TransactionalProducerCore):
            self._core.update_nodes(self._cluster.nodes)
            self._core.update_level(self._cluster.transaction_version)
        self._changed.set()
        self.notify()

    async def _run_metadata(self) -> None:
        try:
            await self._keep_metadata()
        except Exception:
            self._abort()

    async def _keep_metadata(self) -> None:
        while True:
            timer = self._clock.call_later(self._metadata_max_age_s, self._metadata_requested.set)
            await self._metadata_requested.wait()
            timer.cancel()
            self._metadata_requested.clear()
            try:
                await self._cluster.refresh(self.topics)
                self.update_core()
            except (OSError, ProtocolError, UnsupportedClusterError):
                self._metadata_requested.set()
            # Limits the rate, even if every answer requests a refresh.
            await self._clock.sleep(self._retry_backoff_s)
