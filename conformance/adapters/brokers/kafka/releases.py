"""The releases that can be run, and their external differences. `model.releases` names them.

A release has the artifacts of its jars, the levels of `transaction.version` that a cluster can
have, and whether its brokers need a ZooKeeper. A broker itself says which APIs it serves
(ApiVersions). Sources: the release notes; for levels, Kafka's `TransactionVersion` and `Feature`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from conformance.adapters.brokers.kafka.errors import UnknownRelease
from model.releases import NEWEST as NEWEST
from model.releases import RELEASES as MODELLED
from model.releases import numbers

ZOOKEEPER_MODE: Final = "-zookeeper"
"""The suffix of a release's name in ZooKeeper mode, if the release has both modes."""

_LOGGING: Final = "org.slf4j:slf4j-simple:1.7.36"  # without a binding a broker says nothing
_LOG4J_1: Final = "ch.qos.reload4j:reload4j:1.2.25"  # classes that releases before 4 refer to


@dataclass(frozen=True)
class Release:
    """One release of Apache Kafka in one mode; `name` is what `--kafka` takes.

    `levels` are the levels of `transaction.version` with which a cluster can be formatted, empty if
    the feature does not exist; `unstable_levels` need `unstable.feature.versions.enable`.
    `has_zookeeper`: ZooKeeper keeps its metadata, not a quorum of controllers.
    `has_producer_expiry`: the expiration time of idle producers has a config of its own, which can
    be changed on a running broker (3.4, KIP-854). `describes_producers`: it serves
    DescribeProducers (KIP-664).
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
        """The release without its mode, as Apache and the model name it."""
        return self.name.removesuffix(ZOOKEEPER_MODE)

    @property
    def default_level(self) -> int:
        """The newest stable level; 0 if the feature does not exist."""
        return max(self.levels, default=0)

    @property
    def stable_levels(self) -> tuple[int, ...]:
        """Level 0, and the stable levels."""
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
"""Brokers of earlier releases keep their metadata in ZooKeeper, or have KRaft as a preview only."""
LEVELS_SINCE: Final = (4,)
"""From here on a cluster has a `transaction.version`; 3.9 has the feature with no stable level but
0."""
EXPIRY_SINCE: Final = (3, 4)
DESCRIBED_SINCE: Final = (3,)
# Its own ZooKeeper, 3.4.13, does not run on Java 17; 3.5.10 serves it as well.
MORE_ARTIFACTS: Final = {"2.0.0": ("org.apache.zookeeper:zookeeper:3.5.10",)}


def _number(name: str) -> tuple[int, ...]:
    return numbers(name.removesuffix(ZOOKEEPER_MODE))


def _of(name: str) -> Release:
    """The release of this name, with everything that follows from the name."""
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
"""Releases that no composition models; each lies on one side of the fix of a known defect."""

WITH_ZOOKEEPER: Final = {name: _of(name) for name in ("3.6.2-zookeeper", "3.3.2-zookeeper")}
"""Modelled releases and neighbours in ZooKeeper mode: used for the directories that they leave."""


def find_release(name: str) -> Release:
    """Return the release called `name`. Raises UnknownRelease, which lists the names."""
    found = RELEASES.get(name) or NEIGHBOURS.get(name) or WITH_ZOOKEEPER.get(name)
    if found is None:
        raise UnknownRelease(f"no release {name!r}; there are {', '.join(RELEASES)}")
    return found
