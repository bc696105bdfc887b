"""A connection of a client on asyncio: payloads come whole and in order, however bytes arrive."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.client.transport import AsyncioTransport
from impl.protocol.primitives import frame


class Receiver:
    """Notes what arrives."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.causes: list[str] = []

    def receive(self, payload: bytes) -> None:
        self.payloads.append(payload)

    def lose(self, cause: Exception) -> None:
        self.causes.append(f"{type(cause).__name__}: {cause}")


def connect() -> tuple[AsyncioTransport, Receiver]:
    receiver = Receiver()
    transport = AsyncioTransport(receiver)
    transport.connection_made(asyncio.Transport())
    return transport, receiver


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]


@given(st.lists(st.binary(max_size=20), max_size=5), st.lists(st.integers(0, 200), max_size=8))
def test_payloads_come_whole_however_bytes_arrive(payloads: list[bytes], places: list[int]) -> None:
    async def receive() -> Receiver:
        transport, receiver = connect()
        for part in cut(b"".join(map(frame, payloads)), places):
            transport.data_received(part)
        assert receiver.payloads == payloads
        assert receiver.causes == []
        transport.connection_lost(None)
        await transport.wait_closed()
        return receiver

    found = asyncio.run(receive())
    assert found.payloads == payloads
    assert found.causes == ["ConnectionResetError: the peer closed the connection"]


@pytest.mark.parametrize("size", [-1, 2**31 - 1])
def test_an_impossible_size_ends_the_connection_behind_what_came_before(size: int) -> None:
    async def receive() -> Receiver:
        transport, receiver = connect()
        transport.data_received(frame(b"one") + size.to_bytes(4, "big", signed=True) + b"more")
        assert receiver.payloads == [b"one"]
        transport.data_received(frame(b"two"))
        transport.connection_lost(OSError("cut"))
        return receiver

    found = asyncio.run(receive())
    assert found.payloads == [b"one"]
    [cause] = found.causes
    assert cause.startswith("FrameTooLarge: ")
    assert f"a frame of {size} bytes" in cause


def test_the_cause_of_an_end_is_told() -> None:
    async def receive() -> list[str]:
        transport, receiver = connect()
        transport.connection_lost(OSError("cut"))
        return receiver.causes

    assert asyncio.run(receive()) == ["OSError: cut"]
