"""The sender of an asyncio producer: it drives a core over connections, and tells who waits.

1. One task polls the core, sends what it says, and sleeps until it may have more to say.
2. Requests to a node leave in the core's order; a node's connection ends with all of them.
3. What the core knows of the cluster is replaced whenever it asks for it, and at the latest after
   metadata_max_age_ms.

Theory of operation: `notify` wakes the loop; `outcome` and `ended` are futures that the loop sets
once the core knows. Source: `Sender.run`, `NetworkClient.poll` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from impl.client.cluster import Cluster, UnsupportedClusterError
from impl.client.connection import Body, Connection
from impl.producer.batch import DeliveryHandle, TopicPartition
from impl.producer.core import Effect, IdempotentProducerCore, SendRequest
from impl.producer.errors import MalformedAnswerError, UnexpectedAnswerError
from impl.producer.transactional_core import TransactionalProducerCore
from impl.producer.txn_requests import CallResult
from impl.protocol.errors import ProtocolError
from impl.protocol.schemas import ApiKey

METADATA_MAX_AGE_MS: Final = 300_000
"""`metadata.max.age.ms`."""


class RecordMetadata(NamedTuple):
    """Where a record is; the offset is -1 where the leader does not know it any more."""

    topic: str
    partition: int
    offset: int


_Outcome = asyncio.Future[RecordMetadata]


_Waiting = tuple[DeliveryHandle, _Outcome]
"""A record, and the future of who waits for its outcome."""


class _Link:
    """The way to one node: a connection, or what waits for one."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.waiting: list[SendRequest] = []


