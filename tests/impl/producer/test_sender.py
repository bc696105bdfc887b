"""The sender of the asyncio producer where connections, answers and leaders fail it."""

import asyncio
from collections import deque

import pytest

from impl.producer import DeliveryTimeoutError
from impl.producer.producer import Producer
from impl.protocol.messages import decode_request, decode_response, encode_response
from impl.protocol.schemas import ApiKey
from impl.simulator import ClientHost
from tests.impl.producer.test_producer import in_a_world, producer, read

SOON_MS = 5_000
"""Long before `request_timeout_ms`: nothing here waits for an answer that never comes."""


class Meddler(ClientHost):
    """A network that keeps count; `change(api_key, body)` is what becomes of answers."""

    def __init__(self, world, name, change=lambda _, body: body):
        super().__init__(world, name)
        self.asked = dict.fromkeys(ApiKey, 0)
        self.hosts = set()
        self.change = change

    async def connect(self, host, port, receiver):
        changing = Changing(self, receiver)
        transport = await super().connect(host, port, changing)
        self.hosts.add(host)
        send = transport.send

        def sent(payload):
            header, _ = decode_request(payload)
            self.asked[header["api_key"]] += 1
            changing.open_requests.append((header["api_key"], header["api_version"]))
            send(payload)

        transport.send = sent
        return transport


class Changing:
    """Receives for another one, and changes answers."""

    def __init__(self, meddler, receiver):
        self.meddler = meddler
        self.receiver = receiver
        self.lose = receiver.lose
        self.open_requests = deque()

    def receive(self, payload):
        api = self.open_requests.popleft()
        header, body = decode_response(*api, payload)
        changed = self.meddler.change(api[0], body)
        self.receiver.receive(encode_response(*api, header["correlation_id"], changed))


def producer_on(world, network, **settings):
    settings |= {"clock_ms": world.clock_ms, "linger_ms": 0}
    return Producer(world.bootstrap_servers, network=network, **settings)


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_leader_that_comes_back_is_connected_to_at_once(is_connected):
    async def program(world):
        async with producer(world) as p:
            await p.partitions_for("t")
            if is_connected:
                await p.send_and_wait("t", b"before")
            world.stop_node(1)
            outcome = await p.send("t", b"after")
            await asyncio.sleep(1)
            world.start_node(1)
            began = world.clock_ms()
            await outcome
            assert world.clock_ms() - began < SOON_MS
        return await read(world)

    assert in_a_world(program) == [b"before"] * is_connected + [b"after"]


def test_an_answer_that_leaves_out_its_partition_ends_the_connection():
    changed = []

    def first_produce_without_topics(api_key, body):
        if api_key != ApiKey.PRODUCE or changed:
            return body
        changed.append(body)
        return body | {"topics": []}

    async def program(world):
        network = Meddler(world, "p", first_produce_without_topics)
        async with producer_on(world, network) as p:
            began = world.clock_ms()
            assert (await p.send_and_wait("t", b"a")).offset == 0
            assert world.clock_ms() - began < SOON_MS
        assert len(changed) == 1
        return await read(world)

    assert in_a_world(program) == [b"a"]


def test_a_coordinator_may_be_a_node_that_metadata_does_not_name():
    def without_node_2(api_key, body):
        if api_key != ApiKey.METADATA:
            return body
        return body | {"brokers": [row for row in body["brokers"] if row["node_id"] != 2]}

    async def program(world):
        nodes_met, began = set(), world.clock_ms()
        for name in ("A", "B", "C", "D"):
            network = Meddler(world, name, without_node_2)
            async with producer_on(world, network, transactional_id=name) as p, p.transaction():
                await p.send("t", name.encode())
            nodes_met.add(len(network.hosts))
        assert nodes_met == {1, 2}, "the coordinator of some is the other node"
        assert world.clock_ms() - began < SOON_MS
        return await read(world)

    assert in_a_world(program, nodes=2) == [b"A", b"B", b"C", b"D"]


def test_metadata_is_asked_for_again_when_it_is_old_and_not_before():
    async def program(world):
        network = Meddler(world, "p")
        async with producer_on(world, network, metadata_max_age_ms=30_000) as p:
            await p.send_and_wait("t", b"a")
            await asyncio.sleep(1)
            asked = network.asked[ApiKey.METADATA]
            await asyncio.sleep(20)
            assert network.asked[ApiKey.METADATA] == asked
            await asyncio.sleep(20)
            assert network.asked[ApiKey.METADATA] == asked + 1

    in_a_world(program)


def test_an_outcome_says_what_is_legal_after_it():
    async def program(world):
        settings = {"linger_ms": 0, "request_timeout_ms": 500, "delivery_timeout_ms": 500}
        async with producer(world, transactional_id="T", **settings) as p:
            await p.begin_transaction()
            await p.send_and_wait("t", b"a")
            world.stop_node(1)
            outcome = await p.send("t", b"b")
            with pytest.raises(DeliveryTimeoutError) as late:
                await outcome
            assert late.value.legal_calls == ("abort_transaction", "stop")
            world.start_node(1)
            await p.abort_transaction()

    in_a_world(program)


@pytest.mark.parametrize(
    ("call", "requests"), [("send_and_wait", 1), ("send_and_wait of several", 2), ("send", 1)]
)
def test_a_record_that_is_waited_for_does_not_wait_for_others(call, requests):
    """One alone leaves at once; what follows it without a pause leaves together."""

    async def program(world):
        network = Meddler(world, "client")
        async with producer_on(world, network) as p:
            await p.send_and_wait("t", b"first", partition=0)
            before = network.asked[ApiKey.PRODUCE]
            if call == "send_and_wait":
                waiting = asyncio.ensure_future(p.send_and_wait("t", b"v", partition=0))
                await asyncio.sleep(0)
                assert network.asked[ApiKey.PRODUCE] == before + 1
                await waiting
            elif call == "send":
                futures = [await p.send("t", b"v", partition=0) for _ in range(9)]
                assert network.asked[ApiKey.PRODUCE] == before
                await asyncio.gather(*futures)
            else:
                await asyncio.gather(*(p.send_and_wait("t", b"v", partition=0) for _ in range(9)))
            assert network.asked[ApiKey.PRODUCE] == before + requests

    in_a_world(program)
