"""A consumer's requests: to leaders and to its group's coordinator, and what is done on errors.

1. A retriable error is retried, after a backoff and a refresh of the metadata, until the call's
   timeout.
2. Any other error is raised as `RefusedError`.
3. Refreshes that are wanted at the same time are one.

Source: `ConsumerNetworkClient`, `AbstractCoordinator` of Kafka 4.3.1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, NoReturn, TypeVar

from impl.client.connection import Body, Connection
from impl.client.errors import IllegalStateError, KafkaTimeoutError
from impl.client.network_client import NetworkClient
from impl.consumer.errors import RefusedError
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CoordinatorType, TopicPartition
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import ApiKey

T = TypeVar("T")

COORDINATOR_ERRORS: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT}
)

NEWEST_BY_NAME: Final[Mapping[ApiKey, int]] = {ApiKey.FETCH: 12, ApiKey.OFFSET_COMMIT: 9}
"""The newest versions that name topics; later ones have their ids."""


class RetriableError(Exception):
    """A request should be repeated later; the message says why."""


def only_row(answer: Body, what: str) -> Body:
    """The row of the requested partition. Raises `RetriableError` if there is none."""
    rows: list[Body] = [row for topic in answer["topics"] for row in topic["partitions"]]
    if len(rows) != 1:
        raise RetriableError(f"{what}: the answer has {len(rows)} partitions, not 1")
    return rows[0]


class ConsumerRequests:
    """The requests of one consumer. Public state: `topics`, whose metadata is requested, and
    `reads_any_topic`, if that of all others is, too; `on_metadata`, which is called after each
    answer. Read-only: `sent`, how many requests were sent.

    `check_started` raises `IllegalStateError` unless the consumer runs.
    """

    def __init__(
        self,
        cluster: NetworkClient,
        check_started: Callable[[], None],
        *,
        group_id: str | None,
        request_timeout_ms: int,
        retry_backoff_ms: int,
        default_api_timeout_ms: int,
        metadata_max_age_ms: int,
    ) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self.topics: set[str] = set()
        self.reads_any_topic = False
        self.on_metadata: Callable[[], None] = lambda: None
        self.sent = 0
        self.backoff_s = retry_backoff_ms / 1_000
        self.check_started = check_started
        self.request_timeout_s = request_timeout_ms / 1_000
        self._timeout_s = default_api_timeout_ms / 1_000
        self._max_age_s = metadata_max_age_ms / 1_000
        self._coordinator: int | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def ask(
        self,
        connection: Connection,
        api_key: ApiKey,
        body: Body,
        more_s: float = 0.0,
        topics: Collection[str] = (),
    ) -> Body:
        """Ask one broker, which may take `more_s` longer. Raises `OSError`, a timeout included.

        `topics` are those that the newer versions name by id.
        """
        self.sent += 1
        version = self.cluster.version(api_key)
        ids = self.cluster.topic_ids
        if any(ids.get(topic, ZERO_UUID) == ZERO_UUID for topic in topics):
            version = min(version, NEWEST_BY_NAME[api_key])
        async with self.cluster.clock.timeout(self.request_timeout_s + more_s):
            return await connection.request(api_key, version, body)

    def with_ids(self, topics: Iterable[Body], name: str = "name") -> list[Body]:
        """Rows of a request whose newer versions name topics by id; `name` is the older field."""
        ids = self.cluster.topic_ids
        return [{**row, "topic_id": ids.get(row[name], ZERO_UUID)} for row in topics]

    def name_of(self, topic: Body, name: str = "name") -> str:
        """The topic of a row of an answer; "" for an id that no topic has now."""
        return topic.get(name) or self.cluster.topic_names.get(topic["topic_id"], "")

    async def ask_leader(self, place: TopicPartition, api_key: ApiKey, body: Body) -> Body:
        """Ask the partition's leader. Raises as `ask`, `RetriableError`, `RefusedError`."""
        await self.load_metadata()
        node_id = self.cluster.leaders.get(place, -1)
        if node_id < 0:
            self.raise_no_leader(place)
        return await self.ask(await self.cluster.connect_node(node_id), api_key, body)

    async def ask_coordinator(
        self, api_key: ApiKey, body: Body, more_s: float = 0.0, topics: Collection[str] = ()
    ) -> Body:
        """Ask the group's coordinator. Raises as `ask_leader`, `IllegalStateError`."""
        if self.group_id is None:
            raise IllegalStateError(
                f"{api_key.name} without a group_id: create a consumer with one"
            )
        if self._coordinator is None:
            self._coordinator = await self._find_coordinator(self.group_id)
        connection = await self.cluster.connect_node(self._coordinator, apart=True)
        return await self.ask(connection, api_key, body, more_s, topics)

    async def _find_coordinator(self, group_id: str) -> int:
        asked = {
            "key": group_id,
            "key_type": CoordinatorType.GROUP,
            "coordinator_keys": [group_id],
        }
        connection = await self.cluster.any_connection()
        answer = await self.ask(connection, ApiKey.FIND_COORDINATOR, asked)
        row = self.cluster.read_coordinators(answer)[0]
        self.check(row["error_code"], f"FindCoordinator of {group_id}")
        node_id: int = row["node_id"]
        return node_id

    def raise_no_leader(self, place: TopicPartition) -> NoReturn:
        """Raise `RefusedError` for a topic that the cluster refuses, else `RetriableError`."""
        error = self.cluster.topic_errors.get(place[0], ErrorCode.NONE)
        self.check(error, f"metadata of topic {place[0]!r}")
        raise RetriableError(f"{place} has no leader")

    def check(self, code: int, what: str) -> None:
        """Raise `RetriableError` for a retriable error, else `RefusedError`."""
        if code == ErrorCode.NONE:
            return
        error = ErrorCode.of(code)
        if error in COORDINATOR_ERRORS:
            self._coordinator = None
        if error.is_retriable:
            raise RetriableError(f"{what}: {error.name}")
        raise RefusedError(error, what)

    async def retry_until_timeout(self, attempt: Callable[[], Awaitable[T]], what: str) -> T:
        """The result of the first attempt without a retriable error.

        Raises `KafkaTimeoutError` after default_api_timeout_ms, `RefusedError`.
        """
        why = ""
        try:
            async with self.cluster.clock.timeout(self._timeout_s):
                while True:
                    self.check_started()
                    try:
                        return await attempt()
                    except (RetriableError, OSError) as error:
                        why = f" ({str(error) or type(error).__name__})"
                        await self.refresh()
        except TimeoutError:
            late = f"{what}: no answer within {self._timeout_s} s{why}"
            raise KafkaTimeoutError(late) from None

    # ---- metadata

    def start(self) -> None:
        """Refresh the metadata whenever it is too old, from now on."""
        self.cluster.start_task(self._keep_metadata_fresh())

    async def _keep_metadata_fresh(self) -> None:
        while True:
            await self.cluster.clock.sleep(self._max_age_s)
            await self.request_metadata()

    async def load_metadata(self) -> None:
        """Request metadata of topics that have none."""
        if not self.topics <= self.cluster.partitions.keys():
            await self.request_metadata()

    async def refresh(self) -> None:
        """Back off, and request metadata."""
        if self._refreshing is None or self._refreshing.done():
            try:
                self._refreshing = self.cluster.start_task(self._back_off_and_refresh())
            except OSError:  # the client is stopped, which the next attempt finds out
                return
        await asyncio.wait([self._refreshing])

    async def _back_off_and_refresh(self) -> None:
        await self.cluster.clock.sleep(self.backoff_s)
        self._coordinator = None
        await self.request_metadata()

    async def request_metadata(self) -> None:
        """Request the metadata of all topics of this consumer; a failure shows in the next use."""
        try:
            await self.cluster.refresh(None if self.reads_any_topic else self.topics)
        except OSError:
            return
        self.on_metadata()

    async def count_partitions(self, topic: str) -> int:
        """How many a topic has. Raises `KafkaTimeoutError`, `RefusedError`."""

        async def attempt() -> int:
            self.topics.add(topic)
            await self.load_metadata()
            if topic not in self.cluster.partitions:
                self.raise_no_leader((topic, 0))
            return self.cluster.partitions[topic]

        return await self.retry_until_timeout(attempt, f"metadata of topic {topic!r}")

    async def all_topics(self) -> set[str]:
        """The topics of the cluster that this client may read, without internal ones."""

        async def attempt() -> set[str]:
            await self.cluster.refresh(None)
            return self.cluster.partitions.keys() - self.cluster.internal_topics

        return await self.retry_until_timeout(attempt, "metadata of all topics")
