"""A simulated world: brokers, their network, and the hosts of clients.

1. Seed, faults and program determine everything: time is virtual, randomness is one `Random`, and
   nothing depends on the order of a set.
2. A broker processes the next request of a connection after it answered the one before.
3. A node that stops loses all but its logs; its partitions move to running nodes, or wait for it.
   At least one node is always running.
4. A client's host dies between two of its steps: messages that it sent may still arrive.

Theory of operation: `World.run` runs a coroutine on a loop of its own. The world drives the nodes
of `impl.broker`; a `ClientHost` is the network of one client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.node import Node
from impl.broker.outputs import BrokerRequest, Output, Response
from impl.client.transport import Receiver
from impl.coordinator.config import TransactionConfig
from impl.protocol.messages import decode_request
from impl.protocol.schemas import ApiKey
from impl.simulator.faults import Faults
from impl.simulator.network import SimulatedConnection
from impl.simulator.virtual_time import run_virtually

T = TypeVar("T")

EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock at the start of a world, ms."""

TICK_MS: Final = 100
"""How often a node advances at least, ms."""

PORT: Final = 9092


class PendingRequest(NamedTuple):
    """A request between brokers: its sender, the sender's life, and the correlation id."""

    node_id: int
    life: int
    correlation_id: int


class BrokerHost:
    """A broker's host: it has a node while it is up. Attributes: `is_up`, `node_id`, `life`."""

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self.node_id = node_id
        self.is_up = False
        self._node: Node | None = None
        self._links: dict[int, SimulatedConnection] = {}
        self._requests: dict[int, deque[bytes]] = {}
        self._busy: dict[int, bool] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.life = 0

    def start(self) -> None:
        """Start a node; only the cluster's logs survive a restart."""
        self.life += 1
        world = self._world
        config = NodeConfig(
            node_id=self.node_id,
            host=f"broker-{self.node_id}",
            port=PORT,
            broker_epoch=self.life,
            num_partitions=world.partitions,
            coordinator_lag_ms=world.faults.coordinator_lag_ms,
            coordinator_load_ms=world.faults.coordinator_load_ms,
            transactions=world.transactions,
        )
        self._node = Node(config, cluster=world.cluster)
        self.is_up = True
        self._advance()

    def stop(self) -> None:
        """Stop the node, and break all its connections."""
        self.is_up = False
        self._node = None
        if self._timer is not None:
            self._timer.cancel()
        for link in list(self._links.values()):
            link.break_off()
        self._links.clear()
        self._requests.clear()
        self._busy.clear()

    # ---- from clients

    def accept(self, link: SimulatedConnection) -> None:
        """Accept a connection."""
        self._links[link.number] = link
        self._requests[link.number] = deque()
        self._busy[link.number] = False

    def receive_request(self, link: SimulatedConnection, payload: bytes) -> None:
        """See `Peer`."""
        if link.number in self._requests:
            self._requests[link.number].append(payload)
            self._serve(link.number)

    def close_link(self, link: SimulatedConnection) -> None:
        """See `Peer`."""
        for known in (self._links, self._requests, self._busy):
            known.pop(link.number, None)

    def _serve(self, number: int) -> None:
        """Process the connection's next request, if the last one is answered."""
        waiting = self._requests.get(number, deque())
        if self._node is not None and waiting and not self._busy[number]:
            self._busy[number] = True
            self._perform(self._node.receive(number, waiting.popleft(), self._world.clock_ms()))

    # ---- from brokers

    def ask(self, asked: PendingRequest, payload: bytes) -> None:
        """Receive another broker's request."""
        if self._node is None:
            self._world.reply(asked, None)
        else:
            self._perform(self._node.receive(asked, payload, self._world.clock_ms()))

    def receive_reply(self, asked: PendingRequest, payload: bytes | None) -> None:
        """Receive another broker's answer, or None; ignored if the node restarted meanwhile."""
        if self._node is not None and asked.life == self.life:
            now_ms = self._world.clock_ms()
            self._perform(self._node.receive_answer(asked.correlation_id, payload, now_ms))

    # ---- outputs of the node

    def _perform(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, BrokerRequest):
                self._world.ask(self.node_id, output)
            elif isinstance(output, Response):
                self._respond(output)
            elif isinstance(output.reference, int):
                self._close(output.reference)
        self._schedule_advance()

    def _respond(self, response: Response) -> None:
        if isinstance(response.reference, PendingRequest):
            self._world.reply(response.reference, response.payload)
            return
        number = response.reference
        assert isinstance(number, int)
        link = self._links.get(number)
        if link is not None and response.payload is not None:
            link.answer(response.payload)
        if number in self._busy:
            self._busy[number] = False
            self._world.call_soon(lambda: self._serve(number))

    def _close(self, number: int) -> None:
        link = self._links.get(number)
        if link is not None:
            link.break_off()

    def _schedule_advance(self) -> None:
        """Schedule the next `advance`."""
        if self._node is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        now_ms = self._world.clock_ms()
        due_ms = self._node.next_due_ms
        wait_ms = TICK_MS if due_ms is None else min(max(due_ms - now_ms, 1), TICK_MS)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(wait_ms / 1_000, self._advance)

    def _advance(self) -> None:
        if self._node is not None:
            self._perform(self._node.advance(self._world.clock_ms()))


