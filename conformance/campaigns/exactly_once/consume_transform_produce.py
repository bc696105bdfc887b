"""Consume-transform-produce at a real broker, by clients that crash at every step.

1. The clients under test are `impl`'s own producer and consumer. An independent reader judges the
   output, once every transaction has its markers.
2. Clients crash at those steps that all attempts without a crash have in common.
3. Each run has unused topics, group and transactional id. Its clients run one after the other with
   the same id; the first ones crash, and the last one finds no work left.
4. A check that cannot fail says nothing. So the same job is also done without transactions, with a
   crash at each step from the first write on, and must lose or repeat results.

Theory of operation: `measure` learns the steps of one order and plays its runs, several at a time,
since they mostly wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.adapters.brokers.wire import Requests
from conformance.campaigns.exactly_once.crashing_client import ClientMessage, CrashingNetwork
from conformance.judging.backend import BackendFailed
from impl import Consumer, Producer
from impl.client.errors import ConsumerError, ProducerError
from impl.client.transport import AsyncioNetwork, Network
from impl.simulator.job import Comparison, Job, Order, Records, work

ATTEMPTS_TO_LEARN: Final = 3
MOST_ATTEMPTS: Final = 40
MOST_RUN_S: Final = 180.0
AT_ONCE: Final = 4
SETTLE_S: Final = 0.05
FETCH_MAX_WAIT_MS: Final = 50
UNSEEN: Final = Comparison((), (), 0)
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

FAULT_OF: Final = {
    Order.PRODUCE_THEN_COMMIT: "duplicated",
    Order.COMMIT_THEN_PRODUCE: "lost",
}
"""The effect of a crash on the job without a transaction."""


WRITES: Final = ("PRODUCE", "OFFSET_COMMIT")
"""Steps that leave something behind without a transaction: a crash before them has no effect."""


class Crashes(NamedTuple):
    """The first `attempts` of a run crash at `step`, each at its own."""

    step: ClientMessage | None = None
    attempts: int = 0


class Attempt(NamedTuple):
    """The outcome of a client: `failure` says why it gave up, "" if it did not."""

    steps: tuple[ClientMessage, ...]
    is_crashed: bool
    failure: str


class CrashRunOutcome(NamedTuple):
    """The outcome of a run. `aborted` counts records; `is_at_rest` is false if time ran out."""

    crashes: Crashes
    attempts: tuple[Attempt, ...]
    compared: Comparison
    aborted: int
    is_at_rest: bool

    @property
    def is_exactly_once(self) -> bool:
        """Whether each result was seen exactly once, and in order."""
        return not any(self.compared)


class Measured(NamedTuple):
    """All runs of one order, and the steps at which its clients could crash."""

    order: Order
    steps: tuple[ClientMessage, ...]
    outcomes: tuple[CrashRunOutcome, ...]

    @property
    def crash_steps(self) -> set[ClientMessage]:
        """The steps at which some client crashed."""
        crashed = {
            o.crashes.step for o in self.outcomes if o.attempts[:1] and o.attempts[0].is_crashed
        }
        return {step for step in self.steps if step in crashed}


def crash_points(steps: Sequence[ClientMessage], runs: int) -> Iterable[Crashes]:
    """Each step in turn, and then again with one more attempt; if there are fewer runs, they are
    spread evenly."""
    for run in range(runs):
        at = run * len(steps) // runs if runs < len(steps) else run % len(steps)
        yield Crashes(steps[at], 1 + run // len(steps))


def instead(
    steps: Sequence[ClientMessage], outcomes: Sequence[CrashRunOutcome], missed: int
) -> list[Crashes]:
    """Steps at which no client was to crash yet, for the runs whose own step never came."""
    tried = {outcome.crashes.step for outcome in outcomes}
    left = [step for step in steps if step not in tried]
    return list(crash_points(left, min(missed, len(left))))


def steps_of(quiet: Sequence[Sequence[Attempt]]) -> tuple[ClientMessage, ...]:
    """The steps that runs without a crash, of one attempt each, have in common. Raises
    BackendFailed."""
    for attempts in quiet:
        if len(attempts) != 1 or attempts[0].failure:
            why = attempts[0].failure if attempts else "no client began in time"
            raise BackendFailed(f"a client that nothing happens to does not end its work: {why}")
    return in_all(quiet[0][0].steps, [attempts[0] for attempts in quiet])


def in_all(
    steps: Sequence[ClientMessage], attempts: Iterable[Attempt]
) -> tuple[ClientMessage, ...]:
    """The steps that each whole attempt has; requests that only some attempts repeated are left
    out."""
    whole = [
        set(attempt.steps) for attempt in attempts if not (attempt.is_crashed or attempt.failure)
    ]
    return tuple(step for step in steps if all(step in one for one in whole))


def from_first_write(steps: Sequence[ClientMessage]) -> tuple[ClientMessage, ...]:
    """The steps at which the output may have records already."""
    first = next(at for at, step in enumerate(steps) if step.api in WRITES)
    return tuple(steps[first:])


async def measure(
    testbed: KafkaTestbed,
    requests: Requests,
    order: Order,
    runs: int | None,
    told: Callable[[str, float], None],
) -> Measured:
    """Learn the steps of an attempt, then let clients crash at them; by default once at each step.

    Raises KafkaError, and BackendFailed if a client fails without a crash.
    """
    quiet = [
        await CrashRun(testbed, requests, order, Crashes()).outcome()
        for _ in range(ATTEMPTS_TO_LEARN)
    ]
    steps = steps_of([outcome.attempts for outcome in quiet])
    if order is not Order.TRANSACTION:
        steps = from_first_write(steps)
    points = list(crash_points(steps, len(steps) if runs is None else runs))
    turns = asyncio.Semaphore(AT_ONCE)
    done = 0

    async def play(crashes: Crashes) -> CrashRunOutcome:
        nonlocal done
        async with turns:
            outcome = await CrashRun(testbed, requests, order, crashes).outcome()
        done += 1
        told(f"{order.value}: {len(points)} runs", done / len(points))
        return outcome

    outcomes = quiet
    while points:
        done = 0
        played = await asyncio.gather(*map(play, points))
        outcomes = [*outcomes, *played]
        # If a client survived because its step never came, not every attempt has that step.
        steps = in_all(steps, (outcome.attempts[0] for outcome in outcomes if outcome.attempts))
        points = instead(steps, outcomes, sum(o.crashes.step not in steps for o in played))
    return Measured(order, steps, tuple(outcomes))


@dataclass(slots=True)
class CrashRun:
    """One run; its topics are created when it begins."""

    testbed: KafkaTestbed
    requests: Requests
    order: Order
    crashes: Crashes

    async def outcome(self) -> CrashRunOutcome:
        """Write the input, let clients work, and read the output. Raises KafkaError."""
        [source, *_], [target, *_] = (self.testbed.topic(Job().partitions) for _ in range(2))
        job = Job(source[0], target[0], self.testbed.fresh("workers"))
        attempts: list[Attempt] = []
        seen: Records = {}
        everything: Records = {}
        try:
            async with asyncio.timeout(MOST_RUN_S):
                async with self._producer(AsyncioNetwork(), {}) as producer:
                    await job.write_input(producer)
                await self._work(job, attempts)
                await self._settle(job)
                seen = await self._read(job, READ_COMMITTED)
                everything = await self._read(job, READ_UNCOMMITTED)
        except TimeoutError:
            return CrashRunOutcome(self.crashes, tuple(attempts), UNSEEN, 0, is_at_rest=False)
        aborted = _count(everything) - _count(seen)
        return CrashRunOutcome(
            self.crashes, tuple(attempts), job.compare(seen), aborted, is_at_rest=True
        )

    # ---- clients

    async def _work(self, job: Job, attempts: list[Attempt]) -> None:
        """Run one client after the other. Raises TimeoutError after too many clients."""
        while not attempts or attempts[-1].is_crashed or attempts[-1].failure:
            if len(attempts) == MOST_ATTEMPTS:
                raise TimeoutError
            is_to_crash = len(attempts) < self.crashes.attempts
            attempts.append(await self._attempt(job, self.crashes.step if is_to_crash else None))

    async def _attempt(self, job: Job, crash: ClientMessage | None) -> Attempt:
        """Run one client, until no work is left, or it fails or crashes."""
        network = CrashingNetwork(crash)
        transactional = {"transactional_id": f"worker of {job.output_topic}"}
        producer = self._producer(network, transactional if self.order is Order.TRANSACTION else {})
        consumer = self._consumer(network, READ_COMMITTED, group_id=job.group_id)
        attempt = asyncio.create_task(_work_until_done(job, self.order, producer, consumer))
        crashed = asyncio.create_task(network.has_crashed.wait())
        try:
            await asyncio.wait([attempt, crashed], return_when=asyncio.FIRST_COMPLETED)
            is_crashed = network.has_crashed.is_set()
        finally:
            network.crash()
            await _cancel(attempt, crashed)
            await producer.stop(timeout_ms=0)
            await consumer.stop()
        failure = "" if is_crashed else attempt.result()
        return Attempt(tuple(network.steps), is_crashed, failure)

    def _producer(self, network: Network, more: dict[str, Any]) -> Producer:
        if more:
            more = more | {"transaction_requests": self.requests}
        return Producer(self._servers, network=network, **more)

    def _consumer(
        self, network: Network, isolation_level: str, group_id: str | None = None
    ) -> Consumer:
        return Consumer(
            bootstrap_servers=self._servers,
            group_id=group_id,
            enable_auto_commit=False,  # offsets are committed in transactions
            isolation_level=isolation_level,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            network=network,
        )

    @property
    def _servers(self) -> list[str]:
        return ["{}:{}".format(*broker.address) for broker in self.testbed.brokers.values()]

    # ---- the judge

    async def _settle(self, job: Job) -> None:
        """Wait until no transaction is open: then both kinds of readers have the same end."""
        async with (
            self._consumer(AsyncioNetwork(), READ_COMMITTED) as committed,
            self._consumer(AsyncioNetwork(), READ_UNCOMMITTED) as everything,
        ):
            while await committed.end_offsets(job.output) != await everything.end_offsets(
                job.output
            ):
                await asyncio.sleep(SETTLE_S)

    async def _read(self, job: Job, isolation_level: str) -> Records:
        async with self._consumer(AsyncioNetwork(), isolation_level) as consumer:
            return await job.read(consumer)


async def _work_until_done(job: Job, order: Order, producer: Producer, consumer: Consumer) -> str:
    """Work until nothing is left; returns "", or the reason for a failure."""
    try:
        await producer.start()
        await consumer.start()
        await work(job, order, producer, consumer)
    except (ProducerError, ConsumerError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the clients. A cancelled transaction would abort, and wait for that; a crashed client
    does not."""
    while not all(task.done() for task in tasks):
        for task in tasks:
            task.cancel()
        await asyncio.sleep(0)


def _count(seen: Records) -> int:
    return sum(map(len, seen.values()))
