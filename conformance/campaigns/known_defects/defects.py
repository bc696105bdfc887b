"""The table of known defects, and the experiments that show them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from conformance.adapters.brokers.kafka.releases import find_release
from conformance.campaigns.stories.story import FOLDER, Experiment, stories
from model.releases import NEWEST

TABLE: Final = Path(__file__).with_name("table.toml")
STORIES: Final = (FOLDER, Path(__file__).with_name("stories"))
KAFKA: Final = "kafka"
JAVA: Final = "java"
V2_SINCE_LEVEL: Final = 2


class KnownDefect(NamedTuple):
    """One row. `product` is KAFKA for brokers, else the name of a client, which is played against
    `broker`. `has_it` is the last release with the defect, `fixed` the first without it."""

    name: str
    issue: str
    product: str
    has_it: str
    fixed: str
    story: str
    fact: str
    says: str
    broker: str = NEWEST

    @property
    def releases(self) -> tuple[str, str]:
        """The release with the defect, and the first without it."""
        return self.has_it, self.fixed

    def broker_at(self, release: str) -> str:
        """The release of the broker for judging `release`."""
        return release if self.product == KAFKA else self.broker

    def client_at(self, release: str) -> str:
        """The client for judging `release`, by its name in stories."""
        return {KAFKA: NEWEST, JAVA: release}.get(self.product, f"{self.product}:{release}")

    def experiment_at(self, release: str) -> Experiment:
        """The experiment for a release. Raises KeyError for an unknown story."""
        level = find_release(self.broker_at(release)).default_level
        requests = "v2" if level >= V2_SINCE_LEVEL else "v1"
        return all_stories()[self.story.format(requests=requests)]


class MissingDefect(NamedTuple):
    """A defect of a released artifact without a row, and the reason."""

    issue: str
    what: str
    why: str


@cache
def all_stories() -> dict[str, Experiment]:
    """The experiments of all folders by name. Raises StoryError."""
    return {name: one for folder in STORIES for name, one in stories(folder).items()}


@cache
def known_defects() -> tuple[KnownDefect, ...]:
    """All rows. Raises TypeError for a row with an unknown key."""
    return tuple(KnownDefect(**row) for row in _table()["defect"])


@cache
def missing_defects() -> tuple[MissingDefect, ...]:
    """The candidates without a row."""
    return tuple(MissingDefect(**row) for row in _table()["missing"])


def _table() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))
