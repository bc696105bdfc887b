"""What theorems may rest on, in words; and what an assumption leaves out of a world."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from model.language import declaration_of
from proofs.lift.source import Model


@dataclass(frozen=True, slots=True)
class ProofAssumption:
    """What theorems may rest on. It is about the sizes that it `claims`: of all others a theorem
    holds whatever they are. The parts of worlds that `stay` are, by it, as they were at first. The
    events that it leaves out say so themselves (`excluded_by` of `model.language.event`)."""

    says: str
    stay: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


def events_left_out(model: Model, assumptions: Collection[str]) -> frozenset[str]:
    """The events of a model's world that some of the assumptions leave out."""
    events = ((name, declaration_of(rule).excluded_by) for name, rule in model.rules.items())
    return frozenset(name for name, excluded_by in events if excluded_by in assumptions)


def claimed_by(table: Mapping[str, ProofAssumption], assumptions: Iterable[str]) -> frozenset[str]:
    """The sizes that are as assumptions of a table say."""
    return frozenset(size for name in assumptions if name in table for size in table[name].claims)


ASSUMPTIONS: Mapping[str, ProofAssumption] = {
    "steps_are_the_events": ProofAssumption(
        "what the proof's steps assume of requests and answers holds wherever they arrive: compared"
        " with each transition of small scopes; that each event is made of the steps is checked"
    ),
}

OF_STEPS = ("steps_are_the_events",)
"""Assumed of steps that are not the rules of the world as they stand."""
