"""Defects that shipped, planted in the model one at a time: the checks must find each."""

from __future__ import annotations

from proofs.mutants.table import MUTANTS, ModelMutant
from proofs.run import nearest


class UnknownMutant(ValueError):
    """No mutant has this name; the message has the most similar names."""


def find(name: str) -> ModelMutant:
    """Return the mutant of this name. Raises UnknownMutant."""
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    near = nearest(name, (mutant.name for mutant in MUTANTS), "list mutants")
    raise UnknownMutant(f"no mutant is called {name!r}; {near}")
