"""Releases that a node can serve as: the versions of its APIs, and the levels of its features.

Two rules:

1. A node serves no newer version than its release did.
2. Versions that 4.0 removed are served for no release: of Produce, those before 3.

The tables are what brokers of these releases answered to ApiVersions: 2.8.2 (with ZooKeeper),
3.3.2, 3.9.2, 4.0.2, 4.1.2, 4.2.1 and 4.3.1; `tests/impl/broker/recorded_versions` has the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, TypeVar

from impl.protocol.schemas import ApiKey

T = TypeVar("T")

_TABLE: Final = """
api                             2.8   3.3   3.9   4.0   4.1   4.2   4.3
PRODUCE                         0-9   0-9   0-11  0-12  0-13  0-13  0-13
FETCH                           0-12  0-13  0-17  4-17  4-18  4-18  4-18
LIST_OFFSETS                    0-6   0-7   0-9   1-10  1-10  1-11  1-11
METADATA                        0-11  0-12  0-12  0-13  0-13  0-13  0-13
OFFSET_COMMIT                   0-8   0-8   0-9   2-9   2-9   2-10  2-10
OFFSET_FETCH                    0-7   0-8   0-9   1-9   1-9   1-10  1-10
FIND_COORDINATOR                0-3   0-4   0-6   0-6   0-6   0-6   0-6
JOIN_GROUP                      0-7   0-9   0-9   0-9   0-9   0-9   0-9
HEARTBEAT                       0-4   0-4   0-4   0-4   0-4   0-4   0-4
LEAVE_GROUP                     0-4   0-5   0-5   0-5   0-5   0-5   0-5
SYNC_GROUP                      0-5   0-5   0-5   0-5   0-5   0-5   0-5
DESCRIBE_GROUPS                 0-5   0-5   0-5   0-6   0-6   0-6   0-6
LIST_GROUPS                     0-4   0-4   0-5   0-5   0-5   0-5   0-5
SASL_HANDSHAKE                  0-1   0-1   0-1   0-1   0-1   0-1   0-1
API_VERSIONS                    0-3   0-3   0-4   0-4   0-4   0-4   0-4
CREATE_TOPICS                   0-7   0-7   0-7   2-7   2-7   2-7   2-7
DELETE_TOPICS                   0-6   0-6   0-6   1-6   1-6   1-6   1-6
DELETE_RECORDS                  0-2   0-2   0-2   0-2   0-2   0-2   0-2
INIT_PRODUCER_ID                0-4   0-4   0-5   0-5   0-5   0-5   0-5
OFFSET_FOR_LEADER_EPOCH         0-4   0-4   0-4   2-4   2-4   2-4   2-4
ADD_PARTITIONS_TO_TXN           0-3   0-3   0-5   0-5   0-5   0-5   0-5
ADD_OFFSETS_TO_TXN              0-3   0-3   0-4   0-4   0-4   0-4   0-4
END_TXN                         0-3   0-3   0-4   0-5   0-5   0-5   0-5
WRITE_TXN_MARKERS               0-1   0-1   0-1   1-1   1-1   1-2   1-2
TXN_OFFSET_COMMIT               0-3   0-3   0-4   0-5   0-5   0-5   0-5
DESCRIBE_ACLS                   0-2   0-3   0-3   1-3   1-3   1-3   1-3
CREATE_ACLS                     0-2   0-3   0-3   1-3   1-3   1-3   1-3
DELETE_ACLS                     0-2   0-3   0-3   1-3   1-3   1-3   1-3
DESCRIBE_CONFIGS                0-4   0-4   0-4   1-4   1-4   1-4   1-4
ALTER_CONFIGS                   0-2   0-2   0-2   0-2   0-2   0-2   0-2
ALTER_REPLICA_LOG_DIRS          0-2   0-2   0-2   1-2   1-2   1-2   1-2
DESCRIBE_LOG_DIRS               0-2   0-4   0-4   1-4   1-4   1-4   1-5
SASL_AUTHENTICATE               0-2   0-2   0-2   0-2   0-2   0-2   0-2
CREATE_PARTITIONS               0-3   0-3   0-3   0-3   0-3   0-3   0-3
CREATE_DELEGATION_TOKEN         0-2   -     0-3   1-3   1-3   1-3   1-3
RENEW_DELEGATION_TOKEN          0-2   -     0-2   1-2   1-2   1-2   1-2
EXPIRE_DELEGATION_TOKEN         0-2   -     0-2   1-2   1-2   1-2   1-2
DESCRIBE_DELEGATION_TOKEN       0-2   -     0-3   1-3   1-3   1-3   1-3
DELETE_GROUPS                   0-2   0-2   0-2   0-2   0-2   0-2   0-2
ELECT_LEADERS                   0-2   0-2   0-2   0-2   0-2   0-2   0-2
INCREMENTAL_ALTER_CONFIGS       0-1   0-1   0-1   0-1   0-1   0-1   0-1
ALTER_PARTITION_REASSIGNMENTS   0-0   0-0   0-0   0-0   0-1   0-1   0-1
LIST_PARTITION_REASSIGNMENTS    0-0   0-0   0-0   0-0   0-0   0-0   0-0
OFFSET_DELETE                   0-0   0-0   0-0   0-0   0-0   0-0   0-0
DESCRIBE_CLIENT_QUOTAS          0-1   0-1   0-1   0-1   0-1   0-1   0-1
ALTER_CLIENT_QUOTAS             0-1   0-1   0-1   0-1   0-1   0-1   0-1
DESCRIBE_USER_SCRAM_CREDENTIALS 0-0   -     0-0   0-0   0-0   0-0   0-0
ALTER_USER_SCRAM_CREDENTIALS    0-0   -     0-0   0-0   0-0   0-0   0-0
DESCRIBE_QUORUM                 -     0-1   0-2   0-2   0-2   0-2   0-2
UPDATE_FEATURES                 0-0   0-1   0-1   0-2   0-2   0-2   0-2
DESCRIBE_CLUSTER                0-0   0-0   0-1   0-2   0-2   0-2   0-2
DESCRIBE_PRODUCERS              0-0   0-0   0-0   0-0   0-0   0-0   0-0
UNREGISTER_BROKER               -     0-0   0-0   0-0   0-0   0-0   0-0
DESCRIBE_TRANSACTIONS           -     0-0   0-0   0-0   0-0   0-0   0-0
LIST_TRANSACTIONS               -     0-0   0-1   0-1   0-2   0-2   0-2
CONSUMER_GROUP_HEARTBEAT        -     -     -     0-1   0-1   0-1   0-1
CONSUMER_GROUP_DESCRIBE         -     -     -     0-1   0-1   0-1   0-1
LIST_CONFIG_RESOURCES           -     -     0-0   0-0   0-1   0-1   0-1
DESCRIBE_TOPIC_PARTITIONS       -     -     0-0   0-0   0-0   0-0   0-0
"""

OLDEST_PRODUCE: Final = 3
"""The oldest version of Produce that is served; 0 is announced, for old clients (KAFKA-18659)."""

TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
METADATA_VERSION: Final = "metadata.version"
"""Features of the cluster (KIP-584). The second, consumer groups, and the third, what controllers
write, are always at their newest level."""
_NO_LEVELS: Final[Mapping[str, range]] = MappingProxyType({})
_LEVELS: Final[Mapping[str, Mapping[str, range]]] = MappingProxyType(
    {
        "2.8": _NO_LEVELS,
        "3.3": MappingProxyType({METADATA_VERSION: range(1, 8)}),
        "3.9": MappingProxyType({METADATA_VERSION: range(1, 22)}),
        **{
            release: MappingProxyType(
                {
                    GROUP_VERSION: range(2),
                    METADATA_VERSION: range(7, newest + 1),
                    TRANSACTION_VERSION: range(3),
                }
            )
            for release, newest in (("4.0", 25), ("4.1", 27), ("4.2", 29), ("4.3", 30))
        },
    }
)


KRAFT_FROM: Final = "3.3"
"""The first release here whose controller is KRaft's."""


