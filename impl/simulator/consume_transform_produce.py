"""The consume-transform-produce program (`job`) in a simulated world with faults.

1. The input is written first. Then clients process it, one after the other, each until it dies or
   fails; the last one finds no input left.
2. With a shared transactional id, the next client fences the last one. With an id of its own, it
   waits until no open transaction can move the offsets any more (KIP-447).
3. The output is read by a separate consumer, after all transactions are completed.

Theory of operation: `simulate` runs one world. A client that fails records its error, and is
restarted, as by a supervisor.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final, NamedTuple

from impl.client.errors import ConsumerError, ProducerError
from impl.consumer.consumer import Consumer
from impl.coordinator.config import TransactionConfig
from impl.producer.producer import Producer
from impl.protocol.fields import TopicPartition
from impl.simulator.faults import Faults
from impl.simulator.job import Job, Order, Records, work
from impl.simulator.virtual_time import Deadlock
from impl.simulator.world import ClientHost, World

JOB: Final = Job()
TRANSACTIONAL_ID: Final = "worker"
MOST_CLIENTS: Final = 40
MOST_VIRTUAL_S: Final = 600
TRANSACTION_TIMEOUT_MS: Final = 10_000
SETTLE_S: Final = 0.1
TIMEOUTS: Final = {
    "request_timeout_ms": 2_000,
    "delivery_timeout_ms": 20_000,
    "max_block_ms": 20_000,
}


class Program(NamedTuple):
    """How clients work: order of a round, protocol, and whether each has its own id."""

    order: Order = Order.TRANSACTION
    requests: str = "auto"
    has_own_id: bool = False


class WorldOutcome(NamedTuple):
    """The outcome of one world.

    The `lost` and the `duplicated` results; `out_of_order` counts partitions; `steps` of the first
    client; the number of `clients`; `failures` of clients that did not die; `is_at_rest` is false
    if the world did not finish in time.
    """

    seed: int
    crash_step: int
    crashed: bool
    steps: int
    clients: int
    lost: tuple[str, ...]
    duplicated: tuple[str, ...]
    out_of_order: int
    aborted: int
    is_at_rest: bool
    failures: tuple[str, ...]
    story: tuple[str, ...]

    @property
    def is_exactly_once(self) -> bool:
        """Whether each result was written exactly once, in order."""
        return not (self.lost or self.duplicated or self.out_of_order)


def simulate(
    seed: int, faults: Faults, program: Program, *, keeps_log: bool = False
) -> WorldOutcome:
    """Run one world. The same arguments give the same outcome."""
    config = TransactionConfig(abort_timed_out_interval_ms=1_000, num_partitions=4)
    world = World(seed, faults, partitions=JOB.partitions, transactions=config, keeps_log=keeps_log)
    work = _Work(world, faults, program)
    is_at_rest = True
    try:
        world.run(work.run)
    except (TimeoutError, Deadlock) as error:
        is_at_rest = False
        work.failures.append(f"{type(error).__name__}: {error}")
    return work.outcome(seed, is_at_rest)


class _Work:
    """One world's input, clients, and reader."""

    def __init__(self, world: World, faults: Faults, program: Program) -> None:
        self._world = world
        self._faults = faults
        self.program = program
        self._hosts: list[ClientHost] = []
        self._records: Records = {}
        self._all = 0
        self.failures: list[str] = []

    async def run(self) -> None:
        """Write the input, run clients, read the output. Raises `TimeoutError`."""
        async with asyncio.timeout(MOST_VIRTUAL_S):
            await self._write_input()
            self._world.begin_faults()
            await self._run_clients()
            await self._world.end_faults()
            await self._read_output()

    async def _write_input(self) -> None:
        host = ClientHost(self._world, "source")
        async with self.producer(host, in_transactions=False) as producer:
            await JOB.write_input(producer)

    async def _run_clients(self) -> None:
        """Run clients one after the other; the first may be a zombie beside later ones."""
        clients: list[_Client] = []
        try:
            await self._run_until_done(clients)
        except asyncio.CancelledError:  # there is no time left
            for client in clients:
                client.host.die()
            raise
        finally:
            for client in clients:
                await client.shut_down()

    async def _run_until_done(self, clients: list[_Client]) -> None:
        """Add clients until one has done all work."""
        loop = asyncio.get_running_loop()
        for number in range(MOST_CLIENTS):
            client = _Client(self, number)
            clients.append(client)
            self._hosts.append(client.host)
            crash = loop.create_task(_wait(client.host.crashed))
            await asyncio.wait([client.life, crash], return_when=asyncio.FIRST_COMPLETED)
            crash.cancel()
            if client.life.done() and client.life.result():
                break
            if client.host.is_dead:
                await client.shut_down()

    def record_failure(self, host: ClientHost, error: Exception) -> None:
        """Record the error of a client that did not die."""
        self._world.log(f"{host.name} fails: {error}")
        self.failures.append(f"{type(error).__name__}: {error}")

    # ---- parts of clients

    def new_host(self, number: int) -> ClientHost:
        """A host; the first one has the planned crash."""
        crash_step = self._faults.crash_step if number == 0 else -1
        return ClientHost(self._world, f"client-{number}", crash_step)

    def producer(self, host: ClientHost, *, in_transactions: bool) -> Producer:
        """A producer on that host."""
        config: dict[str, Any] = {"client_id": host.name} | TIMEOUTS
        if in_transactions:
            own_id = f"{host.name} of world {self._world.seed}"
            config |= {
                "transactional_id": own_id if self.program.has_own_id else TRANSACTIONAL_ID,
                "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
                "transaction_requests": self.program.requests,
            }
        return Producer(
            self._world.bootstrap_servers,
            network=host,
            clock_ms=self._world.clock_ms,
            rng=Random(self._world.rng.random()),
            **config,
        )

    def consumer(
        self,
        host: ClientHost,
        *,
        group_id: str | None = None,
        isolation_level: str = "read_committed",
    ) -> Consumer:
        """A consumer on that host."""
        return Consumer(
            bootstrap_servers=self._world.bootstrap_servers,
            group_id=group_id,
            enable_auto_commit=False,  # offsets are committed in transactions
            isolation_level=isolation_level,
            auto_offset_reset="earliest",
            client_id=host.name,
            fetch_max_wait_ms=50,
            request_timeout_ms=2_000,
            default_api_timeout_ms=20_000,
            network=host,
        )

    # ---- the output

    async def _read_output(self) -> None:
        """Read the committed records, and count all records."""
        while await self._ends("read_committed") != await self._ends("read_uncommitted"):
            await asyncio.sleep(SETTLE_S)
        self._records = await self._read("read_committed")
        self._all = sum(map(len, (await self._read("read_uncommitted")).values()))

    async def _ends(self, isolation_level: str) -> dict[TopicPartition, int]:
        """End offsets; equal for both levels once all transactions are completed."""
        async with self._reader(isolation_level) as consumer:
            return await consumer.end_offsets(JOB.output)

    async def _read(self, isolation_level: str) -> Records:
        async with self._reader(isolation_level) as consumer:
            return await JOB.read(consumer)

    def _reader(self, isolation_level: str) -> Consumer:
        host = ClientHost(self._world, "reader")
        return self.consumer(host, isolation_level=isolation_level)

    def outcome(self, seed: int, is_at_rest: bool) -> WorldOutcome:
        """The outcome of the world."""
        found = JOB.compare(self._records)
        first = self._hosts[0] if self._hosts else None
        return WorldOutcome(
            seed=seed,
            crash_step=self._faults.crash_step,
            crashed=first is not None and first.crashed.is_set(),
            steps=0 if first is None else first.steps,
            clients=len(self._hosts),
            lost=found.lost,
            duplicated=found.duplicated,
            out_of_order=found.out_of_order,
            aborted=self._all - sum(map(len, self._records.values())),
            is_at_rest=is_at_rest,
            failures=tuple(self.failures),
            story=tuple(self._world.story or ()),
        )


class _Client:
    """One run of the program. Attributes: `host`, and its task `life`."""

    def __init__(self, work: _Work, number: int) -> None:
        self._work = work
        self.host = work.new_host(number)
        in_transactions = work.program.order is Order.TRANSACTION
        self._producer = work.producer(self.host, in_transactions=in_transactions)
        self._consumer = work.consumer(self.host, group_id=JOB.group_id)
        self.life = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> bool:
        """Work until no input is left: True. False after a failure."""
        try:
            await self._producer.start()
            await self._consumer.start()
            await work(JOB, self._work.program.order, self._producer, self._consumer)
        except (ProducerError, ConsumerError, OSError) as error:
            if not self.host.is_dead:
                self._work.record_failure(self.host, error)
            return False
        return True

    async def shut_down(self) -> None:
        """Stop the client; a dead one is cancelled without clean-up."""
        while self.host.is_dead and not self.life.done():
            self.life.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([self.life])
        self.host.die()
        await self._producer.stop(timeout_ms=0)
        await self._consumer.stop()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
