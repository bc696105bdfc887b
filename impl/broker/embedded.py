"""A Kafka cluster in this process, for the clients of any hand.

1. Each node has a server on a port of its own; nodes share topics, and allocate producer ids from
   one place. Everything is in memory, and in the files of a directory, if one is given.
2. `async with` serves on the current event loop, `with` on a thread of its own: for clients that
   block, and for tests without an event loop.
3. When a node stops, others that run lead its partitions: those that have replicas, or any other
   of a partition with one replica. When all have stopped, each waits for a node that may lead.
4. An empty group begins its first rebalance at once, where Kafka's default is to wait 3 s.
5. A node starts with its first block of producer ids, where Kafka's asks for it when it needs an
   id, and lets that client wait for its retry backoff.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.embedded_arguments import check_arguments, check_ports
from impl.broker.event_loop import new_event_loop
from impl.broker.injected_faults import InjectedFaults
from impl.broker.listeners import Answer, Handle
from impl.broker.monotonic_time import wall_clock_ms
from impl.broker.node import Node
from impl.broker.plain_errors import ends_at_the_call, refuses_plainly
from impl.broker.producer_ids import BLOCK_SIZE, ProducerIdBlocks
from impl.broker.releases import NEWEST_RELEASE
from impl.broker.resource_configs import ALL_BROKERS, ConfigResourceType
from impl.broker.server import Server
from impl.broker.timeline import Timeline
from impl.broker.topics import check_new_name
from impl.clock import SharedClock, announce, withdraw
from impl.coordinator.group_config import ConsumerGroupConfig, GroupConfig
from impl.log.disk import DirectoryDisk
from impl.security.config import Security
from impl.settings import InvalidArgument

if TYPE_CHECKING:
    from impl.broker.log_view import LogView
    from impl.security.tls import Tls

_log = logging.getLogger(__name__)

T = TypeVar("T")

EMBEDDED: Final = NodeConfig(
    host="127.0.0.1",
    port=0,
    groups=GroupConfig(initial_rebalance_delay_ms=0),
    consumer_groups=ConsumerGroupConfig(heartbeat_interval_ms=500, assignment_interval_ms=0),
)
"""The settings of a `Broker`, if none are given: free ports, on this machine only."""

NO_TOPICS: Final[Mapping[str, int]] = MappingProxyType({})
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class _LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self, *, has_tls: bool) -> None:
        self._loop = new_event_loop(has_tls=has_tls)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to its end; raises what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BrokerClock(SharedClock):
    """The time of all nodes in ms since the epoch: the system's, and what was added to it."""

    def __init__(self, on_advance: Callable[[int], None]) -> None:
        """`on_advance` calls `add`, and then does what is due."""
        super().__init__()
        self._on_advance = on_advance

    def __call__(self) -> int:
        """The time of now."""
        return wall_clock_ms() + self.added_ms

    @ends_at_the_call
    def advance(self, duration_ms: int) -> None:
        """Let this time pass at once; what is due on the nodes is done when this returns.

        `Producer` and `Consumer` of this process that are connected to them then do what is due,
        in the next turn of their event loops. Others have clocks of their own. Raises
        `InvalidArgument`.
        """
        check_arguments("advance", duration_ms=duration_ms)
        self._on_advance(duration_ms)
        self.wake()


class RefusedCall(RuntimeError):
    """A call that a broker cannot do now; the message says when it can."""


