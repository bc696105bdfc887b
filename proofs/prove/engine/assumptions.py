"""The assumptions that theorems rest on, in words, and the parts of a world that each one
excludes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from model.language import declaration_of
from proofs.lift.source import Model


@dataclass(frozen=True, slots=True)
class ProofAssumption:
    """An assumption that theorems may rest on. `claims` are the sizes that the assumption fixes; a
    theorem holds for any value of all other sizes. `stay` are the parts of worlds that keep their
    initial value. Events declare themselves which assumption leaves them out (`excluded_by` of
    `model.language.event`)."""

    says: str
    stay: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


def events_left_out(model: Model, assumptions: Collection[str]) -> frozenset[str]:
    """Return the events of a model's world that some of the assumptions leave out."""
    events = ((name, declaration_of(rule).excluded_by) for name, rule in model.rules.items())
    return frozenset(name for name, excluded_by in events if excluded_by in assumptions)


def claimed_by(table: Mapping[str, ProofAssumption], assumptions: Iterable[str]) -> frozenset[str]:
    """Return the sizes that some of these assumptions fix."""
    return frozenset(size for name in assumptions if name in table for size in table[name].claims)


ASSUMPTIONS: Mapping[str, ProofAssumption] = {
    "steps_are_the_events": ProofAssumption(
        "what the proof's steps assume of requests and answers holds wherever they arrive: compared"
        " with each transition of small scopes; that each event is made of the steps is checked"
    ),
}

OF_STEPS = ("steps_are_the_events",)
"""The assumption of every proof whose steps are not the rules of the world as written."""
