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
    """One row. `product` is KAFKA for brokers, else that of a client, which is played against
    `broker`; `has_it` is the last release with the defect, `fixed` the first without."""

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
        """The release that has it, and the first that does not."""
        return self.has_it, self.fixed

    def broker_at(self, release: str) -> str:
        """The release of the broker with which `release` is judged."""
        return release if self.product == KAFKA else self.broker

    def client_at(self, release: str) -> str:
        """The client with which `release` is judged, as stories name it."""
        return {KAFKA: NEWEST, JAVA: release}.get(self.product, f"{self.product}:{release}")

    def experiment_at(self, release: str) -> Experiment:
        """The experiment that is played on a release. Raises KeyError for a story that is none."""
        level = find_release(self.broker_at(release)).default_level
        requests = "v2" if level >= V2_SINCE_LEVEL else "v1"
        return all_stories()[self.story.format(requests=requests)]


class MissingDefect(NamedTuple):
    """A defect of a released artifact that no row shows, and why."""

    issue: str
    what: str
    why: str


@cache
def all_stories() -> dict[str, Experiment]:
    """The experiments of all folders by name. Raises StoryError."""
    return {name: one for folder in STORIES for name, one in stories(folder).items()}


@cache
def known_defects() -> tuple[KnownDefect, ...]:
    """All rows. Raises TypeError for one with a key that is none."""
    return tuple(KnownDefect(**row) for row in _table()["defect"])


@cache
def missing_defects() -> tuple[MissingDefect, ...]:
    """The candidates that no row shows."""
    return tuple(MissingDefect(**row) for row in _table()["missing"])


def _table() -> dict[str, list[dict[str, str]]]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))
