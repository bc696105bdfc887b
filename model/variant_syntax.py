"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`.

One grammar serves every composition. `model.releases` lists the releases; the rules are the fields
of the composition's `Variant`.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, Generic, TypeVar

from model.releases import NEWEST, RELEASES, rules_of

V = TypeVar("V")

LEVELS = {"0": 0, "1": 1, "2": 2}
ALWAYS_NAMED = ("level", "requests")
"""The rules that every full name spells out, in compositions that have them."""


class UnknownVariant(ValueError):
    """The text names no variant; the message says which part is wrong and which values are
    allowed."""


def with_release(text: str) -> str:
    """The variant's text with its release: the newest if `text` has only rules, or is empty."""
    names_release = text and "=" not in text.partition("/")[0]
    return text if names_release else "/".join(filter(None, (NEWEST, text)))


def one_of(text: str, allowed: Iterable[str], what: str) -> str:
    """`text`, if it is allowed. Raises UnknownVariant."""
    names = tuple(allowed)
    if text not in names:
        raise UnknownVariant(f"{what} is {text!r}; choose one of {', '.join(names)}")
    return text


def enums_of(variant: type) -> dict[str, type[IntEnum]]:
    """The enumeration fields of a variant, by name."""
    hints = typing.get_type_hints(variant)
    kinds = {f.name: hints[f.name] for f in fields(variant)}
    return {name: kind for name, kind in kinds.items() if issubclass(kind, IntEnum)}


@dataclass
class Grammar(Generic[V]):
    """The variants of one composition. `rules` holds the rules that a name can replace; `values`
    holds the values that may follow each `NAME=`."""

    composition: str
    variant: type[V]
    more_aliases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        enums = enums_of(self.variant)
        self.rules = {name: kind for name, kind in enums.items() if name not in ALWAYS_NAMED}
        has_levels = len(self.rules) < len(enums)
        self.values: dict[str, Mapping[str, Any]] = {"level": LEVELS} if has_levels else {}
        for name, kind in enums.items():
            self.values[name] = {member.name.lower(): member for member in kind}
        self.releases: dict[str, V] = {}
        self.releases |= {name: self.of_release(name) for name in RELEASES[self.composition]}
        v2 = self.full_name(NEWEST, self.releases[NEWEST])
        v1 = v2.replace("requests=v2", "requests=v1")
        self.aliases = {**({"v2": v2, "v1": v1} if has_levels else {}), **self.more_aliases}
        self.default = v2

    def of_release(self, release: str) -> V:
        """The variant of a release."""
        rules = rules_of(self.composition, release)
        values = {name: self.values[name][text] for name, text in rules.items()}
        make: Any = self.variant
        return self.with_name(release, make(name="", release=release.partition("-")[0], **values))

    def with_name(self, release: str, variant: Any) -> V:
        """The variant with its full name."""
        named: V = replace(variant, name=self.full_name(release, variant))
        return named

    def full_name(self, release: str, variant: Any) -> str:
        """The release, the rules that are always named, then those that differ from the
        release's."""
        base = self.releases.get(release, variant)
        parts = (
            f"{name}={text}"
            for name, values in self.values.items()
            for text, value in values.items()
            if value == getattr(variant, name)
            and (name in ALWAYS_NAMED or value != getattr(base, name))
        )
        return "/".join((release, *parts))

    def with_rule(self, variant: Any, part: str) -> Any:
        """The variant with one `NAME=VALUE` applied. Raises UnknownVariant."""
        name, equals, text = part.partition("=")
        if not equals:
            raise UnknownVariant(f"{part!r} is not NAME=VALUE")
        if name not in self.values:
            known = ", ".join(self.values)
            raise UnknownVariant(f"no rule is called {name!r}; choose one of {known}")
        values = self.values[name]
        return replace(variant, **{name: values[one_of(text, values, name)]})

    def parse(self, text: str) -> V:
        """The variant that `text` names. A text of rules alone changes the default release.

        Raises UnknownVariant.
        """
        first, *rest = text.split("/")
        parts = [*self.aliases.get(first, first).split("/"), *rest]
        if "=" in parts[0]:
            parts = [*self.default.split("/"), *parts]
        release = one_of(parts[0], self.releases, "release")
        variant: Any = self.releases[release]
        for part in parts[1:]:
            variant = self.with_rule(variant, part)
        return self.with_name(release, variant)
