"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`.

One grammar for every composition whose variants have a release, a level, requests, and rules that
can be replaced by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Generic, TypeVar

V = TypeVar("V")

LEVELS = ("0", "1", "2")
REQUESTS = ("v1", "v2")


class UnknownVariant(ValueError):
    """The text names no variant; the message says which part, and what may stand there."""


def one_of(text: str, allowed: tuple[str, ...], what: str) -> int:
    """The position of `text` among what is allowed. Raises UnknownVariant."""
    if text not in allowed:
        raise UnknownVariant(f"{what} is {text!r}; choose one of {', '.join(allowed)}")
    return allowed.index(text)


def base_name(variant: Any) -> str:
    """Release, level and requests."""
    requests = REQUESTS[variant.requests - 1]
    return f"{variant.release}/level={variant.level}/requests={requests}"


def older(base: V, release: str, **changes: object) -> V:
    """An older release: what was different there, before what `base` says."""
    changed: Any = replace(base, release=release, **changes)  # type: ignore[type-var]
    named: V = replace(changed, name=base_name(changed))
    return named


@dataclass(frozen=True)
class Grammar(Generic[V]):
    """The variants of one composition: its releases, its rules, and other names for variants."""

    releases: Mapping[str, V]
    rules: Mapping[str, type[IntEnum]]
    aliases: Mapping[str, str]
    default: str

    def with_rule(self, variant: Any, part: str) -> Any:
        """One `NAME=VALUE` applied. Raises UnknownVariant."""
        name, equals, value = part.partition("=")
        if not equals:
            raise UnknownVariant(f"{part!r} is not NAME=VALUE")
        if name == "level":
            return replace(variant, level=one_of(value, LEVELS, name))
        if name == "requests":
            requests = type(variant.requests)(one_of(value, REQUESTS, name) + 1)
            return replace(variant, requests=requests)
        if name not in self.rules:
            known = ", ".join(("level", "requests", *self.rules))
            raise UnknownVariant(f"no rule is called {name!r}; choose one of {known}")
        values = tuple(member.name.lower() for member in self.rules[name])
        return replace(variant, **{name: self.rules[name](one_of(value, values, name))})

    def canonical(self, variant: Any) -> str:
        """The full name: release, level, requests, then the rules that differ from it."""
        base = self.releases[variant.release]
        parts = [base_name(variant)]
        for name in self.rules:
            value: IntEnum = getattr(variant, name)
            if value != getattr(base, name):
                parts.append(f"{name}={value.name.lower()}")
        return "/".join(parts)

    def parse(self, text: str) -> V:
        """The variant that `text` names; a text of rules alone stands on the default release.

        Raises UnknownVariant.
        """
        parts = self.aliases.get(text, text).split("/")
        if "=" in parts[0]:
            parts = [*self.default.split("/"), *parts]
        one_of(parts[0], tuple(self.releases), "release")
        variant: Any = self.releases[parts[0]]
        for part in parts[1:]:
            variant = self.with_rule(variant, part)
        named: V = replace(variant, name=self.canonical(variant))
        return named
