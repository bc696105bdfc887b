"""The compositions that systems are judged against: each has scopes, actors, guarantees of its own.

A scope belongs to one of them (`judged_composition`). What follows from that is a field of
`JudgedComposition`; a composition that is judged anew is a row here, and has a judge of its own in
each adapter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from conformance.generate.models import model_named
from model.properties import WorldPart
from proofs.lift.source import Model, composition_of


@dataclass(frozen=True, slots=True)
class JudgedComposition:
    """A composition, and how systems are judged against it.

    `actors` are the choices of what is under test. The parts of a world that no system shows are
    `unshown`. `watches_events`: events take whole steps, so that their own text is covered, too.
    """

    name: str
    actors: tuple[str, ...]
    unshown: frozenset[WorldPart]
    watches_events: bool = False

    @property
    def model(self) -> Model:
        """Its text."""
        return model_named(self.name)


SERVER_ACTORS: Final = "coordinator,leader"
"""A server that is both, and sends its markers by itself: traces take them at once."""

IDEMPOTENT: Final = JudgedComposition(
    name="idempotent",
    actors=("client,leader", "leader", "leader,transaction"),
    unshown=frozenset({WorldPart.INSIDE, WorldPart.FAULTS}),
)

TRANSACTIONS: Final = JudgedComposition(
    name="transactions",
    actors=("client,coordinator,leader", SERVER_ACTORS),
    unshown=frozenset({WorldPart.FAULTS}),
)

PROCESSING: Final = JudgedComposition(
    name="processing",
    actors=("group,member",),
    unshown=frozenset({WorldPart.FAULTS}),
    watches_events=True,
)

PRODUCER_IDS: Final = JudgedComposition(
    name="producer_ids",
    actors=("broker,controller",),
    unshown=frozenset({WorldPart.FAULTS}),
    watches_events=True,
)

JUDGED_COMPOSITIONS: Final[Mapping[str, JudgedComposition]] = {
    c.name: c for c in (IDEMPOTENT, TRANSACTIONS, PROCESSING, PRODUCER_IDS)
}


def judged_composition(scope: str) -> JudgedComposition:
    """Whose scope it is; that of an unknown one is the first."""
    return JUDGED_COMPOSITIONS[composition_of(scope)]
