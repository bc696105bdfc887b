"""Connections that answer wrongly or not at all, and what a client learns of its cluster."""

import asyncio
import gc
import logging
import warnings

import pytest

from impl.client.connection import Connection
from impl.client.network_client import NetworkClient, NoBrokersAvailable, UnsupportedClusterError
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import (
    decode_request,
    encode_response,
    encode_unsupported_version,
)
from impl.protocol.schemas import ApiKey
from impl.simulator.virtual_time import run_virtually


class Scripted:
    """A transport whose peer answers with what `broker` returns; None is no answer."""

    def __init__(self, broker, receiver):
        self.broker = broker
        self.receiver = receiver
        self.is_closed = False

    def send(self, payload):
        header, body = decode_request(payload)
        answer = self.broker(header, body)
        if answer is not None:
            self.deliver(answer)

    def deliver(self, payload):
        asyncio.get_running_loop().call_soon(self.receiver.receive, payload)

    def close(self):
        self.is_closed = True
        asyncio.get_running_loop().call_soon(self.receiver.lose, ConnectionResetError())

    async def wait_closed(self):
        assert self.is_closed


class Network:
    """One broker for every address in `up`."""

    def __init__(self, broker, up=("a",)):
        self.broker = broker
        self.up = up
        self.connected = []
        self.opened = []

    async def connect(self, host, port, receiver):
        if host not in self.up:
            raise ConnectionRefusedError(host)
        self.connected.append((host, port))
        self.opened.append(Scripted(self.broker, receiver))
        return self.opened[-1]


def answer(header, body):
    return encode_response(header["api_key"], header["api_version"], header["correlation_id"], body)