class Sender:
    """One core on the network, and on the event loop that runs when this is made."""

    def __init__(
        self, core: IdempotentProducerCore, cluster: Cluster, retry_backoff_ms: int
    ) -> None:
        self._core = core
        self._cluster = cluster
        # Kept: to ask for it costs a system call, and every record needs it.
        self._loop = asyncio.get_running_loop()
        self._retry_backoff_s = retry_backoff_ms / 1_000
        self._links: dict[int, _Link] = {}
        self._wake = asyncio.Event()
        self._metadata_is_wanted = asyncio.Event()
        self._changed = asyncio.Event()
        self._records: dict[TopicPartition, deque[_Waiting]] = {}
        self._calls: list[tuple[CallResult, asyncio.Future[None]]] = []
        self.topics: set[str] = set()

    def start(self) -> None:
        """Begin; `Cluster.close` ends it."""
        self.update_core()
        for loop in (self._poll, self._keep_metadata):
            self._cluster.start_task(self._guarded(loop))

    def now_ms(self) -> int:
        """Milliseconds of a clock that never goes back: that of the event loop."""
        return int(self._loop.time() * 1_000)

    def notify(self) -> None:
        """The core may have something to do."""
        self._wake.set()

    # ---- who waits for what

    def outcome(self, place: TopicPartition, handle: DeliveryHandle) -> _Outcome:
        """A future of the record's metadata, or its `DeliveryError`."""
        future: _Outcome = self._loop.create_future()
        waiting = self._records.get(place)
        if waiting is None:
            waiting = self._records[place] = deque()
        waiting.append((handle, future))
        self.notify()
        return future

    def ended(self, result: CallResult) -> asyncio.Future[None]:
        """A future that is set when the call has ended, well or not."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._calls.append((result, future))
        self.notify()
        return future

    async def changed(self) -> None:
        """Wait until the core may have changed: memory is free, metadata is there, all is sent."""
        self._changed.clear()
        await self._changed.wait()

    def settle(self) -> None:
        """Tell who waits. Records of a partition have their outcomes in the order of `send`."""
        for place in list(self._records):
            waiting = self._records[place]
            while waiting and waiting[0][0].done:
                self._tell(place, *waiting.popleft())
            if not waiting:
                del self._records[place]
        for result, future in self._calls:
            if result.done and not future.done():
                future.set_result(None)
        self._calls = [waits for waits in self._calls if not waits[1].done()]
        self._changed.set()

    def _tell(self, place: TopicPartition, handle: DeliveryHandle, future: _Outcome) -> None:
        if future.done():
            return
        if handle.error is None:
            future.set_result(RecordMetadata(*place, handle.offset))
            return
        future.set_exception(handle.error)
        if isinstance(self._core, TransactionalProducerCore):
            handle.error.legal_calls = self._core.legal_calls()
            # The commit tells of it, too: nobody has to look at each record.
            future.exception()

    # ---- the loop

    async def _guarded(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Nobody waits for ever: what a loop cannot go on with ends the producer."""
        try:
            await loop()
        except Exception:
            self._core.abort()
            self.settle()
            raise

    async def _poll(self) -> None:
        loop = self._loop
        while True:
            self._wake.clear()
            for effect in self._core.poll(self.now_ms()):
                self._perform(effect)
            self.settle()
            if self._core.metadata_update_requested:
                self._metadata_is_wanted.set()
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
            link = self._links[effect.node_id] = _Link()
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

    async def _connect(self, node_id: int, link: _Link) -> None:
        try:
            connection = await self._cluster.connect_node(node_id)
        except (OSError, UnsupportedClusterError):
            self._lost(node_id, link)
            return
        if self._links.get(node_id) is not link:
            return
        link.connection = connection
        connection.on_closed(partial(self._lost, node_id, link))
        self.update_core()
        for request in link.waiting:
            self._send(connection, link, request)
        link.waiting.clear()

    def _send(self, connection: Connection, link: _Link, request: SendRequest) -> None:
        if request.api_key is ApiKey.PRODUCE and request.body["acks"] == 0:
            connection.send(request.api_key, request.api_version, request.body, None)
            self._core.sent(request.correlation_id, self.now_ms())
        else:
            on_answer = partial(self._answered, link, request)
            connection.send(request.api_key, request.api_version, request.body, on_answer)

    def _answered(self, link: _Link, request: SendRequest, answer: Body | None) -> None:
        if answer is None or self._links.get(request.node_id) is not link:
            return
        try:
            self._core.receive(request.correlation_id, answer, self.now_ms())
        except (UnexpectedAnswerError, MalformedAnswerError):
            assert link.connection is not None
            link.connection.close()
        else:
            if request.api_key is ApiKey.FIND_COORDINATOR:
                self._learn_coordinators(answer)
        self.notify()

    def _learn_coordinators(self, answer: Body) -> None:
        for row in answer.get("coordinators") or [answer]:
            if row["node_id"] >= 0:
                self._cluster.nodes.setdefault(row["node_id"], (row["host"], row["port"]))

    def _lost(self, node_id: int, link: _Link) -> None:
        """The node's connection has ended, or was never there."""
        if self._links.get(node_id) is not link:
            return
        del self._links[node_id]
        self._core.disconnected(node_id, self.now_ms())
        self._metadata_is_wanted.set()
        self.notify()

    # ---- metadata

    def want_metadata(self) -> None:
        """Ask the cluster again."""
        self._metadata_is_wanted.set()

    def update_core(self) -> None:
        """Tell the core what is known of the cluster."""
        self._core.update_metadata(self._cluster.leaders, self._cluster.leader_epochs)
        if isinstance(self._core, TransactionalProducerCore):
            self._core.update_nodes(self._cluster.nodes)
            self._core.update_level(self._cluster.transaction_version)
        self._changed.set()
        self.notify()

    async def _keep_metadata(self) -> None:
        while True:
            timer = self._loop.call_later(METADATA_MAX_AGE_MS / 1_000, self._metadata_is_wanted.set)
            await self._metadata_is_wanted.wait()
            timer.cancel()
            self._metadata_is_wanted.clear()
            try:
                await self._cluster.refresh(self.topics)
                self.update_core()
            except (OSError, ProtocolError, UnsupportedClusterError):
                self._metadata_is_wanted.set()
            # Not more often than this, also if every answer asks for it.
            await asyncio.sleep(self._retry_backoff_s)
