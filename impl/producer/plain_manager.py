"""A producer without idempotence: no producer id, no sequences, nothing to recover.

Two rules:

1. Batches go out as they come. With more than one request in flight a retry may overtake or be
   overtaken, and a lost answer makes a duplicate: that is what idempotence is for.
2. No answer ends the producer.

Theory of operation: in Kafka the sender and the accumulator ask at each turn whether there is a
transaction manager. Here there always is one; this one has nothing to say. A batch that fails goes
back to the head of its queue, because none there has a sequence that would come before.
Source: `Sender`, `RecordAccumulator` of Kafka 4.3.1 where `transactionManager == null`.
"""

from __future__ import annotations

from collections.abc import Sequence

from impl.producer.batch import ProducerBatch
from impl.producer.transaction_manager import PartitionEntry, State, TransactionManager
from impl.protocol.errors import ErrorCode


class PlainManager(TransactionManager):
    """Stands where the transaction manager does, and gives nothing to any batch."""

    def __init__(self, max_partitions: int) -> None:
        super().__init__(max_partitions)
        self.state = State.READY

    def stops_drain(self, batch: ProducerBatch, entry: PartitionEntry) -> bool:
        """Nothing has to wait for another batch."""
        return False

    def assign(self, batch: ProducerBatch, entry: PartitionEntry) -> None:
        """No producer id, no sequence."""

    def on_success(self, batch: ProducerBatch, base_offset: int) -> None:
        """No sequence to account for."""

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Whatever is retriable."""
        return error.is_retriable

    def ends_with(self, error: ErrorCode) -> bool:
        """No answer ends this producer."""
        return False

    def on_failure(self, batch: ProducerBatch, error: ErrorCode, adjust: bool) -> None:
        """No sequence is missing."""

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """No sequence is in doubt."""

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Nothing is tracked."""

    def forget(self, batch: ProducerBatch) -> None:
        """Nothing is tracked."""
