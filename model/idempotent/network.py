"""The network between one producer and one partition's leader, as connections that can break.

Models a TCP connection of `NetworkClient` to a broker. Each partition has a connection of its own;
in Kafka the partitions of a broker share one.

Theory of operation. A connection keeps order: the broker handles its requests one at a time, and
answers in the same order. When a connection breaks, the client learns nothing of the requests in
flight. All answers are lost. Of the requests still on their way, a first part arrives later, in
order and once each; the rest never arrives. No network sends a request twice: only a client that
retries does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.idempotent.messages import ProduceRequest, ProduceResponse
from model.language import AtMost, record

Requests = Annotated[tuple[ProduceRequest, ...], AtMost("in_flight")]


@record
class BrokenConnection:
    """A connection that its client has given up, with the requests that will still arrive."""

    requests: Requests


@record
class Link:
    """The open connection with its requests and answers, and the broken connections, oldest
    first."""

    requests: Requests
    answers: Annotated[tuple[ProduceResponse, ...], AtMost("in_flight")]
    broken: Annotated[tuple[BrokenConnection, ...], AtMost("broken_connections")]


SILENT_LINK = Link(requests=(), answers=(), broken=())


def is_idle(link: Link) -> bool:
    """Whether nothing travels on the open connection."""
    return len(link.requests) == 0 and len(link.answers) == 0


def send(link: Link, request: ProduceRequest) -> Link:
    """The link with one more request."""
    return replace(link, requests=(*link.requests, request))


def answered(link: Link, answers: tuple[ProduceResponse, ...]) -> Link:
    """The link after the broker has handled the first request; the answers are on their way."""
    return replace(link, requests=link.requests[1:], answers=(*link.answers, *answers))


def received(link: Link) -> Link:
    """The link after the first answer has reached the client."""
    return replace(link, answers=link.answers[1:])


def broken(link: Link, survivors: int) -> Link:
    """The link after the open connection breaks; its first `survivors` requests will still
    arrive."""
    left = BrokenConnection(requests=link.requests[:survivors])
    return Link(
        requests=(),
        answers=(),
        broken=(*link.broken, left) if survivors > 0 else link.broken,
    )


def arrived_late(link: Link, connection: int) -> Link:
    """The link after the broker has handled the first request of a broken connection; its answer is
    lost."""
    rest = tuple(
        BrokenConnection(requests=b.requests[1:]) if i == connection else b
        for i, b in enumerate(link.broken)
    )
    return replace(link, broken=tuple(b for b in rest if len(b.requests) > 0))
