"""Kills the broker at random moments, and checks its files now and then, and at the end."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from conformance.campaigns.kills.checks import Told, check, read_told
from conformance.campaigns.kills.load import LoadProcesses, Standstill
from conformance.campaigns.kills.readers import check_audit, check_wire
from conformance.campaigns.kills.served_broker import (
    BrokerProcess,
    Main,
    create_topics,
    describe_broker,
    open_transactions,
    request_producer_id,
    serve_directory,
)
from conformance.campaigns.kills.stored import StoredState, groups_of, read_stored
from conformance.campaigns.kills.workload import (
    OUTPUT_PARTITIONS,
    PARTITIONS,
    SEGMENT_BYTES,
    TOPIC,
    TRANSACTION_TIMEOUT_MS,
    output_topic,
)
from proofs.run.files import pretty, write_whole

SECONDS: Final = (0.3, 3.0)
"""The least and the most time between a start of the broker and its kill."""
CALM_EVERY: Final = 10
CALM_LIVES: Final = 2
"""One of `CALM_EVERY` lives, and the last one, lasts longer by this many times the longest other
life, so that members and transactions of clients that are gone time out."""
END_S: Final = TRANSACTION_TIMEOUT_MS / 1_000 + 20
"""The longest time until open transactions time out."""
DESCRIBE_S: Final = 15.0
JOURNALS: Final = "journals"
DATA: Final = "data"
BROKER_LOG: Final = "broker.log"
KEPT: Final = "result.json"


@dataclass(frozen=True, slots=True)
class KillPlan:
    """The settings of a run. The files are checked every `check_every` kills, unless it is 0."""

    libraries: tuple[str, ...]
    moments: int
    seed: int = 1
    seconds: tuple[float, float] = SECONDS
    check_every: int = 100
    stall_s: float = 90.0
    segment_bytes: int = SEGMENT_BYTES
    log_level: str = "WARNING"


@dataclass(slots=True)
class KillResult:
    """The results of a run. All but `told` is kept in the folder, for a run that continues
    there."""

    moments: int = 0
    seconds: float = 0.0
    producer_ids: list[int] = field(default_factory=list)
    start_seconds: list[float] = field(default_factory=list)
    """The duration of each start of the broker until it served."""
    wrong: list[str] = field(default_factory=list)
    standstills: list[Standstill] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    """Clients that did not end when they were told to."""
    checks: int = 0
    told: Told = field(default_factory=Told)

    def keep(self, file: Path) -> None:
        """Write the result. Raises `OSError`."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "told"}
        kept["standstills"] = [asdict(one) for one in self.standstills]
        write_whole(file, pretty(kept))

    @classmethod
    def load(cls, file: Path) -> KillResult:
        """The kept result; a new one if there is no file. Raises `OSError`."""
        if not file.exists():
            return cls()
        kept = json.loads(file.read_text(encoding="utf-8"))
        kept["standstills"] = [Standstill(**one) for one in kept["standstills"]]
        return cls(**kept)


class Killing:
    """One run in a folder, which receives the broker's directory, its log, and the journals.

    If the folder has an interrupted run, that run continues.
    """

    def __init__(
        self,
        folder: Path,
        plan: KillPlan,
        *,
        main: Main = serve_directory,
        show: Callable[[KillResult], None] = lambda _: None,
    ) -> None:
        self._plan, self._show = plan, show
        self._calm_s = CALM_LIVES * plan.seconds[1]
        self._folder, self._journals = folder, folder / JOURNALS
        self._journals.mkdir(parents=True, exist_ok=True)
        self._broker = BrokerProcess(folder / DATA, main, folder / BROKER_LOG)
        self.result = KillResult.load(folder / KEPT)
        self._draw = random.Random(f"{plan.seed}-{self.result.moments}")
        self._begun = time.monotonic() - self.result.seconds

    async def run(self) -> KillResult:
        """Kill and check; `result` has everything done so far. Raises `BrokerFailed`."""
        await self._broker.start()
        try:
            outputs = {output_topic(name): OUTPUT_PARTITIONS for name in self._plan.libraries}
            topics = {TOPIC: PARTITIONS, **outputs}
            await create_topics(self._broker.port, topics, self._plan.segment_bytes)
            load = LoadProcesses(
                self._broker.address,
                self._journals,
                self._plan.libraries,
                stall_s=self._plan.stall_s,
                log_level=self._plan.log_level,
            )
            try:
                await load.await_begin()
                await self._kill_under(load)
                if not self.result.wrong:
                    await self._end(load)
            finally:
                load.kill()
        finally:
            self._broker.kill()
        if self.result.wrong:
            return self.result
        stored = await asyncio.to_thread(self.check)
        self.result.wrong += check_audit(self._folder / DATA)
        self.result.wrong += await check_wire(self._folder / DATA, stored)
        return self.result

    async def _kill_under(self, load: LoadProcesses) -> None:
        for moment in range(self.result.moments + 1, self._plan.moments + 1):
            calm = self._calm_s if moment % CALM_EVERY == 0 else 0.0
            await self._live(load, calm + self._draw.uniform(*self._plan.seconds))
            if not self._broker.is_alive:
                self.result.wrong.append(f"the broker ended by itself before kill {moment}")
            self._broker.kill()
            self.result.moments = moment
            every = self._plan.check_every
            if every and moment % every == 0 and moment < self._plan.moments:
                await asyncio.to_thread(self.check)
            if self.result.wrong:
                return
            begun = time.monotonic()
            await self._broker.start()
            self.result.start_seconds.append(time.monotonic() - begun)
            self._note(load)

    async def _live(self, load: LoadProcesses, seconds: float) -> None:
        """Let the broker live for a while; ask it for a producer id meanwhile."""
        limit = time.monotonic() + seconds
        with suppress(OSError, EOFError):
            async with asyncio.timeout(seconds):
                self.result.producer_ids.append(await request_producer_id(self._broker.port))
        await asyncio.sleep(max(limit - time.monotonic(), 0.0))
        if clients := load.find_standing_still():
            load.replace(clients, await self._describe())
        load.restart_ended()

    async def _describe(self) -> Any:
        try:
            async with asyncio.timeout(DESCRIBE_S):
                return await describe_broker(self._broker.port, groups_of(self._plan.libraries))
        except (OSError, EOFError, TimeoutError) as error:
            return repr(error)

    async def _end(self, load: LoadProcesses) -> None:
        """A calm period, then all clients end, then their open transactions time out."""
        await asyncio.sleep(self._calm_s)
        self.result.killed = await asyncio.to_thread(load.stop)
        limit = time.monotonic() + END_S
        while await open_transactions(self._broker.port) and time.monotonic() < limit:
            await asyncio.sleep(0.2)
        self._note(load)

    def _note(self, load: LoadProcesses) -> None:
        self.result.standstills += load.standstills
        self.result.ended += load.ended
        load.standstills, load.ended = [], []
        self.result.seconds = time.monotonic() - self._begun
        self.result.keep(self._folder / KEPT)
        self._show(self.result)

    def check(self) -> StoredState:
        """Compare the files with the journals; the broker must not run."""
        self.result.told = read_told(self._journals, self.result.producer_ids)
        stored = read_stored(self._folder / DATA, self._plan.libraries)
        self.result.wrong += check(stored, self.result.told, self._plan.libraries)
        self.result.checks += 1
        self.result.seconds = time.monotonic() - self._begun
        return stored
