"""What a node wants sent, as values; and a decoded request."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Final, NamedTuple

from impl.protocol.message_form import Value
from impl.protocol.schemas import ApiKey
from impl.security.session import ClientSession


class CloseConnection(Exception):
    """The connection of the request must be closed, without an answer."""


class RefusedRequest(Exception):
    """A request is refused as a whole, with `answer`, before it reaches its handler."""

    def __init__(self, answer: Value) -> None:
        super().__init__()
        self.answer = answer


class Response(NamedTuple):
    """An answer, without its 4-byte size; None where none is sent (acks=0)."""

    reference: Hashable
    payload: bytes | None


class Close(NamedTuple):
    """The connection of the request must be closed, after `last_answer` if there is one."""

    reference: Hashable
    reason: str
    last_answer: bytes | None = None


class BrokerRequest(NamedTuple):
    """A request to another broker, without size. Its answer, or None, goes to `receive_answer`."""

    node_id: int
    correlation_id: int
    payload: bytes


Output = Response | Close | BrokerRequest


LOCAL: Final = ClientSession()
"""The connection of requests that come without one."""


class DecodedRequest(NamedTuple):
    """A decoded request. `reference` is the driver's name for it.

    `complete` changes its answer: what its sender may not do is in it, or not in it.
    """

    reference: Hashable
    api_key: ApiKey
    version: int
    correlation_id: int
    body: Value
    client_id: str = ""
    session: ClientSession = LOCAL
    complete: Callable[[Value], Value] | None = None


class Deferred(Enum):
    """Returned by a handler that calls `answer` when it can."""

    DEFERRED = "deferred"


DEFERRED: Final = Deferred.DEFERRED
