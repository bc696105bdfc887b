"""Nodes that are stopped and moved, held to the model of their coordinator and leaders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from conformance.guaranteed import ObservedProperties
from conformance.plan import PreparedPlan, configuration
from conformance.rows import Found
from conformance.systems.transactions.tables import TransactionTables, tables_of
from conformance.systems.brokers.transactions.testbed_of_nodes import ClusterHarness
from conformance.systems.brokers.transactions.marker_without_leader import Leaderless, leaderless
from conformance.systems.brokers.transactions.cluster_nodes import ClusterNodes
from conformance.systems.brokers.transactions.nodes_script import NodesWriter
from conformance.systems.brokers.transactions.transactions_backend import TransactionsBackend
from conformance.systems.brokers.transactions.transaction_probes import with_room
from conformance.transactions.testbed import KafkaTestbed

WAIT_COUNTS: Final = 100
"""How many of the tries of a shorter trace one deed, or a time-out, stands for."""


class NodesBackend(TransactionsBackend):
    """Judges the traces of `prepared` at three brokers, of which `leaderless` was seen before.

    Raises NotApplicable.
    """

    def __init__(
        self,
        prepared: PreparedPlan,
        tables: TransactionTables,
        harness: ClusterHarness,
        leaderless: Leaderless,
    ) -> None:
        super().__init__(prepared, tables, NodesWriter(tables), harness)
        self.harness = harness
        self.leaderless = leaderless
        self.late_markers = 0

    def _add(self, one: Any, number: int, script: Any, outcome: Any) -> None:
        """One more trace has ended; one behind a late marker is not the prepared one."""
        super()._add(one, number, script, outcome)
        if outcome.told:
            self.late_markers += 1
            self.agreed.remove(number)

    def _shared(self, script: Any, outcome: Any) -> int:
        """Behind a late marker each transition is another, though its step is the same."""
        return script.branch - 1 if outcome.told else len(script.steps)

    def _found(self, one: Any) -> Found:
        """And what was seen beside traces."""
        found = super()._found(one)
        return replace(
            found, seen=found.seen.merge(ObservedProperties(broken=self.leaderless.broken))
        )

    def _costs(self, script: Any) -> int:
        """Deeds take seconds, and so do time-outs."""
        return 1 + WAIT_COUNTS * (len(script.signature) + bool(script.times_out))


def backend_on(ground: KafkaTestbed, prepared: PreparedPlan) -> NodesBackend:
    """The judge of brokers that run. Raises NotApplicable, KafkaError, JavaError."""
    k = configuration(prepared.plan)
    tables = tables_of(with_room(k))
    speaks = ground.conversation("v2" if tables.is_v2 else "v1")
    nodes = ClusterNodes(ground, speaks)
    seen = leaderless(nodes, speaks)
    harness = ClusterHarness(nodes, speaks, k.bounds.partitions, can_kill_leaders=not seen.broken)
    return NodesBackend(prepared, tables, harness, seen)
