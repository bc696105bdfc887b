"""Named scopes, and the world that they begin in."""

from __future__ import annotations

from dataclasses import dataclass

from model.language import EMPTY_SET, Map
from model.producer_ids.configuration import Bounds, Budgets, Configuration, Variant
from model.producer_ids.manager import NEW
from model.producer_ids.messages import NO_BLOCK, NO_BROKER
from model.producer_ids.store import Store
from model.producer_ids.world import Spent, World


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is explored, and why this much."""

    name: str
    why: str
    bounds: Bounds
    budgets: Budgets

    def configuration(self, variant: Variant) -> Configuration:
        """This scope of that Kafka."""
        return Configuration(variant=variant, bounds=self.bounds, budgets=self.budgets)


SCOPES: dict[str, Scope] = {
    scope.name: scope
    for scope in (
        Scope(
            "producer-ids",
            "two brokers take blocks, an answer is lost, a broker restarts, all ids are given",
            Bounds(),
            Budgets(),
        ),
        Scope(
            "producer-ids-alone",
            "one broker takes blocks, two answers are lost, and nobody restarts",
            Bounds(brokers=1, blocks=5, max_asked=6, max_lost=2),
            Budgets(asked=6, lost=2, restarts=0),
        ),
    )
}


def initial(k: Configuration) -> World:
    """No block was ever taken."""
    brokers = k.bounds.brokers
    return World(
        store=Store(NO_BLOCK, NO_BROKER, 0),
        managers=Map.filled(brokers, NEW),
        waiting=Map.filled(brokers, 0),
        given=EMPTY_SET,
        repeated=False,
        spent=Spent(0, 0, 0),
    )
