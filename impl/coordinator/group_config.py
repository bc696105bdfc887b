"""Settings of the coordinator of groups and of their offsets, and what differs by release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, get_args

from impl.protocol.errors import ErrorCode
from impl.settings import INT_MAX, MAX_REPLICAS, InvalidSetting, Settings, integer

OFFSET_VALUE_VERSION: Final = 4
"""Of the values of committed offsets that are written."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OffsetsConfig(Settings):
    """A coordinator's settings, and what differs by release; the defaults are those of 4.3.1.

    Raises `InvalidSetting`.
    """

    num_partitions: int = integer(50, least=1)
    """Of `__consumer_offsets`; it must never change."""
    replication_factor: int = integer(1, least=1, greatest=MAX_REPLICAS)
    """Of `__consumer_offsets`. Kafka's default is 3, and its own `server.properties` say 1."""
    segment_bytes: int = integer(104_857_600, least=1)
    """Of `__consumer_offsets`, of which full segments are compacted."""
    offset_metadata_max_bytes: int = integer(4096)
    """offset.metadata.max.bytes. QUIRK: it counts UTF-16 units."""
    retention_minutes: int = integer(10_080, least=1)
    """How long offsets stay: see `offset_expiration`."""
    retention_check_interval_ms: int = integer(600_000, least=1)
    size_error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    """Of a batch too large for the log; INVALID_COMMIT_OFFSET_SIZE before 4.0."""
    value_version: int = OFFSET_VALUE_VERSION
    """3 before 4.1."""


_BEFORE_4_1: Final = OffsetsConfig(value_version=3)
OFFSETS_CONFIGS: Final[Mapping[str, OffsetsConfig]] = MappingProxyType(
    {
        "4.1": OffsetsConfig(),
        "4.0": _BEFORE_4_1,
        "2.8": replace(_BEFORE_4_1, size_error=ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    }
)
"""The settings of each release that changed them."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class GroupConfig(Settings):
    """A coordinator's settings: `group.*` of Kafka, in its units. Raises `InvalidSetting`."""

    initial_rebalance_delay_ms: int = integer(3_000)
    """How long an empty group waits for more members."""
    min_session_timeout_ms: int = integer(6_000)
    max_session_timeout_ms: int = integer(1_800_000)
    max_size: int = integer(INT_MAX, least=1)
    """How many members a group may have."""
    new_member_join_timeout_ms: int = integer(300_000)
    """How long a new member may wait for a rebalance to end."""


MigrationPolicy = Literal["disabled", "upgrade", "downgrade", "bidirectional"]
"""Which groups of one kind become groups of the other."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConsumerGroupConfig(Settings):
    """A coordinator's settings: `group.consumer.*` of Kafka, in its units.

    Raises `InvalidSetting`.
    """

    session_timeout_ms: int = integer(45_000, least=1)
    heartbeat_interval_ms: int = integer(5_000, least=1)
    """How often members are told to send heartbeats."""
    max_size: int = integer(INT_MAX, least=1)
    """How many members a group may have."""
    assignment_interval_ms: int = integer(1_000)
    """The least time between two target assignments; 0 before 4.3 (KIP-1263)."""
    migration_policy: MigrationPolicy = "bidirectional"
    min_session_timeout_ms: int = integer(45_000, least=1)
    max_session_timeout_ms: int = integer(60_000, least=1)
    min_heartbeat_interval_ms: int = integer(5_000, least=1)
    max_heartbeat_interval_ms: int = integer(15_000, least=1)
    min_assignment_interval_ms: int = integer(0)
    max_assignment_interval_ms: int = integer(15_000)
    """The ranges of what a group may set for itself; the settings above need not be in them."""

    def __post_init__(self) -> None:
        """Check each setting."""
        Settings.__post_init__(self)
        policies = get_args(MigrationPolicy)
        if self.migration_policy not in policies:
            raise InvalidSetting(self, "migration_policy", f"one of {', '.join(policies)}")

    @property
    def mixes(self) -> bool:
        """Whether members of the classic protocol may join a consumer group."""
        return self.migration_policy != "disabled"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self.migration_policy in ("upgrade", "bidirectional")

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self.migration_policy in ("downgrade", "bidirectional")


CONSUMER_GROUP_CONFIGS: Final[Mapping[str, ConsumerGroupConfig]] = MappingProxyType(
    {
        "4.3": ConsumerGroupConfig(),
        "4.0": ConsumerGroupConfig(assignment_interval_ms=0),
    }
)
"""The settings of each release that changed them."""