@refuses_plainly()
class Broker:
    """`with Broker() as kafka:`, or `async with`: clients connect to `kafka.bootstrap_servers`.

    `topics` are created first, each with its number of partitions. `config` is that of all nodes,
    which are numbered from its `node_id`; if it names a port, that of the first. `settings` are
    some of it by Kafka's names, with their values as text. `release` is the one of Kafka whose
    versions and rules they have; `security` says who may connect and do what. Raises
    `InvalidSetting` and `InvalidArgument`, which is one, `UnknownSetting`, `TopicRefused`, and
    `OSError` if a port is taken.
    With `directory` logs and topics are in files there, and those that it has are served: it is
    recovered here and closed at the end of the block, so a `Broker` has one block. `topics` that it
    has stay as they are. A start that fails leaves nothing there, if nothing was. Raises
    `DirectoryInUse`, and `DecodeError` for damage.
    Methods may be called in the block only (`RuntimeError`), `log` and `format_timeline` behind it
    as well. `faults` are those that are injected; the end of the block warns of those that affected
    no request (`UnusedFault`). `clock` is the time of the nodes, and of the
    `Producer` and `Consumer` of this process that `bootstrap_servers` connect to them.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        topics: Mapping[str, int] = NO_TOPICS,
        config: NodeConfig = EMBEDDED,
        settings: Mapping[str, str] = NO_SETTINGS,
        release: str = NEWEST_RELEASE,
        directory: str | os.PathLike[str] | None = None,
        security: Security | None = None,
    ) -> None:
        check_arguments(
            "Broker",
            nodes=nodes,
            topics=topics,
            config=config,
            settings=settings,
            directory=directory,
            security=security,
        )
        for name in topics:
            check_new_name(name)
        if release != config.release:
            config = config.of_release(release)
        if security is not None:
            config = replace(config, security=security)
        if settings:
            config = _configured(config, settings)
        check_ports(config, nodes)
        self._config = config
        self._topics = dict(topics)
        self._node_ids = range(config.node_id, config.node_id + nodes)
        self._servers: dict[int, Server] = {}
        self._ports: dict[int, dict[str, int]] = {}
        self._thread: _LoopThread | None = None
        self._is_serving = False
        self._has_ended = False
        self.clock = BrokerClock(lambda ms: self._call(partial(self._advance_nodes, ms)))
        self._disk = None if directory is None else _open_disk(directory)
        self.cluster = self._open_cluster()
        self.faults = InjectedFaults(self.cluster, self.clock)
        self._timeline = Timeline(self.clock, self.cluster)

    def _open_cluster(self) -> Cluster:
        me = self._config
        if self._disk is None:
            blocks = ProducerIdBlocks(wall_clock_ms() * BLOCK_SIZE)  # see `Server`
            return Cluster(me.cluster_id, me.log, blocks, me.security)
        from impl.broker.durable_cluster import DurableCluster  # most brokers keep no files

        try:
            cluster = DurableCluster(
                self._disk, me.cluster_id, me.log, self.clock, me.security, self._node_ids
            )
        except BaseException:
            self._disk.discard()
            raise
        self._config = cluster.settings_of(self._config)
        _warn_of_kept_settings(cluster, self._config)
        return cluster

    # ---- start and stop

    async def __aenter__(self) -> Broker:
        """Serve on the current event loop. Raises `RuntimeError` unless it is asyncio's."""
        self._check_may_start()
        _check_loop()
        self._thread = None
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all nodes."""
        await self._stop()
        self.faults.warn_unused()

    def __enter__(self) -> Broker:
        """Serve on a thread."""
        self._check_may_start()
        self._thread = _LoopThread(has_tls=self.has_tls)
        try:
            self._thread.run(self._start())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all nodes, and the thread."""
        assert self._thread is not None, "__enter__ has started it"
        try:
            self._thread.run(self._stop())
        finally:
            self._thread.close()
        self.faults.warn_unused()

    def _check_may_start(self) -> None:
        if self._is_serving:
            raise RefusedCall("the broker serves already: use another Broker in this block")
        if self._has_ended and self._disk is not None:
            raise RefusedCall("the broker has closed its directory: make another Broker for it")

    async def _start(self) -> None:
        self._is_serving = True
        try:
            for node_id in self._node_ids:
                await self._start_node(node_id)
            for name, partitions in self._topics.items():
                found = self.cluster.topics.get(name)
                if found is None:
                    self._create(name, partitions, {}, None)
                elif len(found.partitions) != partitions:
                    _log.warning(
                        "topic %s stays with its %d partitions, not %d: it was there before",
                        name,
                        len(found.partitions),
                        partitions,
                    )
        except BaseException:
            await self._stop(has_started=False)
            raise

    async def _stop(self, *, has_started: bool = True) -> None:
        self._is_serving, self._has_ended = False, True
        withdraw(self.clock)
        try:
            for server in list(self._servers.values()):
                await server.__aexit__()
            self._servers.clear()
        finally:
            self._close_directory(has_started=has_started)

    def _close_directory(self, *, has_started: bool) -> None:
        """A start that fails leaves nothing behind, unless a client had time to create a topic."""
        if self._disk is None:
            return
        is_used = any(topic.name not in self._topics for topic in self.cluster.topics)
        try:
            self.cluster.close()
        finally:
            end = self._disk.close if has_started or is_used else self._disk.discard
            end()

    async def _start_node(self, node_id: int) -> None:
        server = Server(
            replace(self._config, node_id=node_id),
            make_node=lambda bound: Node(bound, cluster=self.cluster),
            ports=self._ports.get(node_id) or self._chosen_ports(node_id),
            clock_ms=self.clock,
            intercept=self._intercept,
        )
        await server.__aenter__()
        server.node.producer_ids.generate(self.clock())  # asks for the block, has no id yet
        server.advance()
        self._servers[node_id] = server
        self._ports[node_id] = server.ports
        hosts = {self._config.host, self._config.known_host}
        announce(self.clock, hosts, server.ports.values())

    def _chosen_ports(self, node_id: int) -> dict[str, int]:
        """From the configured port on: all nodes' first listeners, then their second ones."""
        first = self._config.port
        count = len(self._node_ids)
        return {
            name: first and first + node_id - self._node_ids.start + index * count
            for index, name in enumerate(self._config.security.listeners)
        }

    def _advance_nodes(self, duration_ms: int) -> None:
        self.clock.add(duration_ms)
        for server in self._servers.values():
            server.advance()

    def _intercept(self, payload: bytes, handle: Handle) -> Answer:
        return self._timeline.intercept(payload, partial(self.faults.intercept, handle=handle))

    async def _restart_node(self, node_id: int) -> None:
        """Raises `InvalidArgument`."""
        leading = {leader_id for topic in self.cluster.topics for leader_id in topic.leader_ids}
        stopped = sorted((leading | self._ports.keys()) - self._servers.keys())
        if node_id not in stopped:
            running = f"running: {_listed(self._servers)}"
            may_be = f"a node that was stopped: {_listed(stopped)} ({running})"
            raise InvalidArgument("start_node", "node_id", may_be, node_id)
        await self._start_node(node_id)
        self.cluster.rejoin(node_id)

    async def _stop_running(self, node_id: int, *, fail_over: bool) -> None:
        """Raises `InvalidArgument`."""
        if node_id not in self._servers:
            may_be = f"a running node: {_listed(self._servers)}"
            raise InvalidArgument("stop_node", "node_id", may_be, node_id)
        await self._stop_node(node_id, fail_over=fail_over)

    async def _stop_node(self, node_id: int, *, fail_over: bool) -> None:
        await self._servers.pop(node_id).__aexit__()
        self.cluster.remove(node_id, heirs=list(self._servers) if fail_over else ())

    # ---- calls of the application

    @property
    def release(self) -> str:
        """The release of Kafka as which the nodes serve."""
        return self._config.release

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the running nodes."""
        return tuple(self._servers)

    @property
    def bootstrap_servers(self) -> str:
        """host:port of each running node, with commas between; of the first listener."""
        return self.bootstrap_servers_of(self.listeners[0])

    def bootstrap_servers_of(self, listener: str) -> str:
        """As `bootstrap_servers`, of the listener with this protocol. Raises `InvalidArgument`."""
        if listener not in self.listeners:
            may_be = f"a listener of this broker: {_listed(self.listeners)}"
            raise InvalidArgument("bootstrap_servers_of", "listener", may_be, listener)
        self._check_serves()
        name = self._config.known_host
        host = f"[{name}]" if ":" in name else name
        return ",".join(f"{host}:{server.ports[listener]}" for server in self._servers.values())

    @property
    def listeners(self) -> tuple[str, ...]:
        """The security protocols of the listeners."""
        return self._config.security.listeners

    @property
    def has_tls(self) -> bool:
        """Whether a listener has TLS."""
        return any(protocol.has_tls for protocol in self._config.security.protocols)

    @property
    def tls(self) -> Tls:
        """The certificates: files for clients, and `tls.client_context()`.

        Raises `MissingCertificates`.
        """
        from impl.security.certificates import certificates_of_process

        return self._config.security.tls or certificates_of_process(self._config.known_host)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        **configs: str,
    ) -> None:
        """Create a topic; settings with _ for Kafka's dots.

        A partition has `replication_factor` replicas, by default `default.replication.factor`.
        Raises `TopicRefused`, `InvalidArgument`.
        """
        check_arguments(
            "create_topic",
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        self._call(lambda: self._create(name, partitions, settings, replication_factor))

    def _create(
        self, name: str, partitions: int, settings: Mapping[str, str], factor: int | None
    ) -> None:
        factor = factor or self._config.default_replication_factor
        self.cluster.topics.create(name, partitions, settings, replication_factor=factor)

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make a node the partition's leader, with the next epoch.

        A node that has no replica gets that of the leader before.
        Coordinators move with their partitions of `__consumer_offsets` and `__transaction_state`.
        Raises `UnknownPartitionOrBroker`, `InvalidArgument`.
        """
        check_arguments("move_leader", topic=topic, partition=partition, node_id=node_id)
        self._call(lambda: self.cluster.move(topic, partition, node_id))

    def log(self, topic: str, partition: int = 0) -> LogView:
        """What stands in a partition's log now: batches, producers, open transactions, offsets.

        Raises `UnknownPartitionOrBroker`, `InvalidArgument`.
        """
        from impl.broker.log_view import view_log

        check_arguments("log", topic=topic, partition=partition)
        return self._look(lambda: view_log(self.cluster.find(topic, partition), partition))

    def format_timeline(self) -> str:
        """The last requests of all nodes, a line each: time, client, API, fields -> answer."""
        return self._look(self._timeline.format)

    def stop_node(self, node_id: int, *, fail_over: bool = True) -> Any:
        """Stop a node, whose connections break. To be awaited in `async with`.

        As in Kafka, a replica that is in sync leads what the node led. Partitions of one replica
        move to other nodes; without `fail_over` they have no leader until this one is started
        again. Raises `InvalidArgument` for a node that does not run.
        """
        check_arguments("stop_node", node_id=node_id, fail_over=fail_over)
        return self._await(lambda: self._stop_running(node_id, fail_over=fail_over))

    def start_node(self, node_id: int) -> Any:
        """Start a stopped node on the port that it had. To be awaited in `async with`.

        Raises `InvalidArgument` for a node that runs, or is none: it has neither been started nor
        leads a partition.
        """
        check_arguments("start_node", node_id=node_id)
        return self._await(lambda: self._restart_node(node_id))

    def _look(self, function: Callable[[], T]) -> T:
        """As `_call`; behind the block, too: nothing runs any more, and all stands where it did."""
        has_ended = self._has_ended and not self._is_serving
        return function() if has_ended else self._call(function)

    def _call(self, function: Callable[[], T]) -> T:
        """Call on the thread that serves: nodes are not thread-safe. Raises `RuntimeError`."""
        self._check_serves()

        async def call() -> T:
            return function()

        return function() if self._thread is None else self._thread.run(call())

    def _await(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Any:
        """Do on the thread that serves, or have the caller do it. Raises `RuntimeError`."""
        self._check_serves()
        return work() if self._thread is None else self._thread.run(work())

    def _check_serves(self) -> None:
        if not self._is_serving:
            when = "has ended" if self._has_ended else "has not begun"
            block = "in the block of `with Broker(...) as kafka`"
            raise RefusedCall(f"the broker serves {block}, which {when}")


def _open_disk(directory: str | os.PathLike[str]) -> DirectoryDisk:
    """Raises `DirectoryInUse`."""
    from pathlib import Path  # most brokers keep no files

    return DirectoryDisk(Path(directory))


def _warn_of_kept_settings(cluster: Cluster, config: NodeConfig) -> None:
    """Name each setting of the start that counts for nothing: a change of it was kept."""
    kept = cluster.resources.get(ConfigResourceType.BROKER, ALL_BROKERS)
    for name, text in config.named.items():
        if kept.get(name, text) != text:
            _log.warning(
                "the setting %s stays %s, not %s: the directory keeps it for all brokers, and it"
                " can be changed while they run",
                name,
                kept[name],
                text,
            )


def _configured(config: NodeConfig, settings: Mapping[str, str]) -> NodeConfig:
    from impl.broker.node_effects import find_reason  # most brokers have Kafka's defaults
    from impl.broker.node_settings import configure, has_effect

    for name, text in settings.items():
        config = configure(config, name, text)
        if not has_effect(name):
            _log.warning("the setting %s has no effect: %s", name, find_reason(name))
    return config


def _check_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # trio's, for one
        raise RefusedCall(
            "`async with Broker()` needs an event loop of asyncio: `with Broker()` needs none"
        ) from None


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values)) or "none"
