"""The sender of an asyncio producer: it drives a core over connections, and resolves futures.

1. One task polls the core, sends its requests, and sleeps until the core may have more work.
2. Requests to a node are sent in the core's order; a broken connection fails all of them.
3. The core's metadata is replaced when it requests that, and at least every metadata_max_age_ms.

Theory of operation: `notify` wakes the loop; `track_record` and `track_call` return futures that
the loop resolves. Source: `Sender.run`, `NetworkClient.poll` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from impl.client.connection import Body, Connection
from impl.client.network_client import NetworkClient, UnsupportedClusterError
from impl.producer.batch import DeliveryHandle
from impl.producer.core import Effect, IdempotentProducerCore, SendRequest
from impl.producer.errors import MalformedAnswerError, UnexpectedAnswerError
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.transactional_requests import CallResult
from impl.protocol.errors import ProtocolError
from impl.protocol.fields import TopicPartition
from impl.protocol.schemas import ApiKey

METADATA_MAX_AGE_MS: Final = 300_000
"""`metadata.max.age.ms`."""


class RecordMetadata(NamedTuple):
    """Where a record is; the offset is -1 if the leader no longer knows it."""

    topic: str
    partition: int
    offset: int


_Outcome = asyncio.Future[RecordMetadata]


_Waiting = tuple[DeliveryHandle, _Outcome]
"""A record's handle, and the future of its outcome."""


class _NodeLink:
    """A node's connection, or the requests that wait for one."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.waiting: list[SendRequest] = []


class Sender:
    """Runs one core on the network, and on the current event loop."""

    def __init__(
        self, core: IdempotentProducerCore, cluster: NetworkClient, retry_backoff_ms: int
    ) -> None:
        self._core = core
        self._cluster = cluster
        # Cached: get_running_loop costs a system call, and every record needs it.
        self._loop = asyncio.get_running_loop()
        self._retry_backoff_s = retry_backoff_ms / 1_000
        self._links: dict[int, _NodeLink] = {}
        self._wake = asyncio.Event()
        self._metadata_requested = asyncio.Event()
        self._changed = asyncio.Event()
        self._records: dict[TopicPartition, deque[_Waiting]] = {}
        self._calls: list[tuple[CallResult, asyncio.Future[None]]] = []
        self.topics: set[str] = set()

    def start(self) -> None:
        """Start the tasks; `NetworkClient.close` cancels them."""
        self.update_core()
        for loop in (self._poll, self._keep_metadata):
            self._cluster.start_task(self._run_guarded(loop))

    def now_ms(self) -> int:
        """Monotonic milliseconds: the event loop's clock."""
        return int(self._loop.time() * 1_000)

    def notify(self) -> None:
        """Wake the loop: the core may have work."""
        self._wake.set()

    # ---- futures

    def track_record(self, place: TopicPartition, handle: DeliveryHandle) -> _Outcome:
        """A future of the record's metadata, or its `DeliveryError`."""
        future: _Outcome = self._loop.create_future()
        waiting = self._records.get(place)
        if waiting is None:
            waiting = self._records[place] = deque()
        waiting.append((handle, future))
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
        for place in list(self._records):
            waiting = self._records[place]
            while waiting and waiting[0][0].done:
                self._resolve(place, *waiting.popleft())
            if not waiting:
                del self._records[place]
        for result, future in self._calls:
            if result.done and not future.done():
                future.set_result(None)
        self._calls = [waits for waits in self._calls if not waits[1].done()]
        self._changed.set()

    def _resolve(self, place: TopicPartition, handle: DeliveryHandle, future: _Outcome) -> None:
        if future.done():
            return
        if handle.error is None:
            future.set_result(RecordMetadata(*place, handle.offset))
            return
        future.set_exception(handle.error)
        if isinstance(self._core, TransactionalProducerCore):
            handle.error.legal_calls = self._core.legal_calls()
            # The commit raises it as well: the application need not await each record.
            future.exception()

    # ---- the loop

    async def _run_guarded(self, loop: Callable[[], Awaitable[None]]) -> None:
        """An unexpected error of a loop aborts the producer, so that no future stays open."""
        try:
            await loop()
        except Exception:
            self._core.abort()
            self.resolve_futures()
            raise

    async def _poll(self) -> None:
        loop = self._loop
        while True:
            self._wake.clear()
            for effect in self._core.poll(self.now_ms()):
                self._perform(effect)
            self.resolve_futures()
            if self._core.metadata_update_requested:
                self._metadata_requested.set()
            wait_ms = self._core.next_timeout_ms(self.now_ms())
            if wait_ms == 0:
                await asyncio.sleep(0)
                continue
            timer = None if wait_ms is None else loop.call_later(wait_ms / 1_000, self.notify)
            await self._wake.wait()
            if timer is not None:
                timer.cancel()

    def _perform(self, effect: Effect) -> None:
        link = self._links.get(effect.node_id)
        if not isinstance(effect, SendRequest):
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
        if request.api_key is ApiKey.PRODUCE and request.body["acks"] == 0:
            connection.send(request.api_key, request.api_version, request.body, None)
            self._core.confirm_sent(request.correlation_id, self.now_ms())
        else:
            on_answer = partial(self._on_answer, link, request)
            connection.send(request.api_key, request.api_version, request.body, on_answer)

    def _on_answer(self, link: _NodeLink, request: SendRequest, answer: Body | None) -> None:
        if answer is None or self._links.get(request.node_id) is not link:
            return
        try:
            self._core.receive(request.correlation_id, answer, self.now_ms())
        except (UnexpectedAnswerError, MalformedAnswerError):
            assert link.connection is not None
            link.connection.close()
        else:
            if request.api_key is ApiKey.FIND_COORDINATOR:
                self._cluster.read_coordinators(answer)
        self.notify()

    def _on_connection_lost(self, node_id: int, link: _NodeLink) -> None:
        """The node's connection broke, or could not be opened."""
        if self._links.get(node_id) is not link:
            return
        del self._links[node_id]
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

    async def _keep_metadata(self) -> None:
        while True:
            timer = self._loop.call_later(METADATA_MAX_AGE_MS / 1_000, self._metadata_requested.set)
            await self._metadata_requested.wait()
            timer.cancel()
            self._metadata_requested.clear()
            try:
                await self._cluster.refresh(self.topics)
                self.update_core()
            except (OSError, ProtocolError, UnsupportedClusterError):
                self._metadata_requested.set()
            # Limits the rate, even if every answer requests a refresh.
            await asyncio.sleep(self._retry_backoff_s)
