"""Named scopes, and the world that they begin in."""

from __future__ import annotations

from dataclasses import dataclass

from model.language import EMPTY_SET, Map
from model.producer_ids.manager import NEW
from model.producer_ids.messages import NO_BLOCK, NO_BROKER
from model.producer_ids.setting import Budgets, Layout, Setting, Variant
from model.producer_ids.store import Store
from model.producer_ids.world import Spent, World


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is explored, and why this much."""

    name: str
    why: str
    layout: Layout
    budgets: Budgets

    def setting(self, variant: Variant) -> Setting:
        """This scope of that Kafka."""
        return Setting(variant=variant, layout=self.layout, budgets=self.budgets)


SCOPES: dict[str, Scope] = {
    scope.name: scope
    for scope in (
        Scope(
            "producer-ids",
            "two brokers take blocks, an answer is lost, a broker restarts, all ids are given",
            Layout(),
            Budgets(),
        ),
        Scope(
            "producer-ids-alone",
            "one broker takes blocks, two answers are lost, and nobody restarts",
            Layout(brokers=1, blocks=5, max_asked=6, max_lost=2),
            Budgets(asked=6, lost=2, restarts=0),
        ),
    )
}


def initial(k: Setting) -> World:
    """No block was ever taken."""
    brokers = k.layout.brokers
    return World(
        store=Store(NO_BLOCK, NO_BROKER, 0),
        managers=Map.filled(brokers, NEW),
        waiting=Map.filled(brokers, 0),
        given=EMPTY_SET,
        repeated=False,
        spent=Spent(0, 0, 0),
    )
