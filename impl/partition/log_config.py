"""The settings of a partition's log."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from impl.partition.rules import DEFAULT_RULES, TransactionRules
from impl.protocol.compression import Compression
from impl.settings import LONG_MAX, Settings, ValidValues, integer, ratio, required

DELETE: Final = "delete"
COMPACT: Final = "compact"

GZIP_DEFAULT_LEVEL: Final = -1
PRODUCER: Final = "producer"
CODECS: Final = MappingProxyType(
    {
        "uncompressed": Compression.NONE,
        "zstd": Compression.ZSTD,
        "lz4": Compression.LZ4,
        "snappy": Compression.SNAPPY,
        "gzip": Compression.GZIP,
    }
)
"""What batches are compressed with, by `compression.type`; PRODUCER leaves it to the producer.
`BrokerCompressionType`."""

COMPRESSION_TYPES: Final = (*CODECS, PRODUCER)
_KNOWN_TYPE: Final = ValidValues(
    f"one of {', '.join(COMPRESSION_TYPES)}", lambda value: value in COMPRESSION_TYPES
)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LogConfig(Settings):
    """A topic's settings that a leader applies, and its release's rules.

    Kafka's defaults, but for retention.
    Raises `InvalidSetting`. Source: `LogConfig`.
    """

    max_message_bytes: int = integer(1_048_588)
    segment_bytes: int = integer(1_073_741_824, least=1)
    segment_ms: int = integer(604_800_000)
    min_insync_replicas: int = integer(1, least=1)
    is_log_append_time: bool = False
    message_timestamp_before_max_ms: int = integer(LONG_MAX)
    message_timestamp_after_max_ms: int = integer(3_600_000)
    producer_id_expiration_ms: int = integer(86_400_000)
    retention_ms: int = integer(-1, least=-1)
    """Kafka's default is seven days; here nothing is deleted by default."""
    retention_bytes: int = integer(-1, least=-LONG_MAX - 1)
    max_log_bytes: int = integer(1 << 32)
    """The limit on a partition's memory, bytes: beyond it appends fail with KAFKA_STORAGE_ERROR."""
    cleanup_policy: str = DELETE
    """DELETE, COMPACT, both with a comma between, or none of them."""
    min_cleanable_dirty_ratio: float = ratio(0.5)
    min_compaction_lag_ms: int = integer(0)
    max_compaction_lag_ms: int = integer(LONG_MAX, least=1)
    delete_retention_ms: int = integer(86_400_000)
    flush_messages: int = integer(LONG_MAX, least=1)
    """After so many messages a log on disk is flushed; with 1, before a batch is acknowledged."""
    unclean_leader_election_enable: bool = False
    compression_type: str = required(PRODUCER, _KNOWN_TYPE)
    compression_gzip_level: int = integer(GZIP_DEFAULT_LEVEL, least=-1, greatest=9)
    compression_lz4_level: int = integer(9, least=1, greatest=17)
    compression_zstd_level: int = integer(3, least=-131_072, greatest=22)
    rules: TransactionRules = DEFAULT_RULES
    """What differs by release."""

    @property
    def is_compacted(self) -> bool:
        """Whether a record supersedes those before it with its key."""
        return COMPACT in self.cleanup_policy

    @property
    def codec(self) -> Compression | None:
        """What batches are compressed with; None for what their producers chose."""
        return CODECS.get(self.compression_type)

    @property
    def compression_level(self) -> int | None:
        """The level of the codec; None for its own default. `LogConfig.getCompression`."""
        codec, gzip_level = self.codec, self.compression_gzip_level
        if codec is Compression.GZIP and gzip_level != GZIP_DEFAULT_LEVEL:
            return gzip_level
        if codec is Compression.LZ4:
            return self.compression_lz4_level
        return self.compression_zstd_level if codec is Compression.ZSTD else None

    @property
    def max_segment_ms(self) -> int:
        """A segment ends before its records have to be compacted. `LogConfig.maxSegmentMs`."""
        if self.is_compacted:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms


DEFAULT_CONFIG: Final = LogConfig()
"""Kafka's settings, where nobody gives others."""
