"""The compositions that systems are judged against: each has scopes, actors, guarantees of its own.

A scope belongs to one of them, and so does a configuration: `judged_composition`,
`composition_of_configuration`. What follows from that is a field of `JudgedComposition`; a
composition that is judged anew is a row here, and a judge of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from conformance.generate.models import composition_name, model_named
from model.properties import WorldPart
from proofs.lift.source import Model, composition_of


@dataclass(frozen=True, slots=True)
class JudgedComposition:
    """A composition, and how systems are judged against it.

    `judge` and `tables` are `module:function`, imported when they are called: a judge is made of
    tables, a system's name, its actors and the form of its messages. `actors` are the choices.
    `observed_world` makes a world of what a system shows; the parts of a world that it has to make
    up are `unshown`. `over_wire` makes the target of a run at brokers.
    """

    name: str
    actors: tuple[str, ...]
    unshown: frozenset[WorldPart]
    tables: str
    judge: str
    observed_world: str
    over_wire: str

    @property
    def model(self) -> Model:
        """Its text."""
        return model_named(self.name)

    def called(self, place: str) -> Callable[..., Any]:
        """The function that `module:function` names."""
        module, _, function = place.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), function)
        return found


SERVER_ACTORS: Final = "coordinator,leader"
"""A server that is both, and sends its markers by itself: traces take them at once."""

IDEMPOTENT: Final = JudgedComposition(
    name="idempotent",
    actors=("client,leader", "leader", "leader,transaction"),
    unshown=frozenset({WorldPart.INSIDE, WorldPart.FAULTS}),
    tables="conformance.judging.tables:Tables",
    judge="conformance.judging.judge:judge_of_system",
    observed_world="conformance.judging.guaranteed:observed_world",
    over_wire="conformance.verbs.over_wire:leaders_target",
)

TRANSACTIONS: Final = JudgedComposition(
    name="transactions",
    actors=("client,coordinator,leader", SERVER_ACTORS),
    unshown=frozenset({WorldPart.FAULTS}),
    tables="conformance.adapters.impl.transactions.tables:tables_of",
    judge="conformance.adapters.impl.transactions.judge:judge_of_system",
    observed_world="conformance.adapters.impl.transactions.judge:observed_world",
    over_wire="conformance.verbs.at_servers:servers_target",
)

PROCESSING: Final = JudgedComposition(
    name="processing",
    actors=("group,member",),
    unshown=frozenset({WorldPart.FAULTS}),
    tables="conformance.adapters.impl.processing.worlds:tables_of",
    judge="conformance.adapters.impl.processing.world_judge:judge_of_system",
    observed_world="conformance.adapters.impl.processing.world_judge:observed_world",
    over_wire="conformance.verbs.over_wire:in_process_alone",
)

PRODUCER_IDS: Final = JudgedComposition(
    name="producer_ids",
    actors=("broker,controller",),
    unshown=frozenset({WorldPart.FAULTS}),
    tables="conformance.adapters.impl.producer_ids.producer_blocks:tables_of",
    judge="conformance.adapters.impl.producer_ids.producer_blocks:judge_of_system",
    observed_world="conformance.adapters.impl.producer_ids.producer_blocks:observed_world",
    over_wire="conformance.verbs.over_wire:in_process_alone",
)

JUDGED_COMPOSITIONS: Final[Mapping[str, JudgedComposition]] = {
    c.name: c for c in (IDEMPOTENT, TRANSACTIONS, PROCESSING, PRODUCER_IDS)
}


def judged_composition(scope: str) -> JudgedComposition:
    """Whose scope it is; that of an unknown one is the first."""
    return JUDGED_COMPOSITIONS[composition_of(scope)]


def composition_of_configuration(k: Any) -> JudgedComposition:
    """Whose configuration it is."""
    return JUDGED_COMPOSITIONS[composition_name(k)]
