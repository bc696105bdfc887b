"""Coordinators that move while nobody knows, on both sides: `model.transactions.coordinator_moves`.

Theory of operation: the former coordinator is a second actor, which the system makes out of the one
that it was. Which of the two a client or a leader asks is the network's doing, and kept here. A
client that has lost its coordinator must have asked for it before its next request; one that has
not, must not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.systems.transactions.pairs import Pair, Sides
from conformance.systems.transactions.system import ImplTransactions
from conformance.systems.transactions.tables import TransactionTables


class Moves(Sides):
    """The former coordinator, and who is taken for the one that is."""

    def __init__(self, tables: TransactionTables, system: ImplTransactions) -> None:
        super().__init__(tables, system)
        self._placement = self._places = tables.placement
        self._found = [False] * len(self.clients)

    def begin(self) -> None:
        """As the scope begins. Raises Differs."""
        self._places = self._placement
        self._found = [False] * len(self.clients)
        super().begin()

    # ---- who is asked

    def _at(self, place: Any) -> Pair:
        """The coordinator that a node at this place is; it knows which producer ids are given."""
        if place.name != "FORMER":
            return self.elsewhere if place.name == "ELSEWHERE" else self.coordinator
        self._counts(self.former, self.coordinator.node.state.given_producer_ids)
        return self.former

    def _has_moved(self, pair: Pair) -> None:
        """What that coordinator has given, the cluster has. Raises Differs."""
        if pair is self.former:
            self._counts(self.coordinator, pair.node.state.given_producer_ids)
            self._counts(pair, 0)
        self._agree(pair)

    def _counts(self, pair: Pair, given: int) -> None:
        if pair.node.state.given_producer_ids != given:
            pair.node = self.tables.node(replace(pair.node.state, given_producer_ids=given))
            self._does(pair, "count_ids", given)

    def _asked_by(self, instance: int) -> Pair:
        """The coordinator that a client asks; it has looked it up if it had to. Raises Differs."""
        if self.tables.k.bounds.loads:
            looked_up = self._does(self.clients[instance], "has_looked_up")
            self._same("client.looks_up", None, self._found[instance], looked_up)
            self._found[instance] = False
        return self._at(self._places.of_clients[instance])

    def _asked_by_leader(self, partition: int) -> Pair:
        """The coordinator that a leader asks."""
        return self._at(self._places.of_leaders[partition])

    def _finds_out(self, instance: int, error: Any, heard: int) -> None:
        """What an answer, or none, tells of the coordinator."""
        rules = self.tables.model.coordinator_leadership
        self._places = rules.found_out(self.tables.k, self._places, instance, error, heard)

    # ---- events

    def _coordinator_is_replaced(self) -> None:
        rules, k = self.tables.model.coordinator_leadership, self.tables.k
        state = self.coordinator.node.state
        self._places = rules.one_moved(k, self._places, state)
        self.former.node = self.tables.node(rules.replaced(k, state))
        self.former.moment = self.coordinator.moment
        self._does(self.former, "is_replaced")
        self._moves(self.coordinator, "begin_loading")
        self._agree(self.former)

    def _moves(self, pair: Pair, rule: str) -> None:
        self._models(pair, rule)
        self._does(pair, rule)
        self._agree(pair)

    def _log_is_loaded(self) -> None:
        self._moves(self.coordinator, "finish_loading")

    def _former_resigns(self) -> None:
        self._moves(self.former, "resign")

    def _coordinator_is_found(self, instance: int, stale: int) -> None:
        place = self.tables.model.coordinator_leadership.Place.FORMER if stale else self._place_here
        places = self._places.of_clients.put(instance, place)
        self._places = replace(self._places, of_clients=places)
        self._found[instance] = True

    def _metadata_arrives(self, partition: int) -> None:
        places = self._places.of_leaders.put(partition, self._place_here)
        self._places = replace(self._places, of_leaders=places)

    @property
    def _place_here(self) -> Any:
        return self.tables.model.coordinator_leadership.Place.HERE
