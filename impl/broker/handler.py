"""What a request handler is, and what it may use of its node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from impl.broker.cluster import Cluster
from impl.broker.config import NodeConfig
from impl.broker.outputs import DecodedRequest, Deferred
from impl.broker.producer_ids import ProducerIdController, ProducerIdManager
from impl.broker.services import NodeServices
from impl.protocol.message_form import Value

if TYPE_CHECKING:
    from impl.broker.coordinators import Coordinators
    from impl.broker.verification import AddPartitionsToTxnManager


class HandlerContext(NodeServices):
    """The side of a `Node` that handlers use.

    Read-only: `controller`, its part of it; `producer_ids`; `coordinators`; `verification`.
    """

    __slots__ = ("_coordinators", "_verification", "controller", "producer_ids")

    def __init__(self, config: NodeConfig, cluster: Cluster) -> None:
        super().__init__(config, cluster)
        self.producer_ids = ProducerIdManager()
        self.controller = ProducerIdController(cluster.producer_id_blocks)
        self.controller.register(config.node_id, config.broker_epoch)
        self._coordinators: Coordinators | None = None
        self._verification: AddPartitionsToTxnManager | None = None

    @property
    def coordinators(self) -> Coordinators:
        """Of transactions, of groups and of their offsets; there from their first use on."""
        if self._coordinators is None:
            from impl.broker.coordinators import Coordinators

            self._coordinators = Coordinators(self, self.producer_ids.generate)
        return self._coordinators

    @property
    def verification(self) -> AddPartitionsToTxnManager:
        """Verifies partitions with transaction coordinators; there from its first use on."""
        if self._verification is None:
            from impl.broker.verification import AddPartitionsToTxnManager

            self._verification = AddPartitionsToTxnManager(self, self.coordinators)
        return self._verification


Handler = Callable[[HandlerContext, DecodedRequest, int], Value | Deferred | None]
"""Context, request and time to the response's body, DEFERRED, or None (no response)."""
