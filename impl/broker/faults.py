"""Faults that a test injects where requests arrive and answers leave; the node knows none of them.

Four rules:

1. A fault is a frozen value: which requests it selects, and what happens to them.
2. `at="request"`: the node never receives the request. `at="answer"`: it has done what was asked,
   and only its answer is affected.
3. One fault affects a request: the first that was added and selects it. Others count it all the
   same.
4. A fault that affected no request is reported when the broker stops (`UnusedFault`): a test that
   passes says nothing about it.

Theory of operation: `InjectedFaults.intercept` stands between a connection and its node, and
applies these values. A broker reads nothing more from a connection before it has answered: so a
dropped request or answer leaves a silent connection, until its client gives up. An error has the
form in which an empty broker answers the request, with the fault's error code for each item of the
answer, or for the whole where it has no items.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from impl.broker.apis import API_NAMES, SERVED_APIS
from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.listeners import Handle, settle
from impl.broker.node import Node
from impl.broker.outputs import Close, CloseConnection, Output, Response
from impl.broker.plain_errors import refuses_plainly
from impl.clock import LoopClock, SharedClock
from impl.partition.log_config import DEFAULT_CONFIG
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_request, decode_response, encode_response
from impl.protocol.schemas import ApiKey
from impl.settings import TEXT, integers, unmet
from impl.suggestions import explain_unknown

_KEYS: Final = {API_NAMES[key]: key for key in SERVED_APIS}
_ERROR_CODE: Final = "error_code"
_TRANSACTIONAL: Final = 1
"""The `key_type` of FindCoordinator for transactional ids."""

_FIELDS: Final = MappingProxyType(
    {
        "nth": integers(1),
        "times": integers(1).or_none(),
        "client_id": TEXT.or_none(),
        "transactional_id": TEXT.or_none(),
        "delay_ms": integers(),
    }
)
"""What the fields of faults may be; for others there are lists."""


class InvalidFault(ValueError):
    """A fault with an unknown API, error or number."""


class FaultTarget(NamedTuple):
    """The broker whose requests are affected."""

    cluster: Cluster
    clock: SharedClock


class RequestView:
    """A request as faults select it."""

    __slots__ = ("api_key", "body", "client_id", "correlation_id", "payload", "version")

    def __init__(self, payload: bytes) -> None:
        """Raises `DecodeError`."""
        header, self.body = decode_request(payload)
        self.payload = payload
        self.api_key = ApiKey(header["api_key"])
        self.version: int = header["api_version"]
        self.correlation_id: int = header["correlation_id"]
        self.client_id: str = header["client_id"] or ""

    @property
    def transactional_ids(self) -> set[str]:
        """The transactional ids that the request is about."""
        body = self.body
        found = {body.get("transactional_id"), body.get("v3_and_below_transactional_id")}
        found.update(body.get("transactional_ids", ()))
        found.update(
            row["transactional_id"]
            for row in body.get("transactions", ())
            if "transactional_id" in row
        )
        if body.get("key_type") == _TRANSACTIONAL:
            found.update((body["key"], *body["coordinator_keys"]))
        return {name for name in found if name}


@dataclass(frozen=True, slots=True)
class Fault(ABC):
    """The requests of one API, named as Kafka does, that a fault affects.

    `nth`: the first of them, counted from 1 since the fault was added; `times`: how many from there
    on, None for all. `client_id` and `transactional_id` select requests of these alone. Raises
    `InvalidFault`.
    """

    api: str
    _: KW_ONLY
    at: Literal["request", "answer"] = "request"
    nth: int = 1
    times: int | None = 1
    client_id: str | None = None
    transactional_id: str | None = None

    def __post_init__(self) -> None:
        _check("api", self.api, sorted(_KEYS))
        _check("at", self.at, ("request", "answer"))
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, may_be, value in unmet(_FIELDS, values):
            raise InvalidFault(f"{type(self).__name__}({name}) must be {may_be}, is {value!r}")

    def selects(self, request: RequestView) -> bool:
        """Whether the fault is about such requests."""
        wanted = self.transactional_id
        return (
            request.api_key == _KEYS[self.api]
            and self.client_id in (None, request.client_id)
            and (wanted is None or wanted in request.transactional_ids)
        )

    def __str__(self) -> str:
        chosen = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)
            if each.default != getattr(self, each.name)
        ]
        return f"{type(self).__name__}({', '.join(chosen)})"

    def affects(self, number: int) -> bool:
        """Whether it affects the selected request of this number."""
        return number >= self.nth and (self.times is None or number < self.nth + self.times)

    async def apply(self, request: RequestView, handle: Handle, target: FaultTarget) -> Output:
        """What the connection gets."""
        if self.at == "request":
            return await self.replace(request, target) or await settle(handle(request.payload))
        output = await settle(handle(request.payload))
        return await self.replace(request, target) or output

    @abstractmethod
    async def replace(self, request: RequestView, target: FaultTarget) -> Output | None:
        """What goes out instead of the node's output, None for that."""


