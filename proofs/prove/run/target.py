"""The target of a proof: the model as it stands, a variant, a mutant, or patches."""

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
    """No theorem and no assumption has this name."""


@dataclass(frozen=True, slots=True)
class ProofTarget:
    """The model that is proved, and the scopes searched for traces that explain a failure.

    `patches` change the models, by composition. `variants` replaces the variants of theorems: of
    all theorems ("*"), of a theorem by name, or of the theorems that need exactly the rule that a
    mutant reverts. `scopes`, `shown_in` and `shown_as` are the scope, the variant and the guarantee
    of a mutant's entry; `home` is the mutant's composition, if any.
    """

    patches: Mapping[str, tuple[Patch, ...]] = field(default_factory=dict)
    variants: Mapping[str, str] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    shown_in: str | None = None
    shown_as: str | None = None
    home: str = ""

    @property
    def models(self) -> dict[str, Model]:
        """Return the models that the patches change, by composition."""
        return {name: load_model(name, own) for name, own in self.patches.items()}

    def under(self, theorem: Theorem) -> str:
        """Return the variant under which a theorem is proved."""
        names = ("*", theorem.name, theorem.variant)
        return next((self.variants[n] for n in names if n in self.variants), theorem.variant)

    def asks(self, theorems: Sequence[Theorem]) -> tuple[Theorem, ...]:
        """Return the theorems that apply to this target: with patches, those about the patched
        models; with a mutant, those whose failure its guarantee would explain; with a variant,
        those whose model knows it.

        Raises UnknownVariant if no model knows the variant.
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
    """Return the model that a theorem is about, without patches."""
    return load_model(theorem.home)


def knows(theorem: Theorem, variant: str) -> bool:
    """Whether the theorem's model has this variant, and the theorem's proof covers its way of
    recovery."""
    model = model_of(theorem)
    try:
        parsed = model.variants.parse(variant)
    except model.variants.UnknownVariant:
        return False
    return theorem.composition.speaks_of(parsed, model.variants.parse(theorem.variant))


def subject(
    mutant: str | None, variant: str | None, patches: Sequence[Patch] = (), only: str | None = None
) -> ProofTarget:
    """Return the target for a mutant's name, a variant's text, patches, or none of these.

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
    """Return the replaced variants of theorems, by name or text. For idempotent producers, the
    mutant replaces variants equal to its twin; in other compositions, it replaces the variant of
    each theorem about the twin's requests."""
    twin = model.variants.parse(mutant.twin)
    if composition_of(mutant.scope) == "idempotent":
        own = {t.variant for t in THEOREMS if t.home == "idempotent"}
        return {v: mutant.variant for v in own if model.variants.parse(v) == twin}
    mine = (t for t in THEOREMS if t.home == composition_of(mutant.scope))
    return {t.name: mutant.variant for t in mine if holds_for(t, twin, model)}


def holds_for(theorem: Theorem, twin: Any, model: Model) -> bool:
    """Whether a theorem is about the requests of a mutant's twin."""
    own = model.variants.parse(theorem.variant)
    any_requests = ("Variant", "requests") in theorem.composition.unknown
    return any_requests or getattr(own, "requests", 0) == getattr(twin, "requests", 0)


def chosen(only: str | None) -> tuple[Theorem, ...]:
    """Return the theorem of that name, or the theorem about the whole guarantee of that name; the
    theorems of a composition; or all theorems. Raises UnknownName with the most similar names."""
    names = {t.name for t in THEOREMS}
    name = only if only in names else PROVED_AS.get(only or "", only)
    homes = tuple(dict.fromkeys(t.home for t in THEOREMS))
    found = tuple(t for t in THEOREMS if name in (None, t.name, t.home))
    if not found:
        names.update(PROVED_AS, homes)
        near = nearest(str(only), sorted(names), "list theorems")
        raise UnknownName(f"no theorem is called {only!r}; {near}")
    return found
