"""A running server of transactions, held to the model of its coordinator and leaders together.

1. What is judged is a coordinator with the leaders that it talks to; the harness is all clients.
2. Answers are compared, and after them what the server shows of itself: transactions, logs,
   producers, groups (`script`).
3. The server sends its markers by itself: what only happens while one is on its way is judged
   elsewhere.
4. Where the last epochs are judged, ids come to them before the first trace, and those that are
   stuck there are buried (`worn`).
"""

from __future__ import annotations

from typing import Any, Final

from conformance.guaranteed import ObservedProperties
from conformance.plan import PreparedPlan, configuration
from conformance.systems.base import NotApplicable
from conformance.systems.transactions.tables import tables_of
from conformance.systems.brokers.transactions.testbed_of_servers import TransactionHarness
from conformance.systems.brokers.transactions.transaction_probes import with_room
from conformance.systems.brokers.transactions.transaction_script import TransactionScriptWriter
from conformance.systems.brokers.transactions.servers import NO_PRODUCERS, Servers, Started
from conformance.systems.brokers.transactions.exhausted_ids import LAST_EPOCH, Worn
from conformance.systems.brokers.backend import DEED_COUNTS, MAX_TRIED, ScriptBackend
from conformance.systems.brokers.idempotent.leader_session import Difference

SPARE_IDS: Final = MAX_TRIED
"""Ids beside those of traces, for what is played again."""


class TransactionsBackend(ScriptBackend):
    """What judges of transactions have in common, whatever brokers they judge."""

    def __init__(self, prepared: PreparedPlan, tables: Any, writer: Any, harness: Any) -> None:
        super().__init__(prepared, tables, writer, harness)
        self.agreed: list[int] = []
        """The traces that the server followed to their ends."""

    @property
    def not_applicable(self) -> list[str]:
        """What could not be judged."""
        return []

    def _add(self, one: Any, number: int, script: Any, outcome: Any) -> None:
        """One more trace has ended."""
        super()._add(one, number, script, outcome)
        if outcome.difference is None and not outcome.is_undecided:
            self.agreed.append(number)

    def close(self) -> None:
        """Connections are the ground's, which closes them."""

    def _shown(self, outcome: Any, difference: Difference) -> ObservedProperties:
        """Nothing more: a server that differs is not followed further."""
        return ObservedProperties()


class ServersBackend(TransactionsBackend):
    """Judges the traces of `prepared` at one broker. Raises NotApplicable, KafkaError."""

    def __init__(self, prepared: PreparedPlan, servers: Servers, *, id_s: float = 0.0) -> None:
        k = configuration(prepared.plan)
        tables = tables_of(with_room(k))
        aged = worn_for(servers, k, prepared.count)
        harness = TransactionHarness(
            servers,
            servers.conversation("v2" if tables.is_v2 else "v1"),
            k.bounds.partitions,
            has_group=k.bounds.offsets,
            worn=aged,
            last_epochs=k.bounds.max_epoch if aged else LAST_EPOCH,
            id_s=id_s,
        )
        super().__init__(prepared, tables, TransactionScriptWriter(tables), harness)
        self._servers = servers

    @property
    def not_applicable(self) -> list[str]:
        """What could not be judged."""
        return [] if self._servers.shows_producers else [NO_PRODUCERS]

    def _costs(self, script: Any) -> int:
        """What a server does of itself takes seconds, and so does a burial."""
        return 1 + DEED_COUNTS * bool(script.times_out or script.forgotten or script.is_stuck)


def worn_for(servers: Servers, k: Any, traces: int) -> Worn | None:
    """Ids near their last epoch, where the scope has that. Raises NotApplicable, KafkaError."""
    if not k.bounds.epochs_end:
        return None
    if not isinstance(servers, Started):
        raise NotApplicable("the last epoch is judged at brokers that are started here")
    return Worn(servers.ground, LAST_EPOCH - k.bounds.max_epoch - 1, 2 * traces + SPARE_IDS)
