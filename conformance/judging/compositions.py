"""The compositions that systems are judged against; each has its scopes, actors and guarantees.

Each scope belongs to one composition (`judged_composition`). The fields of `JudgedComposition` say
what follows from that. A new composition needs a row here, and a judge in each adapter.
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

    `actors` are the choices of what is under test. `unshown` are the parts of a world that no
    system shows. If `watches_events`, a system takes events as whole steps, so that the text of
    events is covered, too.
    """

    name: str
    actors: tuple[str, ...]
    unshown: frozenset[WorldPart]
    watches_events: bool = False

    @property
    def model(self) -> Model:
        """The model of the composition."""
        return model_named(self.name)


SERVER_ACTORS: Final = "coordinator,leader"
"""A server is leader and coordinator, and sends its markers by itself: its traces take them at
once."""

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
    """The composition of a scope; the first composition if the scope is unknown."""
    return JUDGED_COMPOSITIONS[composition_of(scope)]
