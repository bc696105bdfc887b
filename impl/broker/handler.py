"""What a request handler is, and what it may use of its node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from impl.broker.coordinators import Coordinators
from impl.broker.outputs import DecodedRequest, Later
from impl.broker.services import NodeServices
from impl.broker.verification import AddPartitionsToTxnManager
from impl.protocol.codegen import Value


class HandlerContext(NodeServices, Protocol):
    """The side of a `Node` that handlers use."""

    @property
    def coordinators(self) -> Coordinators:
        """The coordinators of transactions and of group offsets."""

    @property
    def verification(self) -> AddPartitionsToTxnManager:
        """Verifies partitions with transaction coordinators."""


Handler = Callable[[HandlerContext, DecodedRequest, int], Value | Later | None]
"""Context, request and time to the response's body, LATER, or None (no response)."""
