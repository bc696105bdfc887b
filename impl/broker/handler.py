"""What a request handler is, and what it may use of its node."""

from __future__ import annotations

from collections.abc import Callable

from impl.broker.coordinators import Coordinators
from impl.broker.outputs import DecodedRequest, Deferred
from impl.broker.services import NodeServices
from impl.broker.verification import AddPartitionsToTxnManager
from impl.protocol.message_form import Value


class HandlerContext(NodeServices):
    """The side of a `Node` that handlers use.

    Read-only: `coordinators` of transactions and of group offsets; `verification`, which verifies
    partitions with transaction coordinators.
    """

    __slots__ = ("coordinators", "verification")

    coordinators: Coordinators
    verification: AddPartitionsToTxnManager


Handler = Callable[[HandlerContext, DecodedRequest, int], Value | Deferred | None]
"""Context, request and time to the response's body, DEFERRED, or None (no response)."""