class ClientHost:
    """The host of one client: a `Network` until it dies.

    Attributes: `steps`, `is_dead`, and the event `crashed`: the host died, or paused, before step
    `crash_step` (-1 for never).
    """

    def __init__(self, world: World, name: str, crash_step: int = -1) -> None:
        self._world = world
        self._crash_step = crash_step
        self._links: list[SimulatedConnection] = []
        self.name = name
        self.steps = 0
        self.is_dead = False
        self.crashed = asyncio.Event()
        self._is_awake = asyncio.Event()
        self._is_awake.set()

    async def connect(self, host: str, port: int, receiver: Receiver) -> SimulatedConnection:
        """See `Network`."""
        await self._is_awake.wait()
        await asyncio.sleep(self._world.delay_s())
        broker = self._world.broker_at(host)
        if self.is_dead or broker is None or not broker.is_up:
            raise ConnectionRefusedError(f"{host}:{port}")
        link = self._world.link(broker, self, receiver)
        broker.accept(link)
        self._links.append(link)
        return link

    def step(self, what: str, payload: bytes) -> bool:
        """See `StepObserver`."""
        if self.is_dead:
            return False
        if self.steps == self._crash_step and not self.crashed.is_set():
            self.crashed.set()
            if not self._world.faults.is_zombie:
                self.die()
                return False
            self._pause()
        self.steps += 1
        self._world.log_message(self.name, what, payload)
        return True

    def die(self) -> None:
        """Break all connections, and send nothing any more."""
        if self.is_dead:
            return
        self._world.log(f"{self.name} dies")
        self.is_dead = True
        for link in self._links:
            link.break_off()

    def _pause(self) -> None:
        """Pause for a while, so that others take the host for dead."""
        self._world.log(f"{self.name} pauses")
        self._is_awake.clear()
        pause_s = self._world.rng.randint(*self._world.faults.pause_ms) / 1_000
        for link in self._links:
            link.hold()
        asyncio.get_running_loop().call_later(pause_s, self._resume)

    def _resume(self) -> None:
        self._world.log(f"{self.name} resumes")
        self._is_awake.set()
        for link in self._links:
            link.release()


