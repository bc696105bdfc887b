"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`.

One grammar for every composition: its releases, the parts that each of its names says, and rules
that can be replaced by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Generic, TypeVar

V = TypeVar("V")

Said = Mapping[str, Mapping[str, Any]]
"""Parts that each full name of a variant says: their values by text."""


class UnknownVariant(ValueError):
    """The text names no variant; the message says which part, and what may stand there."""


def conversation(v1: int, v2: int) -> Said:
    """A level, and the requests that clients send."""
    return {"level": {"0": 0, "1": 1, "2": 2}, "requests": {"v1": v1, "v2": v2}}


def one_of(text: str, allowed: Iterable[str], what: str) -> str:
    """`text`, if it is allowed. Raises UnknownVariant."""
    names = tuple(allowed)
    if text not in names:
        raise UnknownVariant(f"{what} is {text!r}; choose one of {', '.join(names)}")
    return text


def base_name(release: str, variant: Any, said: Said) -> str:
    """The release and the parts that every name says."""
    parts = (
        f"{name}={text}"
        for name, values in said.items()
        for text, value in values.items()
        if value == getattr(variant, name)
    )
    return "/".join((release, *parts))


def older(base: V, release: str, **changes: object) -> V:
    """An older release: what was different there, before what `base` says."""
    changed: V = replace(base, release=release, **changes)  # type: ignore[type-var]
    return changed


def by_release(said: Said, variants: Iterable[V]) -> dict[str, V]:
    """Variants under their releases, each with its full name."""
    every: list[Any] = list(variants)
    return {v.release: replace(v, name=base_name(v.release, v, said)) for v in every}


@dataclass(frozen=True)
class Grammar(Generic[V]):
    """The variants of one composition: its releases, its rules, other names for variants, and
    what each name says."""

    releases: Mapping[str, V]
    rules: Mapping[str, type[IntEnum]]
    aliases: Mapping[str, str]
    default: str
    said: Said = field(default_factory=dict)

    def values(self, name: str) -> Mapping[str, Any]:
        """What may stand behind `NAME=`. Raises UnknownVariant."""
        if name in self.said:
            return self.said[name]
        if name not in self.rules:
            known = (*self.said, *self.rules)
            cure = f"choose one of {', '.join(known)}" if known else "a release is all of a name"
            raise UnknownVariant(f"no rule is called {name!r}; {cure}")
        return {member.name.lower(): member for member in self.rules[name]}

    def with_rule(self, variant: Any, part: str) -> Any:
        """One `NAME=VALUE` applied. Raises UnknownVariant."""
        name, equals, value = part.partition("=")
        if not equals:
            raise UnknownVariant(f"{part!r} is not NAME=VALUE")
        values = self.values(name)
        return replace(variant, **{name: values[one_of(value, values, name)]})

    def canonical(self, release: str, variant: Any) -> str:
        """The full name: what every name says, then the rules that differ from the release's."""
        base = self.releases[release]
        changed = (
            f"{name}={getattr(variant, name).name.lower()}"
            for name in self.rules
            if getattr(variant, name) != getattr(base, name)
        )
        return "/".join((base_name(release, variant, self.said), *changed))

    def parse(self, text: str) -> V:
        """The variant that `text` names; a text of rules alone stands on the default release.

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
        named: V = replace(variant, name=self.canonical(release, variant))
        return named
