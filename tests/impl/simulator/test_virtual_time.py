"""Virtual time passes only when no callback is ready."""

import asyncio
import time

import pytest

from impl.simulator.virtual_time import Deadlock, run_virtually


def test_hours_pass_at_once():
    async def sleeper():
        await asyncio.sleep(7_200)
        return asyncio.get_running_loop().time()

    began_s = time.monotonic()
    assert run_virtually(sleeper()) == pytest.approx(7_200)
    assert time.monotonic() - began_s < 5


def test_sleepers_wake_in_their_order():
    woken = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        woken.append(seconds)

    async def all_of_them():
        await asyncio.gather(*(sleeper(seconds) for seconds in (3, 1, 2)))

    run_virtually(all_of_them())
    assert woken == [1, 2, 3]


def test_tasks_without_a_timer_are_a_deadlock():
    async def waiter():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        run_virtually(waiter())


def test_a_callback_that_fails_fails_the_run():
    async def program():
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        run_virtually(program())
