"""Risks of released Kafka: what is not promised, how it happens, how likely it is, what cures it.

`risks.toml` is the table. It does not say which releases have a risk; this follows from the rules
of `model/releases.py`.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.releases import RELEASES
from model.variant_syntax import with_release
from proofs.lift.source import load_model
from proofs.mutants.table import BASE, MUTANTS

TABLE = Path(__file__).with_name("risks.toml")


@dataclass(frozen=True, slots=True)
class Risk:
    """A risk for users of the releases whose rules have these values.

    `rules` may allow several values each. `events` distinguish the risk's traces from those of
    other risks. `scope` and `variant` show the risk in the model, `experiment` on real brokers,
    unless they are "". `cures` are settings. `by_setting` says that the risk exists only with a
    setting that is not the default.
    """

    name: str
    composition: str
    reference: str
    scope: str
    variant: str
    rules: Mapping[str, frozenset[str]]
    events: Collection[str]
    breaks: tuple[str, ...]
    happens: str
    how: str
    likely: str
    cures: tuple[str, ...]
    experiment: str
    by_setting: bool

    def is_of(self, variant: str) -> bool:
        """Whether a variant has the rules that cause this risk. Raises UnknownVariant."""
        parsed = load_model(self.composition).variants.parse(variant)
        return all(value_of(parsed, rule) in values for rule, values in self.rules.items())

    def explains(self, guarantee: str, rules: Collection[str]) -> bool:
        """Whether a trace breaks a guarantee by this risk; `rules` are the trace's, whose variant
        has the risk."""
        happened = not self.events or not set(rules).isdisjoint(self.events)
        return guarantee in self.breaks and happened

    def releases(self) -> tuple[str, ...]:
        """Return the releases that have the risk with their defaults, the newest first."""
        return tuple(release for release in RELEASES[self.composition] if self.is_of(release))

    def releases_without(self) -> tuple[str, ...]:
        """Return the releases that do not have the risk with their defaults, the newest first."""
        found = self.releases()
        return tuple(release for release in RELEASES[self.composition] if release not in found)

    def remedies(self) -> Iterator[str]:
        """Yield the cures: releases, and settings."""
        by_others: dict[tuple[str, ...], list[str]] = {}
        for release in self.releases_without():
            by_others.setdefault(self.like_it(release), []).append(release)
        for others, releases in sorted(by_others.items(), key=lambda row: bool(row[0])):
            but = f", though with {', '.join(others)}" if others else ""
            yield f"{either(releases)} with its defaults{but}"
        yield from self.cures

    def like_it(self, release: str) -> tuple[str, ...]:
        """Return the risks of a release, with its defaults, that break a guarantee which this risk
        breaks."""
        others = (risk for risk in risks_of(self.composition, release) if not risk.by_setting)
        return tuple(risk.name for risk in others if not set(risk.breaks).isdisjoint(self.breaks))


def either(names: Collection[str]) -> str:
    """Return names as a list with `or` before the last."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def value_of(variant: Any, rule: str) -> str:
    """Return the value of a variant's rule, as `model/releases.py` writes it."""
    return str(getattr(variant, rule).name).lower()


@functools.cache
def risks() -> Mapping[str, Risk]:
    """Return all risks by name, in the table's order."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        name: risk_of(composition, name, row)
        for composition, rows in table.items()
        for name, row in rows.items()
    }


def risk_of(composition: str, name: str, row: Mapping[str, Any]) -> Risk:
    """Return a row of the table as a risk, completed by the mutant of its name if there is one."""
    defect = next((m for m in MUTANTS if m.kind == "variant" and m.name == name), None)
    shown = {} if defect is None else vars_of(defect)
    known = {"variant": BASE, "scope": "", "experiment": "", "by_setting": False, **shown, **row}
    known["variant"] = with_release(known["variant"])
    known["rules"] = {rule: frozenset(v.split(", ")) for rule, v in row["rules"].items()}
    known |= {key: tuple(row[key]) for key in ("breaks", "cures", "events")}
    return Risk(name=name, composition=composition, **known)


def vars_of(defect: Any) -> dict[str, str]:
    """Return the fields that a risk takes from its mutant."""
    return {name: getattr(defect, name) for name in ("reference", "scope", "variant")}


def risks_of(composition: str, variant: str) -> tuple[Risk, ...]:
    """Return the risks that a variant has. Raises UnknownVariant."""
    return tuple(r for r in risks().values() if r.composition == composition and r.is_of(variant))
