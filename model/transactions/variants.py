"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.transactions.setting import (
    Bump,
    Fence,
    FirstSequence,
    IdMemory,
    MarkerEpoch,
    OlderEpoch,
    Pending,
    Requests,
    Rotation,
    Variant,
    Verification,
)

DEFAULT_VARIANT = "4.3.1/level=2/requests=v2"
ALIASES = {"v2": DEFAULT_VARIANT, "v1": "4.3.1/level=2/requests=v1"}

NEWEST = Variant(name=DEFAULT_VARIANT, release="4.3.1", level=2, requests=Requests.V2)


def older(base: Variant, release: str, **rules: object) -> Variant:
    """An older release: what was different there, before what `base` says."""
    changed: Variant = replace(base, release=release, **rules)  # type: ignore[arg-type]
    return replace(changed, name=canonical_name(changed))


def canonical_name(variant: Variant) -> str:
    """Release, level and requests."""
    return f"{variant.release}/level={variant.level}/requests={variant.requests.name.lower()}"


V4_2_1 = older(NEWEST, "4.2.1", rotation=Rotation.CLIENTS, id_memory=IdMemory.IN_MEMORY)
V4_1_2 = older(V4_2_1, "4.1.2", marker_epoch=MarkerEpoch.NOT_OLDER)
V4_0_2 = older(V4_1_2, "4.0.2", first_sequence=FirstSequence.ANY, older_epoch=OlderEpoch.ASKED)
V3_9_2 = older(V4_0_2, "3.9.2", level=0, requests=Requests.V1, pending=Pending.AFTER_PRODUCER)
V3_3_2 = older(V3_9_2, "3.3.2", verification=Verification.NONE)

RELEASES: dict[str, Variant] = {
    variant.release: variant for variant in (NEWEST, V4_2_1, V4_1_2, V4_0_2, V3_9_2, V3_3_2)
}

RULES: dict[str, type[IntEnum]] = {
    "verification": Verification,
    "older_epoch": OlderEpoch,
    "marker_epoch": MarkerEpoch,
    "first_sequence": FirstSequence,
    "fence": Fence,
    "pending": Pending,
    "rotation": Rotation,
    "id_memory": IdMemory,
    "bump": Bump,
}

LEVELS = ("0", "1", "2")
REQUESTS = ("v1", "v2")


class UnknownVariant(ValueError):
    """The text names no variant; the message says which part, and what may stand there."""


def one_of(text: str, allowed: tuple[str, ...], what: str) -> int:
    """The position of `text` among what is allowed. Raises UnknownVariant."""
    if text not in allowed:
        raise UnknownVariant(f"{what} is {text!r}; choose one of {', '.join(allowed)}")
    return allowed.index(text)


def with_rule(variant: Variant, part: str) -> Variant:
    """One `NAME=VALUE` applied. Raises UnknownVariant."""
    name, equals, value = part.partition("=")
    if not equals:
        raise UnknownVariant(f"{part!r} is not NAME=VALUE")
    if name == "level":
        return replace(variant, level=one_of(value, LEVELS, name))
    if name == "requests":
        return replace(variant, requests=Requests(one_of(value, REQUESTS, name) + 1))
    if name not in RULES:
        known = ", ".join(("level", "requests", *RULES))
        raise UnknownVariant(f"no rule is called {name!r}; choose one of {known}")
    values = tuple(member.name.lower() for member in RULES[name])
    chosen = RULES[name](one_of(value, values, name))
    return replace(variant, **{name: chosen})  # type: ignore[arg-type]


def canonical(variant: Variant) -> str:
    """The variant's full name: release, level, requests, then the rules that differ from it."""
    base = RELEASES[variant.release]
    parts = [canonical_name(variant)]
    for name in RULES:
        value: IntEnum = getattr(variant, name)
        if value != getattr(base, name):
            parts.append(f"{name}={value.name.lower()}")
    return "/".join(parts)


def parse(text: str) -> Variant:
    """The variant that `text` names; a text of rules alone stands on the default release.

    Raises UnknownVariant.
    """
    parts = ALIASES.get(text, text).split("/")
    if "=" in parts[0]:
        parts = [*DEFAULT_VARIANT.split("/"), *parts]
    one_of(parts[0], tuple(RELEASES), "release")
    variant = RELEASES[parts[0]]
    for part in parts[1:]:
        variant = with_rule(variant, part)
    if variant.level == 0 and variant.requests == Requests.V2:
        raise UnknownVariant(
            f"{text!r}: at level 0 the log cannot hold what requests of V2 begin; choose level 1"
            " or 2, or requests=v1"
        )
    return replace(variant, name=canonical(variant))
