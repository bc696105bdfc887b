"""Waits of clients: they go by a clock that a test may advance, all of them."""

from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import impl
from impl.clock import LoopClock, SharedClock, announce, clock_of, withdraw

HOUR_MS = 3_600_000
HOUR_S = 3_600.0
PATIENCE_S = 10

WAITING_PACKAGES = ("client", "consumer", "producer")
WAITING_MODULES = ("broker/faults.py",)
TIMES = {"call_at", "call_later", "monotonic", "perf_counter", "time_ns", "timeout_at", "wait_for"}
ASYNCIO_WAITS = {"sleep", "timeout", "wait_for", "timeout_at"}


def advance(clock: SharedClock, duration_ms: int) -> None:
    clock.add(duration_ms)
    clock.wake()


async def test_waits_end_in_the_order_in_which_they_are_due() -> None:
    shared = SharedClock()
    clock = LoopClock(shared)
    ended: list[int] = []
    waits = [3, 1, 2, 4]
    tasks = [asyncio.create_task(wait(clock, hours, ended)) for hours in waits]
    await asyncio.sleep(0)
    advance(shared, 3 * HOUR_MS)
    await asyncio.wait(tasks[:3], timeout=PATIENCE_S)
    assert ended == [1, 2, 3]
    advance(shared, HOUR_MS)
    await asyncio.wait(tasks, timeout=PATIENCE_S)
    assert ended == [1, 2, 3, 4]
    assert not clock.waits


async def wait(clock: LoopClock, hours: int, ended: list[int]) -> None:
    if hours % 2:
        await clock.sleep(hours * HOUR_S)
    else:
        with pytest.raises(TimeoutError):
            async with clock.timeout(hours * HOUR_S):
                await asyncio.Event().wait()
    ended.append(hours)


async def test_what_is_not_due_goes_on() -> None:
    shared = SharedClock()
    clock = LoopClock(shared)
    async with asyncio.timeout(PATIENCE_S):
        async with clock.timeout(HOUR_S):
            advance(shared, HOUR_MS // 2)
            await clock.sleep(0)
        sleeping = asyncio.create_task(clock.sleep(HOUR_S))
        await clock.wait([sleeping], 0.001)
    assert not sleeping.done()
    sleeping.cancel()
    await asyncio.wait([sleeping])
    assert not clock.waits


async def test_time_passes_as_on_the_event_loop_if_nobody_advances_it() -> None:
    clock = LoopClock(SharedClock())
    loop = asyncio.get_running_loop()
    assert abs(clock.time_s() - loop.time()) < 1
    began_s = loop.time()
    await clock.sleep(0.02)
    with pytest.raises(TimeoutError):
        async with clock.timeout(0.02):
            await asyncio.Event().wait()
    assert loop.time() - began_s + 0.001 >= 0.04


async def test_another_thread_may_advance_it() -> None:
    shared = SharedClock()
    clock = LoopClock(shared)
    before_ms, before_s = clock.wall_ms(), clock.time_s()
    sleeping = asyncio.create_task(clock.sleep(HOUR_S))
    await asyncio.sleep(0)
    threading.Thread(target=advance, args=(shared, HOUR_MS)).start()
    async with asyncio.timeout(PATIENCE_S):
        await sleeping
    assert clock.wall_ms() - before_ms >= HOUR_MS
    assert clock.time_s() - before_s >= HOUR_S


def test_a_loop_that_has_ended_is_not_waited_for() -> None:
    shared = SharedClock()

    async def follow() -> LoopClock:
        return LoopClock(shared)

    clock = asyncio.run(follow())
    advance(shared, HOUR_MS)
    assert not clock.waits


def test_an_address_has_the_clock_of_the_broker_that_serves_there() -> None:
    shared = SharedClock()
    announce(shared, ["broker.example"], [9_300])
    try:
        for host in ("localhost", "127.0.0.1", "::1", "broker.example"):
            assert clock_of([("elsewhere", 1), (host, 9_300)]) is shared
        assert clock_of([("other.example", 9_300)]) is not shared
        assert clock_of([("localhost", 9_301)]) is not shared
    finally:
        withdraw(shared)
    assert clock_of([("localhost", 9_300)]) is not shared


# ---- every wait


def test_clients_and_faults_wait_by_the_clock_alone() -> None:
    room = Path(impl.__file__).parent
    modules = [path for name in WAITING_PACKAGES for path in (room / name).glob("*.py")]
    modules += [room / name for name in WAITING_MODULES]
    assert len(modules) > 40
    found = [f"{path.name}:{line}" for path in modules for line in waits_in(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import time",
        "async def f(): await asyncio.sleep(1)",
        "async def f(): await asyncio.wait_for(g(), 1)",
        "async def f():\n    async with asyncio.timeout(1): pass",
        "async def f(): await asyncio.wait([g], timeout=1)",
        "from asyncio import sleep",
        "loop.call_later(1, f)",
        "clock = asyncio.get_running_loop().time",
        "self._loop.time()",
    ],
)
def test_a_wait_by_another_clock_is_found(text: str) -> None:
    assert list(waits_in(text))


def waits_in(text: str) -> Iterator[int]:
    """The lines that wait or tell the time, but for turns of the event loop: `sleep(0)`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import) and any(each.name == "time" for each in node.names):
            yield node.lineno
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio"):
            yield node.lineno
        if isinstance(node, ast.Call) and is_asyncio_wait(node):
            yield node.lineno
        if isinstance(node, ast.Attribute) and is_loop_time(node):
            yield node.lineno


def is_asyncio_wait(node: ast.Call) -> bool:
    name = ast.unparse(node.func)
    if name == "asyncio.wait":
        return any(each.arg == "timeout" for each in node.keywords)
    is_turn = name == "asyncio.sleep" and ast.unparse(node.args[0]) == "0"
    return name.removeprefix("asyncio.") in ASYNCIO_WAITS and "asyncio." in name and not is_turn


def is_loop_time(node: ast.Attribute) -> bool:
    owner = ast.unparse(node.value)
    is_clock = owner.endswith("clock")
    return (node.attr in TIMES and not is_clock) or (node.attr == "time" and "loop" in owner)
