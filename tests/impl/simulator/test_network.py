"""A connection keeps the order, and when it breaks nothing arrives twice."""

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.simulator.faults import Faults
from impl.simulator.network import SimulatedConnection
from impl.simulator.virtual_time import run_virtually


class Broker:
    def __init__(self, answers=True):
        self.got = []
        self.answers = answers
        self.links_ended = 0

    def receive_request(self, link, payload):
        self.got.append(payload)
        if self.answers:
            link.answer(b"to " + payload)

    def close_link(self, link):
        self.links_ended += 1


class Anyone:
    def step(self, what, payload):
        return True


class Client:
    def __init__(self):
        self.heard = []
        self.causes = []

    def receive(self, payload):
        assert not self.causes
        self.heard.append(payload)

    def lose(self, cause):
        self.causes.append(str(cause))


def connect(broker, faults, seed=0):
    client = Client()
    return SimulatedConnection(1, broker, Anyone(), client, faults, Random(seed)), client


def payloads(count):
    return [b"%d" % number for number in range(count)]


async def talk(seed, faults, count):
    """Send so many messages: (what the broker received, what the client received)."""
    broker = Broker()
    link, client = connect(broker, faults, seed)
    for payload in payloads(count):
        link.send(payload)
    await asyncio.sleep(10)
    assert client.causes == ["the connection broke"] * link.is_broken
    return broker, client.heard, link.is_broken


@given(st.integers(0, 10_000), st.integers(1, 20))
def test_all_arrive_in_order_without_faults(seed, count):
    broker, heard, is_broken = run_virtually(talk(seed, Faults(delay_ms=(0, 9)), count))
    assert broker.got == payloads(count)
    assert heard == [b"to " + payload for payload in payloads(count)]
    assert not is_broken


@given(st.integers(0, 10_000), st.integers(1, 20), st.floats(0, 1))
def test_after_a_break_nothing_comes_twice_and_nothing_changes_places(seed, count, loss_rate):
    faults = Faults(delay_ms=(0, 9), break_rate=0.2, loss_rate=loss_rate, late_ms=(0, 50))
    broker, heard, is_broken = run_virtually(talk(seed, faults, count))
    assert broker.got == sorted(set(broker.got), key=payloads(count).index)
    assert heard == [b"to " + payload for payload in payloads(count)[: len(heard)]]
    assert broker.links_ended == is_broken


@pytest.mark.parametrize(("loss_rate", "arrives"), [(0.0, True), (1.0, False)])
def test_what_was_on_its_way_arrives_late_or_never(loss_rate, arrives):
    async def program():
        broker = Broker()
        faults = Faults(delay_ms=(5, 5), loss_rate=loss_rate, late_ms=(100, 100))
        link, client = connect(broker, faults)
        link.send(b"x")
        link.break_off()
        assert client.causes == []
        await asyncio.sleep(0.05)
        assert broker.got == []
        await asyncio.sleep(1)
        assert broker.got == ([b"x"] if arrives else [])
        assert client.causes == ["the connection broke"]
        link.send(b"y")
        await asyncio.sleep(1)
        assert b"y" not in broker.got

    run_virtually(program())


def test_what_was_sent_before_a_close_arrives():
    async def program():
        broker = Broker(answers=False)
        link, _ = connect(broker, Faults(loss_rate=1.0))
        for payload in payloads(5):
            link.send(payload)
        link.close()
        await asyncio.sleep(1)
        assert broker.got == payloads(5)
        assert broker.links_ended == 1

    run_virtually(program())


def test_a_machine_that_stands_still_goes_on_later():
    async def program():
        broker = Broker()
        link, client = connect(broker, Faults())
        link.hold()
        link.send(b"x")
        await asyncio.sleep(1)
        assert broker.got == []
        link.release()
        await asyncio.sleep(1)
        assert client.heard == [b"to x"]

    run_virtually(program())
