"""What a node of `impl` does with verifications that wait for a coordinator, which no trace has.

1. Without a leader of the id's partition the answer is COORDINATOR_NOT_AVAILABLE.
2. While a request to the coordinator is in flight, one request of a transactional id waits behind
   it. One of an older epoch is refused with INVALID_PRODUCER_EPOCH. A newer one takes its place,
   which is refused with INVALID_PRODUCER_EPOCH, or of the same epoch with NETWORK_EXCEPTION.

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
"""A partition that there is not."""
EPOCHS: Final = (3, 3, 3, 2, 4)
"""Of requests that come one after the other; the first is in flight until all have come."""
WHILE_WAITING: Final = (
    None,
    _E.NETWORK_EXCEPTION,
    _E.INVALID_PRODUCER_EPOCH,
    _E.INVALID_PRODUCER_EPOCH,
    None,
)
"""What each has been answered when all have come."""


def check_without_coordinator(nodes: NodeNetwork, node_id: int) -> None:
    """Rule 1, where `__transaction_state` is not there yet. Raises UnexpectedEffects."""
    told = verify(nodes, node_id, EPOCHS[:1])
    if told != [_E.COORDINATOR_NOT_AVAILABLE]:
        raise UnexpectedEffects(f"without a coordinator the answer is {told}")


def check_waiting(nodes: NodeNetwork, node_id: int, coordinator: int) -> None:
    """Rule 2, at a node that does not coordinate. Raises UnexpectedEffects."""
    nodes.freeze(coordinator)
    told = verify(nodes, node_id, EPOCHS)
    waiting = tuple(told)
    nodes.thaw()
    answered = [error or _E.UNKNOWN_TOPIC_OR_PARTITION for error in WHILE_WAITING]
    if waiting != WHILE_WAITING or told != answered:
        raise UnexpectedEffects(f"verifications that wait hear {waiting}, then {told}")


def verify(nodes: NodeNetwork, node_id: int, epochs: tuple[int, ...]) -> list[ErrorCode | None]:
    """The answers to requests of these epochs, None for those that have none yet."""
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
