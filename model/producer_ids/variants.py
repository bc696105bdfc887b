"""Variants by name: a release of Kafka, with `-zookeeper` where it can be run with and without."""

from __future__ import annotations

from enum import IntEnum

from model.producer_ids.configuration import Fetching, Form, Variant
from model.variant_syntax import Grammar, UnknownVariant

__all__ = ["ALIASES", "DEFAULT_VARIANT", "RELEASES", "RULES", "UnknownVariant", "parse"]

DEFAULT_VARIANT = "4.3.1"

RELEASES: dict[str, Variant] = {
    name: Variant(name=name, release=name.partition("-")[0], form=form, fetching=fetching)
    for name, form, fetching in (
        ("4.3.1", Form.CONTROLLER, Fetching.AHEAD),
        ("4.0.2", Form.CONTROLLER, Fetching.AHEAD),
        ("3.9.2", Form.CONTROLLER, Fetching.AHEAD),
        ("3.9.2-zookeeper", Form.ZOOKEEPER, Fetching.AHEAD),
        ("2.8.2", Form.ZOOKEEPER_CHECKED, Fetching.WHEN_EMPTY),
        ("2.4.1", Form.ZOOKEEPER_CHECKED, Fetching.WHEN_EMPTY),
        ("2.0.0", Form.ZOOKEEPER_CHECKED, Fetching.WHEN_EMPTY),
    )
}
ALIASES: dict[str, str] = {"4.3.1/level=2/requests=v2": DEFAULT_VARIANT}
RULES: dict[str, type[IntEnum]] = {}

GRAMMAR = Grammar(RELEASES, RULES, ALIASES, DEFAULT_VARIANT)


def parse(text: str) -> Variant:
    """The variant that `text` names. Raises UnknownVariant."""
    return GRAMMAR.parse(text)
