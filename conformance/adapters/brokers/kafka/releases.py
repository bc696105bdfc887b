"""The releases that can be run, and how they differ from outside. `model.releases` names them.

A release has the artifacts of its jars, the levels of `transaction.version` that a cluster can
have, and whether its brokers need a ZooKeeper. A broker names its APIs itself (ApiVersions).
Sources: the release notes; for levels, Kafka's `TransactionVersion` and `Feature`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conformance.adapters.brokers.kafka.errors import UnknownRelease
from model.releases import NEWEST as NEWEST
from model.releases import RELEASES as MODELLED
from model.releases import numbers

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
    running broker takes (3.4, KIP-854). `describes_producers`: it has DescribeProducers (KIP-664).
    """

    name: str
    artifacts: tuple[str, ...]
    levels: tuple[int, ...] = ()
    unstable_levels: tuple[int, ...] = ()
    has_zookeeper: bool = False
    has_producer_expiry: bool = False
    describes_producers: bool = False

    @property
    def version(self) -> str:
        """The release alone, as Apache and the model name it."""
        return self.name.removesuffix(ZOOKEEPER_MODE)

    @property
    def default_level(self) -> int:
        """The newest stable level; 0 where the feature does not exist."""
        return max(self.levels, default=0)

    @property
    def stable_levels(self) -> tuple[int, ...]:
        """0, and those that are stable."""
        return tuple(sorted({0, *self.levels}))

    def check_level(self, level: int, *, is_stable: bool = False) -> None:
        """Raise UnknownRelease unless a cluster of this release can have `level`."""
        known = sorted({*self.stable_levels, *(() if is_stable else self.unstable_levels)})
        if level not in known:
            kind = " that is stable" if is_stable else ""
            raise UnknownRelease(
                f"Kafka {self.name} has no transaction.version {level}{kind}; it has {known}"
            )


KRAFT_SINCE: Final = (3, 3)
"""Brokers before keep their metadata in ZooKeeper, or only try KRaft."""
LEVELS_SINCE: Final = (4,)
"""The cluster has a `transaction.version`; 3.9 has the feature, and no stable level but 0."""
EXPIRY_SINCE: Final = (3, 4)
DESCRIBED_SINCE: Final = (3,)
# Its own ZooKeeper, 3.4.13, does not run on Java 17; 3.5.10 serves it as well.
MORE_ARTIFACTS: Final = {"2.0.0": ("org.apache.zookeeper:zookeeper:3.5.10",)}


def _number(name: str) -> tuple[int, ...]:
    return numbers(name.removesuffix(ZOOKEEPER_MODE))


def _of(name: str) -> Release:
    """What follows from a release's name."""
    version, number = name.removesuffix(ZOOKEEPER_MODE), _number(name)
    has_zookeeper = name != version or number < KRAFT_SINCE
    has_unstable = not has_zookeeper and (3, 9) <= number < LEVELS_SINCE
    scala = "2.13" if number >= (2, 5) else "2.12"
    artifacts = (
        f"org.apache.kafka:kafka_{scala}:{version}",
        *MORE_ARTIFACTS.get(version, ()),
        _LOGGING,
        *((_LOG4J_1,) if number < (4,) else ()),
    )
    return Release(
        name,
        artifacts,
        levels=(0, 1, 2) if number >= LEVELS_SINCE else (0,) if has_unstable else (),
        unstable_levels=(1, 2) if has_unstable else (),
        has_zookeeper=has_zookeeper,
        has_producer_expiry=number >= EXPIRY_SINCE,
        describes_producers=number >= DESCRIBED_SINCE,
    )


_NAMES: Final = sorted({name for names in MODELLED.values() for name in names})
RELEASES: Final = {name: _of(name) for name in sorted(_NAMES, key=_number, reverse=True)}
"""The releases that some composition models, the newest first."""

_FIRST_FIXED: Final = ("4.3.0", "4.2.0", "4.1.0", "4.0.0", "3.7.0", "3.6.0")
_LAST_DEFECTIVE: Final = ("3.6.2", "3.5.2")
NEIGHBOURS: Final = {name: _of(name) for name in (*_FIRST_FIXED, *_LAST_DEFECTIVE)}
"""Releases that no composition models, and that stand on one side of the mend of a known defect."""

WITH_ZOOKEEPER: Final = {name: _of(name) for name in ("3.6.2-zookeeper", "3.3.2-zookeeper")}
"""Releases that are modelled, or neighbours, in their older mode: for what they leave on disk."""


def find_release(name: str) -> Release:
    """Return the release called `name`. Raises UnknownRelease, which lists the names."""
    found = RELEASES.get(name) or NEIGHBOURS.get(name) or WITH_ZOOKEEPER.get(name)
    if found is None:
        raise UnknownRelease(f"no release {name!r}; there are {', '.join(RELEASES)}")
    return found
