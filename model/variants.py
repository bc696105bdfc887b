"""Variants by name: `RELEASE[/level=N][/requests=v1|v2][/RULE=VALUE...]`."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.setting import (
    Acks,
    Expiry,
    FirstSequence,
    HeadTruncation,
    Idempotence,
    Recovery,
    RestartWindow,
    Retries,
    SequenceOrder,
    Validation,
    Variant,
)

DEFAULT_VARIANT = "4.3.1/level=2/requests=v2"

DELIVERY: dict[str, str] = {
    "at-most-once": f"{DEFAULT_VARIANT}/retries=none/acks=none/idempotence=disabled",
    "at-least-once": f"{DEFAULT_VARIANT}/idempotence=disabled",
    "exactly-once": DEFAULT_VARIANT,
}
"""Three configurations of one producer, named after what each promises."""

ALIASES = {"v2": DEFAULT_VARIANT, "v1": "4.3.1/level=2/requests=v1", **DELIVERY}

NEWEST = Variant(name=DEFAULT_VARIANT, release="4.3.1", level=2, requests=2)


def older(base: Variant, release: str, **rules: object) -> Variant:
    """An older release: what was different there, before what `base` says."""
    changed: Variant = replace(base, release=release, level=0, requests=1, **rules)  # type: ignore[arg-type]
    return replace(changed, name=f"{release}/level=0/requests=v1")


V4_0_2 = replace(NEWEST, release="4.0.2", name="4.0.2/level=2/requests=v2")
V3_9_2 = older(V4_0_2, "3.9.2")
V2_8_2 = older(V3_9_2, "2.8.2")
V2_4_1 = older(
    V2_8_2,
    "2.4.1",
    first_sequence=FirstSequence.UNKNOWN_PRODUCER_ID,
    recovery=Recovery.RESET_2_3,
)
V2_0_0 = older(
    V2_4_1,
    "2.0.0",
    head_truncation=HeadTruncation.EVICTS,
    recovery=Recovery.RESET_2_0,
    expiry=Expiry.QUEUED_ONLY,
)

RELEASES: dict[str, Variant] = {
    variant.release: variant for variant in (NEWEST, V4_0_2, V3_9_2, V2_8_2, V2_4_1, V2_0_0)
}

RULES: dict[str, type[IntEnum]] = {
    "first_sequence": FirstSequence,
    "restart_window": RestartWindow,
    "head_truncation": HeadTruncation,
    "validation": Validation,
    "recovery": Recovery,
    "expiry": Expiry,
    "retries": Retries,
    "acks": Acks,
    "idempotence": Idempotence,
    "sequence_order": SequenceOrder,
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
        return replace(variant, requests=one_of(value, REQUESTS, name) + 1)
    if name not in RULES:
        known = ", ".join(("level", "requests", *RULES))
        raise UnknownVariant(f"no rule is called {name!r}; choose one of {known}")
    values = tuple(member.name.lower() for member in RULES[name])
    chosen = RULES[name](one_of(value, values, name))
    return replace(variant, **{name: chosen})  # type: ignore[arg-type]


def canonical(variant: Variant) -> str:
    """The variant's full name: release, level, requests, then the rules that differ from it."""
    base = RELEASES[variant.release]
    parts = [
        variant.release,
        f"level={variant.level}",
        f"requests={REQUESTS[variant.requests - 1]}",
    ]
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
    return replace(variant, name=canonical(variant))
