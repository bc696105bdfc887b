"""The releases that can be run, and how they differ from outside.

A row has the artifacts of the jars, the levels of `transaction.version` that a cluster can have,
and whether its brokers need a ZooKeeper. A broker names its APIs itself (ApiVersions). Sources: the
release notes; for levels, Kafka's `TransactionVersion` and `Feature`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conformance.kafka.errors import UnknownRelease

ZOOKEEPER_MODE: Final = "-zookeeper"
"""Ends the name of a release that has both modes, in its older one."""

_LOGGING: Final = "org.slf4j:slf4j-simple:1.7.36"  # without a binding a broker says nothing
_LOG4J_1: Final = "ch.qos.reload4j:reload4j:1.2.25"  # classes that releases before 4 refer to


@dataclass(frozen=True)
class Release:
    """One release of Apache Kafka in one mode; `name` is what `--kafka` takes.

    `levels` are the levels of `transaction.version` that a cluster can be formatted with, empty
    where the feature does not exist; `unstable_levels` want `unstable.feature.versions.enable`.
    `has_zookeeper`: its metadata is kept in ZooKeeper, not by a quorum of controllers.
    `has_producer_expiry`: how long an idle producer is remembered is a config of its own, which a
    running broker takes (3.4, KIP-854).
    """

    name: str
    artifacts: tuple[str, ...]
    levels: tuple[int, ...] = ()
    unstable_levels: tuple[int, ...] = ()
    has_zookeeper: bool = False
    has_producer_expiry: bool = False

    @property
    def version(self) -> str:
        """The release alone, as Apache and the model name it."""
        return self.name.removesuffix(ZOOKEEPER_MODE)

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
    return Release(version, artifacts, levels=(0, 1, 2), has_producer_expiry=True)


def _before_4(version: str, *more: str, scala: str = "2.13") -> tuple[str, ...]:
    return (f"org.apache.kafka:kafka_{scala}:{version}", *more, _LOGGING, _LOG4J_1)


_ROWS: Final = (
    _since_4("4.3.1"),
    _since_4("4.2.1"),
    _since_4("4.1.2"),
    _since_4("4.0.2"),
    Release(
        "3.9.2",
        _before_4("3.9.2"),
        levels=(0,),
        unstable_levels=(1, 2),
        has_producer_expiry=True,
    ),
    Release(
        f"3.9.2{ZOOKEEPER_MODE}",
        _before_4("3.9.2"),
        has_zookeeper=True,
        has_producer_expiry=True,
    ),
    Release("3.3.2", _before_4("3.3.2")),
    Release("2.8.2", _before_4("2.8.2"), has_zookeeper=True),
    Release("2.4.1", _before_4("2.4.1", scala="2.12"), has_zookeeper=True),
    # Its own ZooKeeper, 3.4.13, does not run on Java 17; 3.5.10 serves it as well.
    Release(
        "2.0.0",
        _before_4("2.0.0", "org.apache.zookeeper:zookeeper:3.5.10", scala="2.12"),
        has_zookeeper=True,
    ),
)

RELEASES: Final[dict[str, Release]] = {release.name: release for release in _ROWS}
NEWEST: Final = _ROWS[0].name


def find_release(name: str) -> Release:
    """Return the release called `name`. Raises UnknownRelease, which lists the names."""
    if name not in RELEASES:
        raise UnknownRelease(f"no release {name!r}; there are {', '.join(RELEASES)}")
    return RELEASES[name]