def versions(api_version=4, *, features_epoch=5, level=2, served=((3, 0, 12), (18, 0, 4))):
    body = {
        "error_code": 0,
        "api_keys": [
            {"api_key": key, "min_version": first, "max_version": last}
            for key, first, last in served
        ],
        "finalized_features_epoch": features_epoch,
        "finalized_features": [
            {"name": "transaction.version", "max_version_level": level, "min_version_level": level}
        ],
    }

    def broker(header, _):
        if header["api_key"] != ApiKey.API_VERSIONS:
            row = {"node_id": 7, "host": "a", "port": 1}
            topic = {"error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "name": "no"}
            topics = [topic | {"partitions": []}]
            return answer(header, {"brokers": [row], "topics": topics})
        if header["api_version"] > api_version:
            return encode_unsupported_version(header["correlation_id"], 0, api_version)
        return answer(header, body)

    return broker


def cluster(network, servers="a:1", timeout_ms=1_000):
    return NetworkClient(network, servers, "c", timeout_ms)


def test_a_client_learns_who_is_there_and_what_is_served():
    async def program():
        network = Network(versions(), up=("b", "a"))
        learned = cluster(network, ["down:1", "b:2"])
        await learned.start()
        assert learned.nodes == {7: ("a", 1)}
        assert learned.transaction_version == 2
        assert learned.version(ApiKey.METADATA) == 12
        assert learned.partitions == {}
        await learned.connect_node(7)
        await learned.connect_node(7)
        assert network.connected == [("b", 2), ("a", 1)]
        await learned.close()

    run_virtually(program())


def test_an_address_that_cannot_be_reached_is_left_alone_for_longer_and_longer(caplog):
    caplog.set_level(logging.INFO, "impl.client.connection_states")

    class Counting(Network):
        tried = 0

        async def connect(self, host, port, receiver):
            self.tried += 1
            return await super().connect(host, port, receiver)

    async def program():
        network = Counting(versions(), up=())
        client = cluster(network)
        for _ in range(1_200):  # two minutes, every 100 ms
            with pytest.raises(ConnectionRefusedError, match="a"):
                await client.connect(("a", 1))
            await asyncio.sleep(0.1)
        assert 90 < network.tried < 140
        network.up = ("a",)
        await asyncio.sleep(1.2)
        await client.connect(("a", 1))
        await client.close()

    run_virtually(program())
    warned = [told.message for told in caplog.records if told.levelname == "WARNING"]
    assert warned[:3] == [
        "a:1 cannot be reached: a",
        "a:1 cannot be reached: a (2 failures so far)",
        "a:1 cannot be reached: a (4 failures so far)",
    ]
    assert len(warned) in (7, 8)
    assert "a:1 is reached again" in caplog.messages[-1]


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_client_that_was_forgotten_is_named(is_stopped):
    async def program():
        client = cluster(Network(versions()))
        await client.start()
        if is_stopped:
            await client.close()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run_virtually(program())
        gc.collect()
    named = [warning for warning in told if "'c' was not stopped" in str(warning.message)]
    assert [warning.category for warning in named] == ([] if is_stopped else [ResourceWarning])


def test_an_old_broker_is_asked_in_the_oldest_form():
    async def program():
        learned = cluster(Network(versions(api_version=0)))
        await learned.start()
        assert learned.transaction_version == -1
        assert learned.served[ApiKey.METADATA] == (0, 12)
        await learned.close()

    run_virtually(program())


def test_what_is_not_served_is_named():
    async def program():
        learned = cluster(Network(versions(served=((3, 0, 12), (18, 0, 4), (1, 15, 17)))))
        await learned.start()
        with pytest.raises(UnsupportedClusterError, match="FETCH is served from 15 to 17"):
            learned.version(ApiKey.FETCH)
        with pytest.raises(UnsupportedClusterError, match=r"OFFSET_FETCH is not served, .* 0 to 9"):
            learned.version(ApiKey.OFFSET_FETCH)
        await learned.close()

    run_virtually(program())


@pytest.mark.parametrize("broker", [lambda header, body: None, lambda header, body: b"nonsense"])
def test_a_broker_that_does_not_answer_is_not_there(broker):
    async def program():
        silent = cluster(Network(broker))
        with pytest.raises(NoBrokersAvailable):
            await silent.start()
        with pytest.raises(NoBrokersAvailable, match="the address of node 9 is unknown"):
            await silent.connect_node(9)
        await silent.close()

    run_virtually(program())


@pytest.mark.parametrize("wrong", ["correlation", "unasked", "nonsense"])
def test_an_answer_that_is_none_ends_the_connection(wrong):
    async def program():
        def broker(header, body):
            if wrong == "nonsense":
                return b"x" * 3
            return answer(header | {"correlation_id": 99}, {"brokers": [], "topics": []})

        network = Network(broker)
        connection = await Connection.open(network, "a", 1, "c")
        [transport] = network.opened
        told = []
        connection.on_closed(lambda: told.append("closed"))
        if wrong == "unasked":
            transport.deliver(answer({"api_key": 3, "api_version": 1} | CORRELATED, EMPTY))
            await asyncio.sleep(1)
        else:
            with pytest.raises(ConnectionResetError):
                await connection.request(ApiKey.METADATA, 1, {"topics": []})
        assert transport.is_closed
        assert told == ["closed"]
        with pytest.raises(ConnectionResetError):
            await connection.request(ApiKey.METADATA, 1, {"topics": []})
        assert told == ["closed"]

    run_virtually(program())


def test_a_connection_that_breaks_while_it_is_opened_is_closed():
    class Hasty(Network):
        async def connect(self, host, port, receiver):
            transport = await super().connect(host, port, receiver)
            receiver.lose(ConnectionResetError("soon"))
            return transport

    async def program():
        network = Hasty(versions())
        with pytest.raises(ConnectionResetError):
            await cluster(network).connect(("a", 1))
        [transport] = network.opened
        assert transport.is_closed

    run_virtually(program())


def test_a_callback_that_fails_closes_the_connection_and_is_heard_of():
    async def program():
        network = Network(lambda header, _: answer(header, EMPTY))
        connection = await Connection.open(network, "a", 1, "c")
        heard = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: heard.append(told))

        def fail(body):
            if body is not None:
                raise RuntimeError("a defect")

        connection.send(ApiKey.METADATA, 1, {"topics": []}, fail)
        await asyncio.sleep(1)
        assert connection.is_closed
        assert [str(each["exception"]) for each in heard] == ["a defect"]

    run_virtually(program())


CORRELATED = {"correlation_id": 1}
EMPTY = {"brokers": [], "topics": []}


def test_two_that_ask_at_once_share_a_connection():
    async def program():
        network = Network(versions())
        learned = cluster(network)
        first, second = await asyncio.gather(learned.connect(("a", 1)), learned.connect(("a", 1)))
        assert first is second
        assert len(network.connected) == 1
        first.close()
        assert await learned.connect(("a", 1)) is not first
        await learned.close()

    run_virtually(program())
