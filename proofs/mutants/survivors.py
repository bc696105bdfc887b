"""The fate of every systematic mutant: what small settings make of it.

A mutant *breaks* a promise; or it is *refused*, as it cannot be lifted, writes what no leaf can
hold, or fails where a rule must be total; or it is the *same* in every setting, its machine being
the very same graph once all that is constant there is folded in; or it *survives*: something
happens otherwise, and no promise speaks of it. A survivor is a hole in the promises, or a freedom
that the protocol has (when to send again, what to answer to whom nobody listens).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from proofs.coverage.points import acting
from proofs.explore.result import RangeBroken
from proofs.explore.scope import EnginesDisagree, explore_scope
from proofs.lift.build import lift
from proofs.lift.machine import RuleInstance
from proofs.lift.noted import LiftError
from proofs.lift.specialise import specialise
from proofs.lift.subset import SubsetError
from proofs.lift.text import Model, Patch, patched, plain
from proofs.mutants.systematic import mutants_of
from proofs.trace.replay import setting_of

BEST = "first_sequence=strict/restart_window=full"
"""The variant of which most is promised."""

SETTINGS: Sequence[tuple[str, str]] = (
    ("idempotent-restart", BEST),
    ("idempotent-wrap", BEST),
    ("idempotent-wrap-across", BEST),
    ("idempotent-loss", BEST),
    ("idempotent-late-error", BEST),
    ("idempotent-expiry", BEST),
    ("idempotent-exhaustion", BEST),
    ("idempotent-tiny", BEST),
    ("idempotent-tiny", "first_sequence=strict"),
    ("idempotent-tiny", "2.4.1"),
    ("delivery-one-in-flight", "idempotence=disabled"),
    ("idempotent-timeout", BEST),
)
"""Where mutants are tried, in this order, until one breaks something. Only where a batch is given
up does it matter that a duplicate has its epoch."""

REFUSED = (SubsetError, LiftError, RangeBroken, EnginesDisagree, IndexError)


@dataclass(frozen=True, slots=True)
class Fate:
    """`breaks`, `refused`, `same` or `survives`; in which scope it showed, and how."""

    patch: Patch
    fate: str
    scope: str = ""
    how: str = ""


class UnknownFunction(ValueError):
    """No function of the text that acts has this name; the message lists those that there are."""


def every_mutant(model: Model, only: str | None = None) -> Iterator[Patch]:
    """All systematic mutants of the text that acts, or of one function. Raises UnknownFunction."""
    known = [function for function, _ in acting(model)]
    if only is not None and only not in known:
        names = ", ".join(known)
        raise UnknownFunction(f"no function is called {only!r}; choose one of {names}")
    for function in known if only is None else [only]:
        yield from mutants_of(model, function)


def rules_of(model: Model, scope: str, variant: str) -> tuple[RuleInstance, ...]:
    """The rule instances of a setting, all constants folded in."""
    k = setting_of(model, scope, variant)
    return specialise(lift(model, k, scope, promises=False).machine).rules


@functools.cache
def rules_as_they_are(scope: str, variant: str) -> tuple[RuleInstance, ...]:
    """The same of the model as it stands."""
    return rules_of(plain(), scope, variant)


def fate_of(patch: Patch) -> Fate:
    """Try one mutant in every setting until it breaks something."""
    differs = ""
    for scope, variant in SETTINGS:
        try:
            if rules_of(patched([patch]), scope, variant) == rules_as_they_are(scope, variant):
                continue
            found = explore_scope(scope, variant, patches=[patch], engine="ints", stop=True)
        except REFUSED as refusal:
            return Fate(patch, "refused", scope, str(refusal))
        if found.verdict == "violated":
            broken = next(f for f in found.violations if f.promised)
            return Fate(patch, "breaks", scope, broken.property)
        differs = differs or scope
    return Fate(patch, "survives", differs) if differs else Fate(patch, "same")
