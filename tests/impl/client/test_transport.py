"""A connection of a client on asyncio: payloads come whole and in order, however bytes arrive."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.client.transport import AsyncioTransport
from impl.protocol.errors import FrameTooLarge
from impl.protocol.primitives import frame


class Socket(asyncio.Transport):
    """Notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


def connect() -> tuple[AsyncioTransport, Socket]:
    transport, socket = AsyncioTransport(), Socket()
    transport.connection_made(socket)
    return transport, socket


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]


@given(st.lists(st.binary(max_size=20), max_size=5), st.lists(st.integers(0, 200), max_size=8))
def test_payloads_come_whole_however_bytes_arrive(payloads: list[bytes], places: list[int]) -> None:
    async def receive() -> list[bytes]:
        transport, _ = connect()
        for part in cut(b"".join(map(frame, payloads)), places):
            transport.data_received(part)
        transport.connection_lost(None)
        found = [await transport.receive() for _ in payloads]
        with pytest.raises(ConnectionResetError, match="the peer closed the connection"):
            await transport.receive()
        return found

    assert asyncio.run(receive()) == payloads


@pytest.mark.parametrize("size", [-1, 2**31 - 1])
def test_an_impossible_size_ends_the_connection_behind_what_came_before(size: int) -> None:
    async def receive() -> None:
        transport, _ = connect()
        transport.data_received(frame(b"one") + size.to_bytes(4, "big", signed=True) + b"more")
        assert await transport.receive() == b"one"
        transport.data_received(frame(b"two"))
        with pytest.raises(FrameTooLarge, match=f"a frame of {size} bytes"):
            await transport.receive()

    asyncio.run(receive())


def test_who_waits_is_woken_by_a_payload_and_by_an_error() -> None:
    async def receive() -> list[Any]:
        transport, _ = connect()
        loop = asyncio.get_running_loop()
        loop.call_soon(transport.data_received, frame(b"late"))
        found: list[Any] = [await transport.receive()]
        loop.call_soon(transport.connection_lost, OSError("cut"))
        with pytest.raises(OSError, match="cut"):
            await transport.receive()
        await transport.wait_closed()
        return found

    assert asyncio.run(receive()) == [b"late"]


def test_what_nobody_receives_stops_the_reading() -> None:
    async def receive() -> list[str]:
        transport, socket = connect()
        transport.data_received(frame(b"x") * 63)
        assert socket.calls == []
        transport.data_received(frame(b"x") * 9)
        assert socket.calls == ["pause"]
        for _ in range(72):
            await transport.receive()
        return socket.calls

    assert asyncio.run(receive()) == ["pause", "resume"]
