"""Of what theorems are proved: the model as it stands, a variant, a mutant, patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proofs.lift.patch import Patch
from proofs.lift.source import (
    COMPOSITIONS,
    Model,
    composition_of,
    load_model,
    patches_by_composition,
)
from proofs.mutants import find
from proofs.mutants.table import ModelMutant
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.transactions.theorems import PROVED_AS
from proofs.run import nearest


class UnknownName(ValueError):
    """No theorem, or no assumption, has this name."""


@dataclass(frozen=True, slots=True)
class ProofTarget:
    """What is proved, and where traces are looked for that answer a failure.

    `patches` change the models, by composition. `variants` replaces the variants of theorems: of
    all ("*"), by name, or of those that need just the rule that a mutant takes back. `scopes`,
    `shown_in` and `shown_as` are the scope, the variant and the guarantee of a mutant's entry;
    `home` is the composition that it is of, if any.
    """

    patches: Mapping[str, tuple[Patch, ...]] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    shown_in: str | None = None
    shown_as: str | None = None
    home: str = ""

    @property
    def models(self) -> dict[str, Model]:
        """The models that the patches change, by composition."""
        return {name: load_model(name, own) for name, own in self.patches.items()}

    def under(self, theorem: Theorem) -> str:
        """The variant that a theorem is proved under."""
        names = ("*", theorem.name, theorem.variant)
        return next((self.variants[n] for n in names if n in self.variants), theorem.variant)

    def asks(self, theorems: Sequence[Theorem]) -> tuple[Theorem, ...]:
        """Those of the theorems that can say something: of patches, those about what they change;
        of a mutant of a composition, those whose failure its guarantee would answer; of a variant,
        those whose model knows it.

        Raises UnknownVariant if none does.
        """
        changed = self.patches if not self.home else (self.home,)
        mine = tuple(t for t in theorems if not changed or t.home in changed)
        if self.home:
            return tuple(t for t in mine if self.shown_as in t.answered_by) or mine
        if "*" not in self.variants:
            return mine
        known = tuple(t for t in mine if knows(t, self.variants["*"]))
        if not known:
            model_of(theorems[0]).variants.parse(self.variants["*"])
        return known


def model_of(theorem: Theorem) -> Model:
    """The model that a theorem is about, as its text stands."""
    return load_model(theorem.home)


def knows(theorem: Theorem, variant: str) -> bool:
    """Whether the model that a theorem is about has this variant, and its proof a producer that
    recovers so."""
    model = model_of(theorem)
    try:
        parsed = model.variants.parse(variant)
    except model.variants.UnknownVariant:
        return False
    return theorem.composition.speaks_of(parsed, model.variants.parse(theorem.variant))


def subject(
    mutant: str | None, variant: str | None, patches: Sequence[Patch] = (), only: str | None = None
) -> ProofTarget:
    """The subject of a mutant's name, of a variant's text, of patches, or the plain one.

    Raises UnknownMutant, UnknownName, PatchError.
    """
    variants = {"*": variant} if variant else {}
    if mutant is None:
        homes = {t.home for t in chosen(only)} if only else COMPOSITIONS
        return ProofTarget(patches_by_composition(patches, homes), variants)
    found = find(mutant)
    home = composition_of(found.scope)
    whose = "" if home == "idempotent" else home
    if found.kind == "variant" and not variants:
        variants = taken_back(found, load_model(home))
    patched = {home: found.patches} if found.patches else {}
    return ProofTarget(patched, variants, (found.scope,), found.variant, found.property, whose)


def taken_back(mutant: ModelMutant, model: Model) -> dict[str, str]:
    """The variants of theorems, by name or text, that a mutant's replaces: those of its twin; in a
    composition of all theorems that hold for the twin's requests, whatever its other rules."""
    twin = model.variants.parse(mutant.twin)
    if composition_of(mutant.scope) == "idempotent":
        own = {t.variant for t in THEOREMS if t.home == "idempotent"}
        return {v: mutant.variant for v in own if model.variants.parse(v) == twin}
    mine = (t for t in THEOREMS if t.home == composition_of(mutant.scope))
    return {t.name: mutant.variant for t in mine if holds_for(t, twin, model)}


def holds_for(theorem: Theorem, twin: Any, model: Model) -> bool:
    """Whether a composition's theorem is about the requests of a mutant's twin."""
    own = model.variants.parse(theorem.variant)
    any_requests = ("Variant", "requests") in theorem.composition.unknown
    return any_requests or getattr(own, "requests", 0) == getattr(twin, "requests", 0)


def chosen(only: str | None) -> tuple[Theorem, ...]:
    """The theorem of that name, or that is about all of the guarantee of that name; those of a
    composition; or all. Raises UnknownName with the names most like it."""
    names = {t.name for t in THEOREMS}
    name = only if only in names else PROVED_AS.get(only or "", only)
    homes = tuple(dict.fromkeys(t.home for t in THEOREMS))
    found = tuple(t for t in THEOREMS if name in (None, t.name, t.home))
    if not found:
        names.update(PROVED_AS, homes)
        near = nearest(str(only), sorted(names), "list theorems")
        raise UnknownName(f"no theorem is called {only!r}; {near}")
    return found
