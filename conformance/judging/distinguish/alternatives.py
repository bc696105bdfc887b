"""Variants that differ from a given one in a single rule, set to an earlier or later release's
value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from model.releases import CHANGES, LEVELS, RuleChange, numbers
from proofs.lift.source import Model

CHOSEN: Final = frozenset(change.rule for change in LEVELS)
"""Rules that a cluster or its clients choose; they belong to no release."""
WITH_LEVELS: Final = frozenset({"transactions"})
"""Compositions with rules that depend on the level, or on the version of requests."""


class Alternative(NamedTuple):
    """A variant with another value of one rule. `own` is the value that is replaced; `reference` is
    the KIP or JIRA between the two values, `observed` what shows the value on real brokers."""

    rule: str
    own: str
    value: str
    variant: str
    reference: str
    observed: str

    @property
    def name(self) -> str:
        """`RULE=VALUE`."""
        return f"{self.rule}={self.value}"


def base_of(model: Model, variant: Any) -> str:
    """The release, level and requests of a variant, without replaced rules. If no rule depends on
    level or requests, those of the release are used."""
    if model.name not in WITH_LEVELS:
        return str(model.variants.parse(variant.release).name)
    parts = variant.name.split("/")
    return "/".join(part for part in parts if part.partition("=")[0] in ("level", "requests", part))


def alternatives(model: Model, text: str) -> list[Alternative]:
    """The alternatives to a variant, rule by rule. Raises UnknownVariant."""
    variant = model.variants.parse(text)
    changes = CHANGES[model.name]
    rules = dict.fromkeys(c.rule for c in changes if c.rule not in CHOSEN)
    return [one for rule in rules for one in _neighbours(model, variant, rule)]


def _neighbours(model: Model, variant: Any, rule: str) -> Iterator[Alternative]:
    """The values before and after the variant's own; empty if its value belongs to no release."""
    changes = sorted(
        (c for c in CHANGES[model.name] if c.rule == rule),
        key=lambda c: numbers(c.until),
        reverse=True,
    )
    newest = getattr(model.variants.RELEASES[next(iter(model.variants.RELEASES))], rule)
    history = [newest.name.lower(), *(change.value for change in changes)]
    own = getattr(variant, rule).name.lower()
    if own not in history:
        return
    at = history.index(own)
    for other, change in ((at + 1, at), (at - 1, at - 1)):
        if 0 <= other < len(history):
            yield _alternative(variant, rule, own, history[other], changes[change])


def _alternative(variant: Any, rule: str, own: str, value: str, change: RuleChange) -> Alternative:
    parts = [p for p in variant.name.split("/") if not p.startswith(f"{rule}=")]
    text = "/".join((*parts, f"{rule}={value}"))
    return Alternative(rule, own, value, text, change.reference, change.observed)
