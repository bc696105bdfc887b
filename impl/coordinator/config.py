"""Settings of a transaction coordinator, and the rules that differ by release.

The defaults are those of Kafka 4.3.1 at `transaction.version` 2. The comment of a rule names the
releases with its other value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from impl.protocol.errors import ErrorCode
from impl.settings import MAX_REPLICAS, Settings, integer


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TransactionConfig(Settings):
    """A coordinator's settings; times in milliseconds. `TransactionConfig`, `TransactionLogConfig`.

    Raises `InvalidSetting` for a value out of range.
    """

    num_partitions: int = integer(50, least=1)
    """Of `__transaction_state`; it must never change."""
    replication_factor: int = integer(1, least=1, greatest=MAX_REPLICAS)
    """Of `__transaction_state`. Kafka's default is 3, and its own `server.properties` say 1."""
    min_insync_replicas: int = integer(1, least=1)
    """Of `__transaction_state`. Kafka's default is 2, and its own `server.properties` say 1."""
    segment_bytes: int = integer(104_857_600, least=1)
    """Of `__transaction_state`, of which full segments are compacted."""
    transaction_max_timeout_ms: int = integer(900_000, least=1)
    transactional_id_expiration_ms: int = integer(604_800_000)
    abort_timed_out_interval_ms: int = integer(10_000)
    remove_expired_interval_ms: int = integer(3_600_000)
    request_timeout_ms: int = integer(30_000)
    max_tombstone_batch_bytes: int = integer(16_384)
    transaction_version: int = integer(2, greatest=2)
    """The cluster's level: the version of log values, and whether own aborts bump the epoch."""

    fence_bump: Literal["once", "twice"] = "once"
    """How often a fence at level 2 bumps the epoch; "twice" in 4.0.0 (KAFKA-19367)."""
    end_txn_pending_first: bool = True
    """EndTxn V2 checks for a pending transition before ids; not before KAFKA-18464."""
    add_partitions_pending_first: bool = True
    """The same for AddPartitionsToTxn; not before KAFKA-18660."""
    strict_end_txn_epoch: bool = True
    """EndTxn V1 needs exactly the current epoch; before 2.6 a higher one was accepted."""
    absent_partition_error: ErrorCode = ErrorCode.TRANSACTION_ABORTABLE
    """The error for a partition not in the transaction; INVALID_TXN_STATE before 3.8."""
    transition_assigns: Literal["all", "by_target"] = "all"
    """Which fields a completed transition sets; "by_target" before 4.1."""
    logs_producer_ids: bool = True
    """Log values of version 1 have previous and next producer id; not before 4.3."""
    tolerates_last_epoch: bool = True
    """A producer at epoch 32767 can be fenced and aborted; not before 4.3 (KAFKA-20090)."""
    own_aborts_rotate: bool = True
    """An abort by the coordinator that exhausts the epochs takes a new producer id, as a client's
    end does; not before 4.3 (KAFKA-20090)."""

    @property
    def bumps_epoch(self) -> bool:
        """Whether aborts by the coordinator bump the epoch (KIP-890)."""
        return self.transaction_version >= EPOCH_BUMP_FROM


EPOCH_BUMP_FROM: Final = 2
"""The first version whose end bumps the epoch. `TransactionVersion.supportsEpochBump`."""

_BEFORE_4_3: Final = replace(
    TransactionConfig(),
    logs_producer_ids=False,
    tolerates_last_epoch=False,
    own_aborts_rotate=False,
)
_BEFORE_4_1: Final = replace(_BEFORE_4_3, transition_assigns="by_target")
_BEFORE_4_0: Final = replace(
    _BEFORE_4_1,
    transaction_version=0,
    end_txn_pending_first=False,
    add_partitions_pending_first=False,
)
_BEFORE_3_8: Final = replace(_BEFORE_4_0, absent_partition_error=ErrorCode.INVALID_TXN_STATE)

CONFIGS: Final[Mapping[str, TransactionConfig]] = MappingProxyType(
    {
        "4.3": TransactionConfig(),
        "4.1": _BEFORE_4_3,
        "4.0": _BEFORE_4_1,
        "4.0.0": replace(_BEFORE_4_1, fence_bump="twice"),
        "3.8": _BEFORE_4_0,
        "2.6": _BEFORE_3_8,
        "2.4": replace(_BEFORE_3_8, strict_end_txn_epoch=False),
    }
)
"""The settings of each release that changed them, of its last patch unless it names one. Below 4.0
the level is 0."""
