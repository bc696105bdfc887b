"""What a server's connections may cost: their number, their idle time, the memory of requests."""

from __future__ import annotations

import asyncio
import gc
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from impl.broker import connection_limits, served_connection
from impl.broker.config import NodeConfig
from impl.broker.listeners import Answer, Handle, settle
from impl.broker.node_settings import UnknownSetting, configure
from impl.broker.outputs import Output, Response
from impl.broker.served_connection import READ_BYTES
from impl.broker.server import Intercept, Server
from impl.protocol.messages import decode_request, encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey
from impl.security.config import Security
from impl.settings import InvalidSetting
from tests.impl.broker.admin_recording import NODE, SET, change

SECONDS = 20
REQUEST = frame(encode_request(ApiKey.API_VERSIONS, 0, 1, "c", {}))
LARGE = frame(encode_request(ApiKey.API_VERSIONS, 0, 1, "c", {}) + bytes(2 * READ_BYTES))
PADDED = frame(encode_request(ApiKey.API_VERSIONS, 0, 1, "c", {}) + bytes(READ_BYTES - 100))
_METADATA = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}
CREATE_TOPIC = frame(encode_request(ApiKey.METADATA, 4, 1, "c", _METADATA))
_PARTITION = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
_FETCH = {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "t", "partitions": [_PARTITION]}]}
EMPTY_FETCH = frame(encode_request(ApiKey.FETCH, 4, 1, "c", _FETCH))
"""It waits for a millisecond."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


Connect = Callable[..., Awaitable[Streams]]


@asynccontextmanager
async def serving(intercept: Intercept | None = None, **settings: Any) -> AsyncIterator[Connect]:
    """A server; what is yielded opens connections, which are closed in the end."""
    writers = []

    async def connect(data: bytes = b"") -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writers.append(writer)
        writer.write(data)
        return reader, writer

    async with (
        asyncio.timeout(SECONDS),
        Server(NodeConfig(host="127.0.0.1", port=0, **settings), intercept=intercept) as server,
    ):
        try:
            yield connect
        finally:
            for writer in writers:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()


async def is_answered(streams: Streams, data: bytes = b"") -> bool:
    """Whether the connection answers before it is closed."""
    streams[1].write(data)
    with suppress(ConnectionError):
        return bool(await streams[0].read(4))
    return False


async def read_answer(streams: Streams) -> None:
    size = int.from_bytes(await streams[0].readexactly(4), "big")
    await streams[0].readexactly(size)


async def waits(streams: Streams, other: Streams) -> bool:
    """Whether nothing comes while another connection is answered several times."""
    for _ in range(20):
        other[1].write(REQUEST)
        await read_answer(other)
    reading = asyncio.ensure_future(streams[0].read(4))
    await asyncio.sleep(0)
    is_done = reading.done()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return not is_done


async def test_a_first_answer_does_not_wait_for_later_requests() -> None:
    """They came in one read, and each takes longer than a write."""
    has_answer = []

    def handle_slowly(payload: bytes, handle: Handle) -> Answer:
        has_answer.append(bool(select.select([writer.get_extra_info("socket")], [], [], 0)[0]))
        time.sleep(0.001)
        return handle(payload)

    async with serving(handle_slowly) as connect:
        reader, writer = await connect(3 * REQUEST)
        for _ in range(3):
            await read_answer((reader, writer))
    assert has_answer == [False, True, True]


@pytest.mark.parametrize("request_bytes", [REQUEST, EMPTY_FETCH], ids=["at once", "awaited"])
async def test_answers_are_not_left_to_the_garbage_collector(request_bytes: bytes) -> None:
    requests = 200
    async with serving() as connect:
        streams = await connect(CREATE_TOPIC)
        await read_answer(streams)
        gc.collect()
        gc.disable()
        try:
            for request in requests * [request_bytes]:
                streams[1].write(request)
                await read_answer(streams)
            assert gc.collect() < requests
        finally:
            gc.enable()


async def test_a_host_has_no_more_connections_than_it_may(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(max_connections_per_ip=2) as connect:
        first, second = await connect(), await connect()
        assert await is_answered(first, REQUEST)
        assert await is_answered(second, REQUEST)
        assert not await is_answered(await connect(), REQUEST)
        assert "127.0.0.1 has 2 connections already" in caplog.text
        first[1].close()
        await first[1].wait_closed()
        while not await is_answered(await connect(), REQUEST):
            pass


async def test_a_connection_waits_until_another_one_ends() -> None:
    async with serving(max_connections=1) as connect:
        first = await connect()
        second = await connect(REQUEST)
        assert await waits(second, first)
        first[1].close()
        assert await is_answered(second)


def limit(name: str, value: str) -> bytes:
    """A request that changes a limit."""
    api_key, version, body = change(NODE, "", (name, SET, value))
    return frame(encode_request(api_key, version, 1, "c", body))


async def test_connections_that_wait_are_served_when_more_may_be() -> None:
    async with serving(max_connections=1) as connect:
        first = await connect()
        second, third = await connect(REQUEST), await connect(REQUEST)
        assert await waits(second, first)
        first[1].write(limit("max.connections", "2"))
        await read_answer(first)
        assert await is_answered(second)
        assert await waits(third, first)
        second[1].close()
        assert await is_answered(third)


async def test_a_host_may_have_fewer_connections_from_now_on() -> None:
    async with serving() as connect:
        first, second = await connect(), await connect()
        first[1].write(limit("max.connections.per.ip", "2"))
        await read_answer(first)
        assert not await is_answered(await connect(), REQUEST)
        assert await is_answered(first, REQUEST)
        assert await is_answered(second, REQUEST)


async def test_a_connection_that_stops_waiting_takes_no_place() -> None:
    async with asyncio.timeout(SECONDS):
        places = connection_limits._Places(1)
        await places.__aenter__()
        waiting = [asyncio.ensure_future(places.__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await places.__aexit__()
        waiting[1].cancel()  # it has the place already, and does not know it yet
        await asyncio.gather(*waiting, return_exceptions=True)
        assert [each.cancelled() for each in waiting] == [True, True, False]
        assert places._taken == 1


async def test_an_idle_connection_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with serving(connections_max_idle_ms=40) as connect:
        assert not await is_answered(await connect())
        assert "it is idle" in caplog.text


async def test_a_connection_without_tls_counts_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(max_connections=1, security=Security(listeners=("SSL",))) as connect:
        first, second = await connect(), await connect(REQUEST)
        assert not await is_answered(first, REQUEST)
        assert not await is_answered(second)
        first_line, second_line = caplog.messages
        assert str(first[1].get_extra_info("sockname")[1]) in first_line
        assert "closes the connection from" in second_line
        assert "[SSL: " in second_line


async def test_a_handshake_has_an_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served_connection, "HANDSHAKE_SECONDS", 0.01)
    settings = {"connections_max_idle_ms": 1, "security": Security(listeners=("SSL",))}
    async with serving(**settings) as connect:
        assert not await is_answered(await connect())
        (line,) = caplog.messages
        assert "handshake is taking longer" in line


async def test_a_request_may_not_be_larger_than_the_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(socket_request_max_bytes=len(REQUEST) - 4) as connect:
        assert await is_answered(await connect(), REQUEST)
        larger = (len(REQUEST) - 3).to_bytes(4, "big")
        assert not await is_answered(await connect(), larger)
        assert "closes the connection" in caplog.text


async def test_large_requests_wait_for_memory() -> None:
    async with serving(queued_max_request_bytes=1) as connect:
        small = await connect()
        first = await connect(LARGE)
        await read_answer(first)
        first[1].write(REQUEST)
        await read_answer(first)
        holder = await connect(LARGE[: 3 * READ_BYTES // 2])
        assert await waits(holder, small)
        second = await connect(LARGE)
        assert await waits(second, small)
        holder[1].close()
        assert await is_answered(second)


async def test_a_flood_of_requests_gives_others_their_turn() -> None:
    """Both connections' requests are there when the first one's are read."""
    clients: list[str] = []

    def note(payload: bytes, handle: Handle) -> asyncio.Future[Output]:
        clients.append(decode_request(payload)[0]["client_id"])
        return handle(payload)

    async with serving(intercept=note) as connect:
        flooding, other = await connect(REQUEST), await connect(REQUEST)
        assert await is_answered(flooding)
        assert await is_answered(other)
        clients.clear()
        flooding[1].write(REQUEST * 200)
        other[1].write(frame(encode_request(ApiKey.API_VERSIONS, 0, 1, "other", {})))
        while len(clients) < 201:
            await asyncio.sleep(0)
        assert clients.index("other") < 100


def test_settings_have_kafkas_names() -> None:
    config = configure(NodeConfig(), "max.connections", "7")
    config = configure(config, "transaction.max.timeout.ms", "8")
    config = configure(config, "auto.create.topics.enable", "false")
    assert config.max_connections == 7
    assert config.transactions.transaction_max_timeout_ms == 8
    assert not config.auto_create_topics


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("max.conections", "7", "unknown setting 'max.conections': did you mean 'max.connections'"),
        ("max.connections", "many", "must be an integer"),
        ("max.connections", "0", "from 1"),
        ("auto.create.topics.enable", "yes", "true or false"),
    ],
)
def test_wrong_settings_are_named(name: str, value: str, problem: str) -> None:
    with pytest.raises((UnknownSetting, InvalidSetting), match=problem):
        configure(NodeConfig(), name, value)


async def test_an_answer_does_not_wait_for_that_of_the_next_request() -> None:
    """Answers are sent together; one that never comes is not waited for."""
    payloads = []

    async def answer_first(payload: bytes, handle: Handle) -> Output:
        payloads.append(payload)
        return await settle(handle(payload)) if len(payloads) == 1 else await asyncio.Future()

    async with asyncio.timeout(SECONDS), Server(intercept=answer_first) as server:
        streams = await asyncio.open_connection("127.0.0.1", server.port)
        assert await is_answered(streams, REQUEST + REQUEST)
        streams[1].close()


async def test_a_client_that_reads_nothing_gets_no_more_answers() -> None:
    """Once the buffers between the two are full, until it reads."""
    answered = 0

    async def answer_much(payload: bytes, handle: Handle) -> Output:
        nonlocal answered
        answered += 1
        return Response(None, bytes(1 << 20))

    async with serving(intercept=answer_much) as connect:
        silent, other = await connect(REQUEST * 50), await connect()
        for _ in range(20):
            other[1].write(REQUEST)
            await read_answer(other)
        assert answered < 60
        for _ in range(50):
            await read_answer(silent)
        assert answered == 70


async def test_what_comes_while_a_request_waits_is_read_after_its_answer() -> None:
    """More than the buffers between the two can hold."""
    is_open = asyncio.Event()

    async def wait(payload: bytes, handle: Handle) -> Output:
        await is_open.wait()
        return await settle(handle(payload))

    async with serving(intercept=wait) as connect:
        client = await connect(PADDED * 400)
        for _turn in range(1000):
            await asyncio.sleep(0)
        assert client[1].transport.get_write_buffer_size()
        is_open.set()
        for _ in range(400):
            await read_answer(client)


async def test_what_came_before_a_connection_broke_is_done() -> None:
    """Nobody repeats what has acks=0; answers to it go nowhere."""
    payloads = []

    def note(payload: bytes, handle: Handle) -> asyncio.Future[Output]:
        payloads.append(payload)
        return handle(payload)

    async with serving(intercept=note) as connect:
        _reader, writer = await connect(REQUEST * 200)
        while not payloads:
            await asyncio.sleep(0)
        writer.transport.abort()
        while len(payloads) < 200:
            await asyncio.sleep(0)


async def test_a_client_that_only_reads_any_more_gets_its_answers() -> None:
    async with serving() as connect:
        reader, writer = await connect(REQUEST * 20)
        writer.write_eof()
        answers = await reader.read()
        assert len(answers) == 20 * (4 + int.from_bytes(answers[:4], "big"))


async def test_what_is_answered_before_a_connection_is_closed_for_cause_arrives() -> None:
    async with serving() as connect:
        assert await is_answered(await connect(), REQUEST + frame(b"noise"))
