"""What a node wants sent, as values; and a request while it is served."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import Final, NamedTuple

from impl.protocol.codegen import Value
from impl.protocol.schemas import ApiKey


class CloseConnection(Exception):
    """The connection that brought this request must be closed; nothing is to be sent on it."""


class Response(NamedTuple):
    """An answer, without its 4-byte size; None where none is sent (acks=0)."""

    reference: Hashable
    payload: bytes | None


class Close(NamedTuple):
    """The connection that brought this request must be closed."""

    reference: Hashable
    reason: str


class BrokerRequest(NamedTuple):
    """A request to another broker, without size. Its answer, or None, goes to `receive_answer`."""

    node_id: int
    correlation_id: int
    payload: bytes


Output = Response | Close | BrokerRequest


class Request(NamedTuple):
    """A request, read. `reference` is the caller's name for it."""

    reference: Hashable
    api_key: ApiKey
    version: int
    correlation_id: int
    body: Value


class Later(Enum):
    """What a handler returns that will answer later."""

    LATER = "later"


LATER: Final = Later.LATER