def _check(name: str, value: object, valid: Sequence[str]) -> None:
    if value not in valid:
        raise InvalidFault(explain_unknown(name, value, valid))


@refuses_plainly("__init__")
@dataclass(frozen=True, slots=True)
class DropFault(Fault):
    """The request, or its answer, is lost; the connection is silent until its client gives up."""

    async def replace(self, request: RequestView, target: FaultTarget) -> Output | None:
        """Nothing, for ever; ends with the server."""
        await asyncio.Event().wait()
        return None


@refuses_plainly("__init__")
@dataclass(frozen=True, slots=True)
class CutFault(Fault):
    """The connection is closed instead of an answer."""

    async def replace(self, request: RequestView, target: FaultTarget) -> Output | None:
        """The end of the connection."""
        return Close(None, f"{self} was injected")


@refuses_plainly("__init__")
@dataclass(frozen=True, slots=True)
class DelayFault(Fault):
    """The request, or its answer, is late by `delay_ms` on the broker's clock."""

    delay_ms: int

    async def replace(self, request: RequestView, target: FaultTarget) -> Output | None:
        """The node's output, later."""
        await LoopClock(target.clock).sleep(self.delay_ms / 1000)
        return None


@refuses_plainly("__init__")
@dataclass(frozen=True, slots=True)
class ErrorFault(Fault):
    """The request is answered with Kafka's error of this name."""

    error: str | ErrorCode

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if isinstance(self.error, ErrorCode):
            object.__setattr__(self, "error", self.error.name)
        _check("error", self.error, [code.name for code in ErrorCode if code])

    def selects(self, request: RequestView) -> bool:
        """Also: whether the answer has a place for an error."""
        return Fault.selects(self, request) and refuse(request, self._code) is not None

    async def replace(self, request: RequestView, target: FaultTarget) -> Output | None:
        """The refusal."""
        return Response(None, refuse(request, self._code, target.cluster))

    @property
    def _code(self) -> ErrorCode:
        return ErrorCode[str(self.error)]


_KINDS: Final = (CutFault, DelayFault, DropFault, ErrorFault)


def check_fault(fault: object) -> None:
    """Raise `InvalidFault` for what is no fault."""
    if not isinstance(fault, Fault):
        kinds = ", ".join(f"{kind.__name__}(...)" for kind in _KINDS)
        raise InvalidFault(f"add(fault) must be one of {kinds}, is {fault!r}")


# ---- the form of an error


def refuse(request: RequestView, error: ErrorCode, cluster: Cluster | None = None) -> bytes | None:
    """The answer with this error, brokers as in `cluster`; None if it has no place for one.

    That is so where no answer is expected (acks=0), or nothing is asked for (Metadata of all topics
    before any was created).
    """
    empty = Cluster("", DEFAULT_CONFIG)
    node = Node(NodeConfig(auto_create_topics=False), cluster=empty)
    if cluster is not None:
        empty.brokers = dict(cluster.brokers)
    try:
        answer = node.handle(request.payload, 0)
    except CloseConnection:
        return None
    if answer is None:
        return None
    api_key, version, correlation_id = request.api_key, request.version, request.correlation_id
    body = decode_response(api_key, version, answer)[1]
    changed = [
        encode_response(api_key, version, correlation_id, _with_error(body, code))
        for code in (ErrorCode.NONE, error)
    ]
    return changed[1] if changed[0] != changed[1] else None


def _with_error(body: Value, error: ErrorCode) -> Value:
    """The body with this error for each item, or for the whole where it has no items."""
    if not any(_has_error(row) for row in _rows(body)):
        return body | {name: error for name in body if name.endswith(_ERROR_CODE)}
    return {
        name: [_with_error(row, error) for row in value] if _is_rows(value) else value
        for name, value in body.items()
    }


def _has_error(body: Value) -> bool:
    is_here = any(name.endswith(_ERROR_CODE) for name in body)
    return is_here or any(_has_error(row) for row in _rows(body))


def _rows(body: Value) -> list[Value]:
    return [row for value in body.values() if _is_rows(value) for row in value]


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)
