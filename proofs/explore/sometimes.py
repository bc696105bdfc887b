"""Claims about what must happen in a scope sometimes, and what the scope says never happens.

Guarantees also hold of a model in which nothing happens. So each witness must be met in a scope,
and each event that sizes and budgets allow must happen, except those that the scope says it `never`
has, which must not happen. The scope's claims are about the default variant. In small scopes there
are claims for each release, as far as releases differ (`release_claims.py`). Elsewhere a patched
model must do what happens without the patch, and any other configuration must do what happens in a
small scope next to it (`gauge.py`).

Which events are allowed is read from the model without patches. So if a patch disables an event,
the event is lost.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from proofs.explore.engines import EngineCounts
from proofs.explore.release_claims import never_in, release_of
from proofs.lift.build import is_unbounded, lift
from proofs.lift.dag import FALSE
from proofs.lift.source import Model, composition_of, model_for
from proofs.lift.specialise import specialise, with_constant_inputs
from proofs.trace.format import Trace
from proofs.trace.replay import configuration_of, scope_of


@dataclass(frozen=True, slots=True)
class Sometimes:
    """The result of comparing an exploration with its scope's claims: `lost` must happen and never
    did; `unexpected` happened although it never does, with the scope's reason. They decide the
    verdict if `is_enforced`. `before` has traces by which the model without patches meets what is
    lost; `looked_in` is the scope in which it was lost, if it is another one."""

    lost: tuple[str, ...] = ()
    unexpected: Mapping[str, str] = field(default_factory=dict)
    is_enforced: bool = False
    before: Mapping[str, Trace] = field(default_factory=dict)
    looked_in: str = ""

    @property
    def verdict(self) -> str:
        """The verdict: `violated` if something happened that never does, `vacuous` if something
        that must happen did not, else `holds`."""
        if self.is_enforced and self.unexpected:
            return "violated"
        return "vacuous" if self.is_enforced and self.lost else "holds"


@functools.cache
def allowed_events(scope: str, variant: str) -> frozenset[str]:
    """Return the events that sizes, budgets and variant do not exclude by themselves."""
    model = model_for(scope)
    k = configuration_of(model, scope, variant)
    # A world and its normal form have the same events, and lifting an unbounded scope spends
    # nearly all of its time on normal forms.
    forms = not is_unbounded(k)
    machine = lift(model, k, scope, guarantees=False, normal_forms=forms).machine
    rules = specialise(with_constant_inputs(machine)).rules
    return frozenset(rule.rule for rule in rules if rule.guard is not FALSE)


def sometimes(
    model: Model,
    scope: str,
    variant: str,
    wanted: Iterable[str],
    met: Collection[str],
    *,
    enforce: bool,
) -> Sometimes:
    """Compare the scope's claims with everything that was met in it; `wanted` are claims besides
    the events."""
    never = never_of(model, scope, variant)
    lost = without(wanted, {*met, *never})
    absent = without(sorted(model_for(scope).rules), {*met, *never})
    if absent:  # finding the allowed events costs as much as lifting the scope
        lost += tuple(event for event in absent if event in allowed_events(scope, variant))
    return Sometimes(lost, unexpected(never, met), enforce)


def sometimes_explored(
    model: Model, scope: str, variant: str, counts: EngineCounts, *, enforce: bool
) -> Sometimes:
    """Compare the claims with the counts of an engine. Nothing counts as lost if the exploration is
    incomplete, or the engine counts no events."""
    if counts.firings is None:
        return Sometimes()
    met = happened(counts)
    if not counts.complete:
        return Sometimes((), unexpected(never_of(model, scope, variant), met), enforce)
    witnesses = [w.name for w in model.guarantees.WITNESSES]
    return sometimes(model, scope, variant, witnesses, met, enforce=enforce)


def never_of(model: Model, scope: str, variant: str) -> Mapping[str, str]:
    """Return what a scope never has under a variant, with the reason."""
    release = release_of(composition_of(scope), model.variants.parse(variant))
    return never_in(scope, release, scope_of(model, scope).never)


def happened(counts: EngineCounts) -> frozenset[str]:
    """Return the witnesses that were met, and the events that happened."""
    labels = counts.firings or {}
    return frozenset({*counts.witnesses, *(label.partition("(")[0] for label in labels)})


def unexpected(never: Mapping[str, str], met: Collection[str]) -> dict[str, str]:
    """Return what was met although it never happens, with the reason why it should not."""
    return {name: why for name, why in never.items() if name in met}


def compare_unpatched(
    claims: Sometimes, met: Collection[str], traces: Mapping[str, Trace]
) -> Sometimes:
    """Compare the claims of a patched model with what the same configuration met without patches.

    If the scope's own claims are not enforced, this comparison replaces them.
    """
    if not claims.is_enforced:
        lost = tuple(name for name in claims.lost if name in met)
        others = {name: why for name, why in claims.unexpected.items() if name not in met}
        claims = Sometimes(lost, others, is_enforced=True)
    return replace(claims, before={n: traces[n] for n in claims.lost if n in traces})


def without(names: Iterable[str], found: Collection[str]) -> tuple[str, ...]:
    """Return the names that are not among those found, in their order."""
    return tuple(name for name in names if name not in found)
