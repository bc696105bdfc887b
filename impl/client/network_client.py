"""A client's connections to a cluster, and what it knows of it: nodes, leaders, versions.

1. Every connection begins with ApiVersions; the newest finalized features of all answers apply.
2. Metadata is requested from any node that answers: known ones first, then bootstrap servers.
3. Connections are kept by address, and opened on first use. An address that cannot be reached is
   left alone for a while (`connection_states`). What a broker may answer late, because
   it waits for others, goes *apart*, on a connection of its own: a broker answers in order.

Source: `NetworkClient`, `Metadata`, `ApiVersions` of Kafka 4.3.1; KIP-511, KIP-584.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final

from impl.addresses import Address, parse_addresses
from impl.client.connection import Body, Connection
from impl.client.connection_states import ConnectionStates
from impl.client.errors import IllegalStateError
from impl.client.missing_topics import MissingTopics
from impl.client.security import NO_SECURITY, AuthenticationFailedError, ClientSecurity
from impl.client.transport import Network
from impl.clock import LoopClock, SharedClock, clock_of
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import TopicPartition
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import SUPPORTED_VERSIONS, ApiKey

_log = logging.getLogger(__name__)

START_ATTEMPTS: Final = 5
"""How many connections may break while a client starts."""

SETUP_TIMEOUT_S: Final = 10
"""How long a connection may take until it is authenticated, however short requests may be.

