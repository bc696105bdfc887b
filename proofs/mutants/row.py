"""One row of the table of mutants."""

from __future__ import annotations

from dataclasses import dataclass

from proofs.lift.patch import Patch

BASE = "4.3.1/level=2/requests=v2"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect, where it shows, and what it breaks.

    `kind` is "mutant" (a patch) or "variant" (what some release does, or what a scope of its own
    lets happen). The twin must be clean: of a mutant its own variant without the patches, of a
    variant the one with the better rule; in the same scope, or in `twin_scope`.
    """

    name: str
    kind: str
    reference: str
    mechanism: str
    scope: str
    variant: str
    property: str
    twin: str
    patches: tuple[Patch, ...] = ()
    twin_scope: str = ""


def mutant(
    name: str,
    reference: str,
    mechanism: str,
    scope: str,
    breaks: str,
    *patches: Patch,
    on: str = BASE,
) -> Mutant:
    """A patch of the model; its twin is the model."""
    return Mutant(name, "mutant", reference, mechanism, scope, on, breaks, on, patches)
