"""The releases that can be run, and in what they differ from outside.

A row says where the jars come from and which levels of `transaction.version` a cluster can have.
Facts: the release notes and, for levels, `TransactionVersion` and `Feature` in Kafka's sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conformance.kafka.errors import UnknownRelease

_LOGGING: Final = "org.slf4j:slf4j-simple:1.7.36"  # without a binding a broker says nothing
_LOG4J_1: Final = "ch.qos.reload4j:reload4j:1.2.25"  # classes that releases before 4 refer to


@dataclass(frozen=True)
class Release:
    """One release of Apache Kafka in one mode; `name` is what `--kafka` takes.

    `levels` are the levels of `transaction.version` that a cluster can be formatted with, empty
    where the feature does not exist; `unstable_levels` want `unstable.feature.versions.enable`.
    """

    name: str
    artifacts: tuple[str, ...]
    levels: tuple[int, ...] = ()
    unstable_levels: tuple[int, ...] = ()

    @property
    def default_level(self) -> int:
        """The newest stable level; 0 where the feature does not exist."""
        return max(self.levels, default=0)

    def check_level(self, level: int) -> None:
        """Raise UnknownRelease unless a cluster of this release can have `level`."""
        known = {0, *self.levels, *self.unstable_levels}
        if level not in known:
            raise UnknownRelease(
                f"Kafka {self.name} has no transaction.version {level}; it has {sorted(known)}"
            )


def _since_4(version: str) -> Release:
    artifacts = (f"org.apache.kafka:kafka_2.13:{version}", _LOGGING)
    return Release(version, artifacts, levels=(0, 1, 2))


_ROWS: Final = (
    _since_4("4.3.1"),
    _since_4("4.2.1"),
    _since_4("4.1.2"),
    _since_4("4.0.2"),
    Release(
        "3.9.2",
        ("org.apache.kafka:kafka_2.13:3.9.2", _LOGGING, _LOG4J_1),
        levels=(0,),
        unstable_levels=(1, 2),
    ),
    Release("3.3.2", ("org.apache.kafka:kafka_2.13:3.3.2", _LOGGING, _LOG4J_1)),
)

RELEASES: Final[dict[str, Release]] = {release.name: release for release in _ROWS}
NEWEST: Final = _ROWS[0].name


def find_release(name: str) -> Release:
    """Return the release called `name`. Raises UnknownRelease, which lists the names."""
    if name not in RELEASES:
        raise UnknownRelease(f"no release {name!r}; there are {', '.join(RELEASES)}")
    return RELEASES[name]
