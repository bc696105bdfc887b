"""A running server of transactions, held to the model of its coordinator and leaders together.

1. What is judged is a coordinator with the leaders that it talks to; the harness is all clients.
2. Answers are compared, and after them what the server shows of itself: transactions, logs,
   producers (`transactions_wire_script`).
3. The server sends its markers by itself: what only happens while one is on its way is judged
   elsewhere.
"""

from __future__ import annotations

from typing import Any

from conformance.plan import Prepared, setting
from conformance.promised import Seen
from conformance.systems.transactions.tables import tables_of
from conformance.systems.transactions_wire_harness import Harness
from conformance.systems.transactions_wire_script import ScriptWriter
from conformance.systems.wire import ScriptBackend
from conformance.systems.wire_trial import Difference
from conformance.transactions.ground import Ground


class TransactionsBackend(ScriptBackend):
    """Judges the traces of `prepared` at brokers. Raises NotApplicable, KafkaError."""

    def __init__(self, prepared: Prepared, ground: Ground) -> None:
        k = setting(prepared.plan)
        tables = tables_of(k)
        speaks = ground.conversation("v2" if tables.is_v2 else "v1")
        harness = Harness(ground, speaks, k.layout.partitions)
        super().__init__(prepared, tables, ScriptWriter(tables), harness)
        self.agreed: list[int] = []
        """The traces that the server followed to their ends."""

    def _add(self, one: Any, number: int, script: Any, outcome: Any) -> None:
        """One more trace has ended."""
        super()._add(one, number, script, outcome)
        if outcome.difference is None and not outcome.is_undecided:
            self.agreed.append(number)

    def close(self) -> None:
        """Connections are the ground's, which closes them."""

    def _shown(self, outcome: Any, difference: Difference) -> Seen:
        """Nothing more: a server that differs is not followed further."""
        return Seen()