def _parse(text: str) -> dict[str, dict[int, range]]:
    """The versions of each API by release."""
    (_, *releases), *rows = (line.split() for line in text.strip().splitlines())
    found: dict[str, dict[int, range]] = {release: {} for release in releases}
    for name, *cells in rows:
        oldest = int(cells[-1].partition("-")[0])
        for release, cell in zip(releases, cells, strict=True):
            first, is_served, last = cell.partition("-")
            if first and is_served:
                found[release][ApiKey[name]] = range(max(oldest, int(first)), int(last) + 1)
    return found


_VERSIONS: Final = _parse(_TABLE)
RELEASES: Final = tuple(_VERSIONS)
NEWEST_RELEASE: Final = RELEASES[-1]


def announced_versions(release: str) -> Mapping[int, range]:
    """What ApiVersions says of each API that clients use."""
    return MappingProxyType(_VERSIONS[release])


@cache
def served_versions(release: str) -> Mapping[int, range]:
    """The versions of each API that are answered, those between brokers included."""
    announced = _VERSIONS[release]
    produce = range(OLDEST_PRODUCE, announced[ApiKey.PRODUCE].stop)
    between_brokers = {ApiKey.ALLOCATE_PRODUCER_IDS: range(1)}
    return MappingProxyType({**announced, ApiKey.PRODUCE: produce, **between_brokers})


def supported_levels(release: str) -> Mapping[str, range]:
    """The levels of each feature that the release has."""
    return _LEVELS[release]


def has_zookeeper(release: str) -> bool:
    """Whether its controller keeps the metadata in ZooKeeper."""
    return not is_in(KRAFT_FROM, release)


def is_in(since: str, release: str) -> bool:
    """Whether a release has what there is since another one."""
    return _numbers(release) >= _numbers(since)


def entry_of_release(table: Mapping[str, T], release: str) -> T:
    """The entry of the newest release up to this one; before the first, the first's."""
    known = sorted(table, key=_numbers)
    upto = [key for key in known if _numbers(key) <= _numbers(release)]
    return table[upto[-1] if upto else known[0]]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
