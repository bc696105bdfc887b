"""Runs are recorded: each with a proxy of its own, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack

from conformance.client.plan import TOPIC, RunPlan
from conformance.client.processes import ClientCommand, ClientProcess, Told
from conformance.client.proxy import Proxy
from conformance.client.trace import UNKNOWN, ClientTrace, Outcome


async def recorded(
    command: ClientCommand, plans: Iterable[RunPlan], at_once: int
) -> AsyncIterator[ClientTrace]:
    """What was seen of each run, in the order in which they end."""
    waiting = iter(plans)
    done: asyncio.Queue[ClientTrace | None] = asyncio.Queue()
    processes = max(1, at_once // command.runs_at_once)
    lanes = at_once // processes

    async def lane(process: ClientProcess) -> None:
        try:
            for plan in waiting:
                await done.put(await one(command.name, process, plan))
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


async def one(client: str, process: ClientProcess, plan: RunPlan) -> ClientTrace:
    """One run."""
    async with Proxy(plan) as proxy:
        told = await process.run(plan, proxy.bootstrap)
        if told.problem:
            process.holds(proxy.held_ports())
        else:
            await proxy.read_to_end()
        return trace_of(client, plan, proxy, told)


def trace_of(client: str, plan: RunPlan, proxy: Proxy, told: Told) -> ClientTrace:
    """What the proxy saw and the client told, together."""
    outcomes = {
        record: Outcome(
            UNKNOWN if row.at_ns is None else proxy.at_us(row.at_ns),
            proxy.at_us(told.handed_ns.get(record, proxy.began_ns)),
            row.offset,
            row.error,
        )
        for record, row in told.outcomes.items()
    }
    return ClientTrace(
        client,
        plan,
        tuple(proxy.events),
        outcomes,
        proxy.stored(TOPIC),
        proxy.at_us(),
        proxy.problem or told.problem,
    )
