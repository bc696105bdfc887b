"""What a difference breaks."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """What a difference breaks, the worst first."""

    PROMISE = "a promise"
    """A guarantee is violated."""
    PROTOCOL = "the protocol"
    """A request, an answer or a log is not what the protocol's rules make it."""
    POLICY = "nothing: the client's policy differs"
    """A client does otherwise than Kafka's, as the protocol allows."""
