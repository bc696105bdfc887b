"""What nodes are asked before their traces: each question with a bug that it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.adapters.brokers.node_network import NodeNetwork, VersionMismatch
from conformance.adapters.brokers.transactions.node_server import NodeServer, StoppedNodes
from conformance.adapters.impl.idempotent.client import UnexpectedEffects
from conformance.adapters.impl.shared.nodes import NodeRequest
from impl import ApiKey, encode_request
from impl.broker.coordinators import AddPartitionsRequest
from impl.broker.outputs import BrokerRequest
from impl.broker.verification import AddPartitionsToTxnManager
from impl.coordinator.config import TransactionConfig

pytestmark = pytest.mark.fast


ONE_LOG = {"transactions": TransactionConfig(num_partitions=1)}


def opened() -> StoppedNodes:
    return StoppedNodes(NodeServer(NodeNetwork(ONE_LOG, 3)))


def test_nodes_as_they_are() -> None:
    assert not opened().is_held


def test_an_answer_without_a_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AddPartitionsRequest, "refuse", lambda *given: None)
    with pytest.raises(UnexpectedEffects, match="without a coordinator"):
        opened()


def test_only_the_newest_epoch_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    queue: Callable[..., Any] = AddPartitionsToTxnManager._queue

    def forget_older(self: AddPartitionsToTxnManager, node_id: int, *given: Any) -> Any:
        self._waiting.pop(node_id, None)
        return queue(self, node_id, *given)

    monkeypatch.setattr(AddPartitionsToTxnManager, "_queue", forget_older)
    with pytest.raises(UnexpectedEffects, match="verifications that wait"):
        opened()


def test_markers_of_an_older_version() -> None:
    payload = encode_request(ApiKey.WRITE_TXN_MARKERS, 1, 0, "node", {"markers": []})
    request = BrokerRequest(2, 0, payload)
    with pytest.raises(VersionMismatch, match="version 1"):
        opened()._nodes.waits(NodeRequest(1, request))
