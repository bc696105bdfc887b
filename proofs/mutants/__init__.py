"""Defects of the past, planted in the model one at a time: the checks must find each."""

from __future__ import annotations

from proofs.mutants.table import MUTANTS, ModelMutant


class UnknownMutant(ValueError):
    """No mutant has this name; the message lists those that there are."""


def find(name: str) -> ModelMutant:
    """The mutant of this name. Raises UnknownMutant."""
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    known = ", ".join(mutant.name for mutant in MUTANTS)
    raise UnknownMutant(f"no mutant is called {name!r}; choose one of {known}")
