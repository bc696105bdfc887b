"""Named scopes, and the world that they begin in."""

from __future__ import annotations

from dataclasses import dataclass

from model.language import Map
from model.processing.group import Group
from model.processing.member import DOWN
from model.processing.messages import NO_OFFSET
from model.processing.setting import Budgets, Layout, Setting, Variant
from model.processing.store import Progress, Store
from model.processing.world import Spent, World


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
            "processing",
            "two members replace each other, one crashes, a transaction lasts too long",
            Layout(),
            Budgets(),
        ),
        Scope(
            "processing-three",
            "three members replace each other",
            Layout(members=3, inputs=1, output=3),
            Budgets(),
        ),
    )
}


def initial(k: Setting) -> World:
    """Nobody is up, and nothing is processed."""
    members = k.layout.members
    return World(
        members=Map.filled(members, DOWN),
        group=Group(generation=0, committed=0, pending=Map.filled(members, NO_OFFSET)),
        store=Store(output=(), progress=Map.filled(members, Progress.NONE)),
        furthest=0,
        spent=Spent(0, 0),
    )
