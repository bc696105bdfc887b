"""Named scopes of processing, and their initial world."""

from __future__ import annotations

from model.language import Map
from model.processing.configuration import Bounds, Budgets, Configuration, Scope
from model.processing.faults import Faults
from model.processing.group import Group
from model.processing.member import DOWN
from model.processing.messages import NO_OFFSET
from model.processing.store import Progress, Store
from model.processing.world import World
from model.scope import read_scopes

SCOPES = read_scopes(
    Scope("", "", Bounds(), Budgets()),
    """
processing: two members replace each other, one crashes, a transaction lasts too long
    | crashes=1 timeouts=1
processing-three: three members replace each other
    | members=3 inputs=1 output=3 crashes=1 timeouts=1
    | never two_have_shared: there is one input
""",
)


def initial(k: Configuration) -> World:
    """The world in which no member is up, and nothing is processed."""
    members = k.bounds.members
    return World(
        members=Map.filled(members, DOWN),
        group=Group(generation=0, committed=0, pending=Map.filled(members, NO_OFFSET)),
        store=Store(output=(), progress=Map.filled(members, Progress.NONE)),
        furthest=0,
        faults=Faults(),
    )