The default of Kafka's `socket.connection.setup.timeout.ms`.
"""

BROKEN: Final = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
"""What comes of a peer that is there, and expects another protocol."""

API_VERSIONS_VERSIONS: Final = (4, 0)
"""The newest version, and the one that every broker supports."""

NEWEST: Final[Mapping[ApiKey, int]] = {
    ApiKey.METADATA: 12,
    ApiKey.FETCH: 13,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.OFFSET_COMMIT: 10,
    ApiKey.JOIN_GROUP: 7,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
}
"""The newest versions of which something is used, and that let each leader of a classic group
assign."""


class NoBrokersAvailable(ConnectionError):
    """No node of the cluster can be reached: check `bootstrap_servers`, or try again later."""


class UnsupportedClusterError(Exception):
    """The cluster and this client have no version of an API in common: upgrade one of them."""


class NetworkClient:
    """The connections and metadata of one client.

    Attributes: `leaders` and `leader_epochs` by (topic, partition), -1 for none; `partitions`,
    their number by topic; `topic_names` by topic id, and `topic_ids` by name; `topic_errors` of the
    last metadata; `nodes`, addresses by node id; `internal_topics`; `served`, (oldest, newest)
    version by API key; `transaction_version`, the finalized level, -1
    for none. `on_topic_replaced` is called with a topic's name when it has another id: it was
    deleted and created again, and nothing that was known of it holds.
    """

    def __init__(
        self,
        network: Network,
        bootstrap_servers: str | Iterable[str],
        client_id: str,
        request_timeout_ms: int,
        security: ClientSecurity = NO_SECURITY,
        rng: Random | None = None,
        clock: SharedClock | None = None,
    ) -> None:
        """`rng` makes the jitter of backoffs; `clock` is by default that of `bootstrap_servers`, if
        this process serves there. Raises `InvalidBootstrapServers`."""
        self._network = network
        self._states = ConnectionStates(rng)
        self._security = security
        self._bootstrap: Sequence[Address] = parse_addresses(bootstrap_servers)
        self._client_id = client_id
        self._timeout_s = request_timeout_ms / 1_000
        self._connections: dict[tuple[Address, bool], Connection] = {}
        self._locks: dict[tuple[Address, bool], asyncio.Lock] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._features_epoch = -1
        self._is_closed = False
        self._shared_clock = clock
        self._clock: LoopClock | None = None
        self.nodes: dict[int, Address] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.leader_epochs: dict[TopicPartition, int] = {}
        self.partitions: dict[str, int] = {}
        self.topic_names: dict[bytes, str] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.on_topic_replaced: Callable[[str], None] = lambda topic: None
        self._replaced_ids: set[bytes] = set()
        self.topic_errors: dict[str, ErrorCode] = {}
        self._missing = MissingTopics()
        self.internal_topics: set[str] = set()
        self.served: dict[int, tuple[int, int]] = {}
        self.transaction_version = -1

    def __del__(self) -> None:
        """Warn of a client that its application has forgotten, as aiokafka does."""
        if getattr(self, "_connections", None) and not self._is_closed:
            warnings.warn(  # noqa: B028 - nobody calls this
                f"{self._client_id!r} was not stopped: what it had not sent is lost, and a group"
                " waits for it. Use `async with`, or call `stop`",
                ResourceWarning,
                source=self,  # whose place of creation tracemalloc knows
            )

    def version(self, api_key: ApiKey) -> int:
        """The version to send. Raises `UnsupportedClusterError`."""
        return self.newest(api_key, range(SUPPORTED_VERSIONS[api_key].first, NEWEST[api_key] + 1))

    def newest(self, api_key: ApiKey, mine: range) -> int:
        """The newest version that the cluster serves, too. Raises `UnsupportedClusterError`."""
        oldest, newest = self.served.get(api_key, (0, -1))
        version = min(newest, mine[-1])
        if version < max(oldest, mine[0]):
            brokers = f"served from {oldest} to {newest}" if newest >= 0 else "not served"
            client = f"this client supports {mine[0]} to {mine[-1]}"
            raise UnsupportedClusterError(
                f"{api_key.name} is {brokers}, {client}: upgrade one of them"
            )
        return version

    @property
    def clock(self) -> LoopClock:
        """The time of this client, on the event loop of its first use."""
        if self._clock is None:
            self._clock = LoopClock(self._shared_clock or clock_of(self._bootstrap))
        return self._clock

    # ---- connections

    async def connect(self, address: Address, apart: bool = False) -> Connection:
        """The open connection to this address, or a new one.

        Raises `OSError`, `AuthenticationFailedError` among them, and `UnsupportedClusterError` if
        ApiVersions is refused.
        """
        key = (address, apart)
        async with self._locks.setdefault(key, asyncio.Lock()):
            connection = self._connections.get(key)
            if connection is None or connection.is_closed:
                async with self.clock.timeout(SETUP_TIMEOUT_S):
                    connection = await self._open(address)
                self._connections[key] = connection
            return connection

    async def _open(self, address: Address) -> Connection:
        name = "{}:{}".format(*address)
        self._states.check(name, self.clock.time_s())
        try:
            connection = await Connection.open(self._network, *address, self._client_id)
        except OSError as error:
            self._states.note_failure(name, error, self.clock.time_s())
            raise
        self._states.note_success(name)
        try:
            self._check_open()
            await self._request_versions(connection)
            await self._security.authenticate(connection)
        except BaseException:
            connection.close()
            await connection.wait_closed()
            raise
        _log.debug("connected to %s", name)
        return connection

    async def connect_node(self, node_id: int, apart: bool = False) -> Connection:
        """As `connect`, by node id. Raises `NoBrokersAvailable` for an unknown node."""
        address = self.nodes.get(node_id)
        if address is None:
            raise NoBrokersAvailable(f"the address of node {node_id} is unknown")
        return await self.connect(address, apart)

    def hang_up(self) -> None:
        """Close the connections for what is answered late; requests without an answer fail."""
        for (_, apart), connection in self._connections.items():
            if apart:
                connection.close()

    async def any_connection(self) -> Connection:
        """A connection to the first node that can be reached.

        Raises `NoBrokersAvailable`, `AuthenticationFailedError`, `UnsupportedClusterError`.
        """
        for (_, apart), connection in self._connections.items():
            if not apart and not connection.is_closed:
                return connection
        addresses = dict.fromkeys([*self.nodes.values(), *self._bootstrap])
        refusals: list[str] = []
        hint = ""
        for address in addresses:
            try:
                return await self.connect(address)
            except AuthenticationFailedError:
                raise
            except OSError as error:
                refusals.append(f"{address[0]}:{address[1]} ({str(error) or type(error).__name__})")
                if isinstance(error, BROKEN) or "SSL" in type(error).__name__:
                    hint = f": {self._security.hint}"
        raise NoBrokersAvailable(f"no broker can be reached at {', '.join(refusals)}{hint}")

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the client closes. Raises `OSError` if it is closed."""
        if self._is_closed:
            work.close()
        self._check_open()
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        return task

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionAbortedError("the client is stopped")

    async def _request_versions(self, connection: Connection) -> None:
        names = {"client_software_name": "kafka-eos", "client_software_version": "0.1.0"}
        for version in API_VERSIONS_VERSIONS:
            answer = await connection.request(ApiKey.API_VERSIONS, version, names)
            if answer["error_code"] == ErrorCode.NONE:
                self._update_versions(answer)
                return
        refusal = ErrorCode.of(answer["error_code"])
        raise UnsupportedClusterError(f"ApiVersions was refused: {refusal.name}")

    def _update_versions(self, answer: Body) -> None:
        self.served = {
            row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]
        }
        if answer["finalized_features_epoch"] < self._features_epoch:
            return
        self._features_epoch = answer["finalized_features_epoch"]
        levels = {row["name"]: row["max_version_level"] for row in answer["finalized_features"]}
        self.transaction_version = levels.get("transaction.version", -1)

    async def close(self) -> None:
        """Close all connections and tasks; no new ones are opened."""
        self._is_closed = True
        for connection in list(self._connections.values()):
            connection.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections.values():
            await connection.wait_closed()

    def read_coordinators(self, answer: Body) -> list[Body]:
        """The rows of a FindCoordinator answer, whose nodes can be connected to from now on."""
        rows: list[Body] = answer.get("coordinators") or [answer]
        for row in rows:
            if row["node_id"] >= 0:
                self.nodes.setdefault(row["node_id"], (row["host"], row["port"]))
        return rows

    # ---- metadata

    async def start(self) -> None:
        """Get the nodes of the cluster.

        Raises `NoBrokersAvailable`, `AuthenticationFailedError`, as `refresh`.
        """
        self._clock = None  # it may be another event loop than that of a start that failed
        for _ in range(START_ATTEMPTS):
            try:
                await self.refresh(())
                return
            except (NoBrokersAvailable, AuthenticationFailedError):
                raise
            except OSError:
                continue
        reached = ", ".join("{}:{}".format(*address) for address, _ in self._connections)
        raise NoBrokersAvailable(
            f"{START_ATTEMPTS} connections to {reached} broke: {self._security.hint}"
        )

    def check_loop(self) -> None:
        """Raises `IllegalStateError` on another event loop than that of `start`: a call there would
        wait for what happens here, for ever."""
        if self._clock and self._clock.loop is not asyncio.get_running_loop():
            raise IllegalStateError("it was started on another event loop: call it there")

    async def refresh(self, topics: Collection[str] | None) -> None:
        """Request the leaders of these topics, or of all that there are: other ones are forgotten.

        Raises `OSError`, `UnsupportedClusterError`.
        """
        connection = await self.any_connection()
        body = {
            "topics": None if topics is None else [{"name": topic} for topic in sorted(topics)],
            "allow_auto_topic_creation": topics is not None,
        }
        async with self.clock.timeout(self._timeout_s):
            version = self.version(ApiKey.METADATA)
            answer = await connection.request(ApiKey.METADATA, version, body)
        if topics is None:
            found = {row["name"] for row in answer["topics"]}
            self.partitions = {name: n for name, n in self.partitions.items() if name in found}
        self._update_metadata(answer)

    def _update_metadata(self, answer: Body) -> None:
        self.nodes = {row["node_id"]: (row["host"], row["port"]) for row in answer["brokers"]}
        for topic in answer["topics"]:
            if topic["error_code"]:
                self._update_error(topic["name"], ErrorCode.of(topic["error_code"]))
            else:
                self._update_topic(topic)

    def _update_topic(self, topic: Body) -> None:
        """A broker that lags names a leader that was replaced: its older epoch is ignored, as is a
        topic that was replaced.

        `Metadata.updateLatestMetadata`.
        """
        name, topic_id = topic["name"], topic.get("topic_id", ZERO_UUID)
        if topic_id in self._replaced_ids:
            return
        known = self.topic_ids.get(name, ZERO_UUID)
        is_same = known == topic_id
        if ZERO_UUID not in (known, topic_id) and not is_same:
            self._replace_topic(name, known)
        self.topic_errors.pop(name, None)
        self._missing.forget(name)
        self.partitions[name] = len(topic["partitions"])
        self.topic_names[topic_id] = name
        self.topic_ids[name] = topic_id
        if topic["is_internal"]:
            self.internal_topics.add(name)
        for row in topic["partitions"]:
            place, epoch = (name, row["partition_index"]), row["leader_epoch"]
            if not is_same or epoch < 0 or epoch >= self.leader_epochs.get(place, -1):
                self.leaders[place] = row["leader_id"]
                self.leader_epochs[place] = epoch

    def _replace_topic(self, name: str, topic_id: bytes) -> None:
        """Forget the topic that had this name."""
        _log.warning("topic %r was deleted and created again", name)
        self._replaced_ids.add(topic_id)
        self.topic_names.pop(topic_id, None)
        for place in [place for place in self.leaders if place[0] == name]:
            del self.leaders[place]
            self.leader_epochs.pop(place, None)
        self.on_topic_replaced(name)

    def _update_error(self, topic: str, error: ErrorCode) -> None:
        self._missing.note(topic, error, self.clock.time_s())
        self.topic_errors[topic] = error
