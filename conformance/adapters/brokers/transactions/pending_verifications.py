"""Checks how a node of `impl` handles verifications that wait for a coordinator, which no trace
has.

1. Without a leader of the id's partition the answer is COORDINATOR_NOT_AVAILABLE.
2. While a request to the coordinator is in flight, one request of a transactional id waits behind
   it. Another request of an older epoch is refused with INVALID_PRODUCER_EPOCH. A request of a
   newer or the same epoch takes the place of the waiting one, which is refused: with
   INVALID_PRODUCER_EPOCH, or with NETWORK_EXCEPTION if the epochs are equal.

Source: `AddPartitionsToTxnManager.addTxnData`; release 4.3.1.
"""

from __future__ import annotations

from typing import Final

from conformance.adapters.brokers.node_network import NodeNetwork
from conformance.adapters.impl.idempotent.client import UnexpectedEffects
from impl import ErrorCode
from impl.broker.coordinators import AddPartitionsRequest
from impl.coordinator.metadata import TopicPartition
from impl.protocol.record_batch import ProducerIdAndEpoch

_E = ErrorCode

STRANGER: Final = "stranger"
PLACE: Final = TopicPartition("absent", 0)
"""A partition that does not exist."""
EPOCHS: Final = (3, 3, 3, 2, 4)
"""The epochs of successive requests; the first is in flight until all have arrived."""
WHILE_WAITING: Final = (
    None,
    _E.NETWORK_EXCEPTION,
    _E.INVALID_PRODUCER_EPOCH,
    _E.INVALID_PRODUCER_EPOCH,
    None,
)
"""The answer to each request when all have arrived."""


def check_without_coordinator(nodes: NodeNetwork, node_id: int) -> None:
    """Check rule 1, while `__transaction_state` does not exist yet. Raises UnexpectedEffects."""
    told = verify(nodes, node_id, EPOCHS[:1])
    if told != [_E.COORDINATOR_NOT_AVAILABLE]:
        raise UnexpectedEffects(f"without a coordinator the answer is {told}")


def check_waiting(nodes: NodeNetwork, node_id: int, coordinator: int) -> None:
    """Check rule 2, at a node that does not coordinate. Raises UnexpectedEffects."""
    nodes.freeze(coordinator)
    told = verify(nodes, node_id, EPOCHS)
    waiting = tuple(told)
    nodes.thaw()
    answered = [error or _E.UNKNOWN_TOPIC_OR_PARTITION for error in WHILE_WAITING]
    if waiting != WHILE_WAITING or told != answered:
        raise UnexpectedEffects(f"verifications that wait hear {waiting}, then {told}")


def verify(nodes: NodeNetwork, node_id: int, epochs: tuple[int, ...]) -> list[ErrorCode | None]:
    """The answers to requests with these epochs, None for those without an answer yet."""
    told: list[ErrorCode | None] = [None] * len(epochs)
    for number, epoch in enumerate(epochs):

        def hear(errors: object, now_ms: int, number: int = number) -> None:
            assert isinstance(errors, dict), "an error for each partition"
            told[number] = errors[PLACE]

        producer = ProducerIdAndEpoch(0, epoch)
        request = AddPartitionsRequest(STRANGER, producer, [PLACE], verify_only=True, callback=hear)
        nodes.by_id[node_id].verification.add_or_verify(request, nodes.clocks_ms[node_id])
        nodes.advance(node_id)
    return told