class World:
    """The world. Topics are created on first use, with `partitions` partitions.

    Attributes: `seed`, `cluster`, `faults` (the current ones), `rng`, `story` (log lines, if
    `keeps_log`).
    """

    def __init__(
        self,
        seed: int,
        faults: Faults,
        *,
        nodes: int = 3,
        partitions: int = 1,
        transactions: TransactionConfig | None = None,
        keeps_log: bool = False,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self._faults_to_come = faults
        self._chaos: asyncio.Task[None] | None = None
        self._no_faults = Faults(
            delay_ms=faults.delay_ms,
            coordinator_lag_ms=faults.coordinator_lag_ms,
            coordinator_load_ms=faults.coordinator_load_ms,
        )
        self.faults = self._no_faults
        self.partitions = partitions
        self.transactions = transactions or TransactionConfig()
        first = NodeConfig()
        self.cluster = Cluster(first.cluster_id, first.log)
        self.story: list[str] | None = [] if keeps_log else None
        self._hosts = {node_id: BrokerHost(self, node_id) for node_id in range(1, nodes + 1)}
        self._links = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def bootstrap_servers(self) -> list[str]:
        """The bootstrap servers of clients."""
        return [f"broker-{node_id}:{PORT}" for node_id in self._hosts]

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Start the brokers, and run a program to its end. Raises what it raises."""
        return run_virtually(self._run(work))

    async def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._loop = asyncio.get_running_loop()
        for host in self._hosts.values():
            host.start()
        try:
            return await work()
        finally:
            await self.end_faults()
            for host in self._hosts.values():
                host.stop()

    def begin_faults(self) -> None:
        """Enable faults."""
        self.faults = self._faults_to_come
        self._chaos = asyncio.get_running_loop().create_task(self._stop_nodes())

    async def end_faults(self) -> None:
        """Disable faults, and start all nodes."""
        self.faults = self._no_faults
        if self._chaos is not None:
            self._chaos.cancel()
            await asyncio.wait([self._chaos])
            self._chaos = None
        for host in self._hosts.values():
            if not host.is_up:
                self.start_node(host.node_id)

    # ---- time and chance

    def clock_ms(self) -> int:
        """The wall clock of all hosts, ms."""
        assert self._loop is not None
        return EPOCH_MS + round(self._loop.time() * 1_000)

    def delay_s(self) -> float:
        """A random message delay."""
        return self.rng.randint(*self.faults.delay_ms) / 1_000

    def _broker_delay_s(self) -> float:
        return self.rng.randint(*self.faults.broker_delay_ms) / 1_000

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run this after the current callback."""
        asyncio.get_running_loop().call_soon(action)

    def log_message(self, who: str, what: str, payload: bytes) -> None:
        """Log a step of a client."""
        if self.story is not None:
            words = f"{what} {_describe_request(payload)}" if what == "sends" else what
            self.log(f"{who} {words}")

    def log(self, line: str) -> None:
        """Log a line."""
        if self.story is not None:
            self.story.append(f"{self.clock_ms() - EPOCH_MS:>7} ms  {line}")

    # ---- the network

    def broker_at(self, host: str) -> BrokerHost | None:
        """The broker's host of this name."""
        return next((h for h in self._hosts.values() if f"broker-{h.node_id}" == host), None)

    def link(
        self, broker: BrokerHost, client: ClientHost, receiver: Receiver
    ) -> SimulatedConnection:
        """Create a connection."""
        self._links += 1
        return SimulatedConnection(self._links, broker, client, receiver, self.faults, self.rng)

    def ask(self, node_id: int, request: BrokerRequest) -> None:
        """Deliver a request between brokers, or lose it."""
        asked = PendingRequest(node_id, self._hosts[node_id].life, request.correlation_id)
        host = self._hosts[request.node_id]
        loop = asyncio.get_running_loop()
        if self.rng.random() < self.faults.break_rate / 2:
            loop.call_later(self._broker_delay_s(), lambda: self.reply(asked, None))
        else:
            loop.call_later(self._broker_delay_s(), lambda: host.ask(asked, request.payload))

    def reply(self, asked: PendingRequest, payload: bytes | None) -> None:
        """Deliver the answer to a broker, or None if it is lost."""
        if self.rng.random() < self.faults.break_rate / 2:
            payload = None
        asking = self._hosts[asked.node_id]
        loop = asyncio.get_running_loop()
        loop.call_later(self._broker_delay_s(), lambda: asking.receive_reply(asked, payload))

    # ---- node failures

    async def _stop_nodes(self) -> None:
        every_ms = self.faults.stop_every_ms
        while every_ms:
            await asyncio.sleep(self.rng.uniform(0.5, 1.5) * every_ms / 1_000)
            up = [host for host in self._hosts.values() if host.is_up]
            host = self.rng.choice(up)
            self.stop_node(host.node_id)
            await asyncio.sleep(self.rng.randint(*self.faults.down_ms) / 1_000)
            self.start_node(host.node_id)

    def stop_node(self, node_id: int) -> None:
        """Stop a node; running nodes take its partitions, if there are any."""
        self.log(f"node {node_id} stops")
        self._hosts[node_id].stop()
        others = [host.node_id for host in self._hosts.values() if host.is_up]
        if others:
            self.cluster.remove(node_id, heirs=others)

    def start_node(self, node_id: int) -> None:
        """Start a node from its logs; partitions that waited for it get a new epoch."""
        self.log(f"node {node_id} returns")
        host = self._hosts[node_id]
        host.start()
        self.cluster.rejoin(node_id)


def _describe_request(payload: bytes) -> str:
    header, body = decode_request(payload)
    words = [ApiKey(header["api_key"]).name]
    for key in ("transactional_id", "producer_id", "producer_epoch", "committed", "group_id"):
        if key in body:
            words.append(f"{key}={body[key]}")
    return " ".join(words)
