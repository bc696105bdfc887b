"""Named scopes of producer id allocation, and their initial world."""

from __future__ import annotations

from model.language import EMPTY_SET, Map
from model.producer_ids.configuration import Bounds, Budgets, Configuration, Scope
from model.producer_ids.faults import Faults
from model.producer_ids.manager import NEW
from model.producer_ids.messages import NO_BLOCK, NO_BROKER
from model.producer_ids.store import Store
from model.producer_ids.world import World
from model.scope import read_scopes

SCOPES = read_scopes(
    Scope("", "", Bounds(), Budgets()),
    """
producer-ids: two brokers take blocks, an answer is lost, a broker restarts, all ids are given
    | lost=1 restarts=1
producer-ids-alone: one broker takes blocks, two answers are lost, and nobody restarts
    | brokers=1 blocks=5 asked=6 lost=2 | room restarts=1
""",
)


def initial(k: Configuration) -> World:
    """The world in which no block was ever taken."""
    brokers = k.bounds.brokers
    return World(
        store=Store(NO_BLOCK, NO_BROKER, 0),
        managers=Map.filled(brokers, NEW),
        waiting=Map.filled(brokers, 0),
        given=EMPTY_SET,
        repeated=False,
        asked=0,
        faults=Faults(),
    )
