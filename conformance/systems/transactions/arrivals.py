"""How a batch comes to its leader, on the model's side, as `model.transactions.world.produced`.

The leader may have to ask the coordinator first: V1 asks whether the partition is in the
transaction, V2 adds it. Whoever has the model's actors moves them, and compares what must be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.systems.transactions.tables import TransactionTables
from conformance.tables import InternedMessage
from model.language import Map

NOBODY: Final = -1
"""Who asks for a leader: no instance waits for the answer."""

Coordinates = Callable[..., InternedMessage | None]
"""Of a rule and its inputs: the model's coordinator moves; what it sends, None for nothing yet."""
Leads = Callable[..., InternedMessage | None]
"""Of a partition, a rule and its inputs: the same of a leader."""


class Arrivals:
    """Batches that arrive at actors moved by `coordinates` and `leads`."""

    def __init__(self, tables: TransactionTables, coordinates: Coordinates, leads: Leads) -> None:
        self._tables = tables
        self._coordinates = coordinates
        self._leads = leads
        self._questions: dict[tuple[Any, int], InternedMessage] = {}

    def produced(self, batch: Any, partition: int) -> InternedMessage:
        """The answer to a batch that is verified, if it must be, and taken."""
        if self.must_ask(batch, partition):
            error = self.verified(batch, partition)
            if error:
                return self._refusal(error, partition)
        return self.taken(batch, partition)

    def must_ask(self, batch: Any, partition: int) -> bool:
        """Whether the coordinator is asked first."""
        asks = self._leads(partition, "must_ask", batch)
        return asks is not None and bool(asks.value)

    def verified(self, batch: Any, partition: int) -> Any:
        """What the coordinator says. An append of its own log is waited for by nobody."""
        messages = self._tables.model.messages
        question = self._question(batch, partition)
        if self._tables.is_v2:
            answer = self._coordinates("on_add_partitions", question, NOBODY)
        else:
            answer = self._coordinates("on_verify", question, partition)
        self._leads(partition, "verify", batch)
        if answer is None:
            return messages.Error.CONCURRENT_TRANSACTIONS
        return getattr(answer.value, "error", answer.value)

    def taken(self, batch: Any, partition: int) -> InternedMessage:
        """The leader has it: a client's, or the group coordinator's."""
        of_group = self._tables.model.messages.is_of_group(self._tables.k, partition)
        rule = "on_offset_commit" if of_group else "on_produce"
        answer = self._leads(partition, rule, batch)
        assert answer is not None, "a leader answers"
        return answer

    def _refusal(self, error: Any, partition: int) -> InternedMessage:
        tables = self._tables
        of_group = tables.model.messages.is_of_group(tables.k, partition)
        told = tables.model.leader.told(tables.k, error, of_group)
        answer = tables.model.messages.ProduceAnswer(error=told, base_offset=NOBODY)
        return tables.message(answer)

    def _question(self, batch: Any, partition: int) -> InternedMessage:
        found = self._questions.get((batch, partition))
        if found is None:
            found = self._questions[batch, partition] = self._asking(batch, partition)
        return found

    def _asking(self, batch: Any, partition: int) -> InternedMessage:
        tables = self._tables
        messages = tables.model.messages
        none = Map.filled(tables.k.bounds.partitions, False)
        return tables.message(
            messages.Request(
                api=messages.Api.ADD_PARTITIONS_TO_TXN,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                partitions=none.put(partition, True),
                committed=False,
                partition=partition,
                batch=batch,
                guard=messages.NO_OFFSET,
            )
        )
