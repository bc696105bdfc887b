"""The subjects of pages: each composition of the model, its guarantees, its releases."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from model.properties import always
from proofs.explore.expected import EXPECTED
from proofs.lift.source import COMPOSITIONS, assumed_properties_of, load_model
from proofs.mutants.table import MUTANTS, ModelMutant
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.all_theorems import ONLY_EXPLORED, THEOREMS, bears_on
from proofs.trace.replay import configuration_of

SAYS_NOTHING = frozenset({"name", "release"})
OF_NO_THEOREM = frozenset({"leaderless_marker"})
"""Rules that matter only to events which theorems leave out, as their assumptions say."""
CONVERSATION = frozenset({"level", "requests"})
"""Parts of a variant that change nothing without transactions."""


@dataclass(frozen=True, slots=True)
class Column:
    """Variants that behave the same: `variant` is the newest, `names` has all of them."""

    variant: str
    names: tuple[str, ...]

    @property
    def title(self) -> str:
        """Their names, the newest first."""
        return ", ".join(self.names)


TITLES = {"idempotent": "Idempotent producers"}


def title_of(composition: str) -> str:
    """Return the title of a composition."""
    return TITLES.get(composition) or composition.replace("_", " ").capitalize()


def sentence(function: Any) -> str:
    """Return a function's docstring in one line."""
    return " ".join((function.__doc__ or "").split())


def condition(guarantee: Any) -> str:
    """Return the condition of a guarantee, and the function that checks it."""
    if guarantee.guaranteed is always:
        return "In every configuration."
    return f"{sentence(guarantee.guaranteed)} (`{guarantee.guaranteed.__name__}`)"


# Releases


def silent_in(composition: str) -> frozenset[str]:
    """Return the parts of a composition's variants that change nothing."""
    return SAYS_NOTHING | (CONVERSATION if composition == "idempotent" else frozenset())


def rules_of(composition: str, variant: Any) -> tuple[Any, ...]:
    """Return what a variant does, whatever its name is."""
    silent = silent_in(composition)
    return tuple(getattr(variant, f.name) for f in fields(variant) if f.name not in silent)


def asked_variants(composition: str) -> Iterator[str]:
    """Yield the releases and, for transactions, the newest with requests of V1."""
    variants = load_model(composition).variants
    yield from variants.RELEASES
    if composition == "transactions":
        yield variants.ALIASES["v1"]


@functools.cache
def columns(composition: str) -> tuple[Column, ...]:
    """Return the columns, the newest first; releases that behave the same share one."""
    parse = load_model(composition).variants.parse
    same: dict[tuple[Any, ...], list[str]] = {}
    for text in asked_variants(composition):
        same.setdefault(rules_of(composition, parse(text)), []).append(text)
    return tuple(Column(names[0], tuple(names)) for names in same.values())


# Guarantees


def guarantees_in(composition: str) -> tuple[str, ...]:
    """Return the guarantees of a composition about every world, by name."""
    return tuple(guarantee.name for guarantee in load_model(composition).guarantees.GUARANTEES)


def assumed_properties_in(composition: str) -> tuple[str, ...]:
    """Return the assumed properties of a composition about every world, by name."""
    return tuple(
        assumed_property.name for assumed_property in assumed_properties_of(load_model(composition))
    )


def guarantee_of(composition: str, name: str) -> Any:
    """Return a guarantee about every world, or an assumed property, by its name."""
    model = load_model(composition)
    return next(
        p for p in (*model.guarantees.GUARANTEES, *assumed_properties_of(model)) if p.name == name
    )


def is_guaranteed(composition: str, name: str, scope: str, variant: str) -> bool:
    """Whether a scope of a variant meets the condition of a guarantee or an assumed property."""
    k = configuration_of(load_model(composition), scope, variant)
    return bool(guarantee_of(composition, name).guaranteed(k))


def in_the_end(composition: str) -> tuple[Any, ...]:
    """Return the liveness properties of a composition."""
    table = load_model(composition).modules.get("liveness")
    return () if table is None else tuple(table.EVENTUALLY)


def page_of(composition: str, name: str) -> str:
    """Return the page of a guarantee or an assumed property, without its suffix."""
    return (
        f"{'not_guaranteed' if name in assumed_properties_in(composition) else composition}/{name}"
    )


def trace_of(page: str) -> str:
    """Return the name of the trace that a guarantee's page shows."""
    return page.replace("/", "-")


# Theorems


def theorems_of(composition: str, name: str) -> tuple[Theorem, ...]:
    """Return the theorems about the unpatched model that state a guarantee, or bear on it."""
    return tuple(
        t
        for t in THEOREMS
        if t.home == composition and not t.composition.patches and bears_on(t, name)
    )


def why_not_proved(composition: str, name: str) -> str:
    """Return what no theorem covers of a guarantee, and why; "" if nothing is missing."""
    return ONLY_EXPLORED.get(composition, {}).get(name, "")


def covers(theorem: Theorem, variant: str) -> bool:
    """Whether a variant has the rules that a theorem is about; rules that are unknown to its proof
    may be any."""
    parse = load_model(theorem.home).variants.parse
    silent = (
        silent_in(theorem.home) | OF_NO_THEOREM | {name for _, name in theorem.composition.unknown}
    )
    one, other = parse(theorem.variant), parse(variant)
    return all(
        getattr(one, f.name) == getattr(other, f.name) for f in fields(one) if f.name not in silent
    )


# Known defects


def composition_of_mutant(mutant: ModelMutant) -> str:
    """Return the composition that a mutant's scope belongs to."""
    scope = mutant.scope.partition("/")[0]
    return next(c for c in COMPOSITIONS if scope in load_model(c).scopes.SCOPES)


def known_defects() -> tuple[ModelMutant, ...]:
    """Return the known defects: those of releases and applications, and of scopes of their own.
    Other patches of the model belong to no Kafka, and defects of liveness are on their guarantee's
    page."""
    known = (m for m in MUTANTS if m.kind == "variant" or m.group == "believed")
    return tuple(m for m in known if m.scope.split("/")[0] in EXPECTED)
