"""Records runs of a client, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack

from conformance.adapters.clients.processes import ClientCommand, ClientProcess
from conformance.adapters.clients.proxy import Proxy
from conformance.adapters.clients.run_plan import TOPIC, RunPlan
from conformance.adapters.clients.trace import ClientTrace


async def record_runs(
    command: ClientCommand, plans: Iterable[RunPlan], at_once: int
) -> AsyncIterator[ClientTrace]:
    """The trace of each run, in the order in which runs end; `at_once` of them run at the same
    time."""
    plans = list(plans)
    at_once = min(at_once, len(plans))
    waiting = iter(plans)
    done: asyncio.Queue[ClientTrace | None] = asyncio.Queue()
    processes = max(1, at_once // command.runs_at_once)
    lanes = at_once // processes

    async def lane(process: ClientProcess) -> None:
        try:
            for plan in waiting:
                await done.put(await record_run(command.name, process, plan))
                if not process.is_alive:
                    break
        finally:
            await done.put(None)

    async with AsyncExitStack() as stack:
        working = []
        for _ in range(processes):
            process = await stack.enter_async_context(ClientProcess(command))
            working += [asyncio.create_task(lane(process)) for _ in range(lanes)]
        left = len(working)
        while left:
            trace = await done.get()
            if trace is None:
                left -= 1
            else:
                yield trace
        await asyncio.gather(*working)


async def record_run(client: str, process: ClientProcess, plan: RunPlan) -> ClientTrace:
    """Run a plan behind a proxy of its own."""
    async with Proxy(plan) as proxy:
        report = await process.run(plan, proxy.bootstrap, proxy.at_us)
        if report.problem:
            process.hold_ports(proxy.duplicate_ports())
        else:
            await proxy.read_to_end()
        return ClientTrace(
            client,
            plan,
            tuple(proxy.events),
            report.outcomes,
            proxy.stored_batches(TOPIC),
            proxy.at_us(),
            proxy.problem or report.problem,
            report.ends,
            proxy.committed_offset(),
        )
