"""The ids that a broker coordinates, and their log.

Four rules:

1. The leader of an id's partition of `__transaction_state` coordinates it, under its leader epoch.
   While a partition loads, its ids are COORDINATOR_LOAD_IN_PROGRESS; elsewhere, NOT_COORDINATOR.
2. An image becomes the state once its append succeeded, under the epoch that began it.
3. A failed append clears the pending state, except that of CompleteX, which is retried.
4. A load restores the log: the last value of each key; a tombstone removes it.

Theory of operation: `append` returns an `AppendRecords` with a token, and remembers its purpose;
`complete_append` takes the token and the result, and maps it to the coordinator's errors.
Source: `TransactionStateManager`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.coordinator.config import TransactionConfig
from impl.coordinator.effects import AppendRecords, RequestReference
from impl.coordinator.log_records import decode_key, decode_value, encode_key, encode_value
from impl.coordinator.metadata import TransactionImage, TransactionMetadata
from impl.coordinator.placement import LOG_ERRORS, partition_for
from impl.coordinator.states import IDLE, TransactionState
from impl.protocol.errors import ErrorCode, UnknownRecordVersion
from impl.protocol.record_batch import NO_PRODUCER, ProducerIdAndEpoch

_E = ErrorCode

APPEND_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = MappingProxyType(
    {
        **LOG_ERRORS,
        _E.MESSAGE_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
        _E.RECORD_LIST_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    }
)
"""The answer to a client for an error of the log; other errors stay."""


class Purpose(Enum):
    """The purpose of an append."""

    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    END_TXN = "EndTxn"
    FENCE = "InitProducerId while a transaction is open"
    TIME_OUT = "a transaction that timed out"
    COMPLETE = "all markers are written"
    EXPIRE = "an unused id"


@dataclass(frozen=True, slots=True)
class PendingAppend:
    """An append without a result. `producer` sent the request, `image` is written."""

    purpose: Purpose
    append: AppendRecords
    image: TransactionImage | None = None
    request: RequestReference = None
    producer: ProducerIdAndEpoch = NO_PRODUCER
    commit: bool = False

    @property
    def transactional_id(self) -> str:
        """The id; of several expired ids the first."""
        return self.append.transactional_ids[0]


class EpochAndMetadata(NamedTuple):
    """An id with the epoch of its coordinator. `CoordinatorEpochAndTxnMetadata`."""

    coordinator_epoch: int
    metadata: TransactionMetadata


class TransactionStateManager:
    """Ids by partition of the log. Public state: `config`; `loading`, `pending_appends` to read."""

    __slots__ = ("_next_token", "_owned", "config", "loading", "pending_appends")

    def __init__(self, config: TransactionConfig) -> None:
        self.config = config
        self._owned: dict[int, tuple[int, dict[str, TransactionMetadata]]] = {}
        self._next_token = 0
        self.loading: dict[int, int] = {}
        self.pending_appends: dict[int, PendingAppend] = {}

    # ---- ids

    def partition_of(self, transactional_id: str) -> int:
        """The id's partition of `__transaction_state`."""
        return partition_for(transactional_id, self.config.num_partitions)

    def find(self, transactional_id: str) -> EpochAndMetadata | ErrorCode | None:
        """The id, None if it is unknown, or the error if this broker does not coordinate it.

        `getAndMaybeAddTransactionState`.
        """
        partition = self.partition_of(transactional_id)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if partition not in self._owned:
            return ErrorCode.NOT_COORDINATOR
        epoch, by_id = self._owned[partition]
        metadata = by_id.get(transactional_id)
        return None if metadata is None else EpochAndMetadata(epoch, metadata)

    def find_under(
        self, transactional_id: str, coordinator_epoch: int
    ) -> TransactionMetadata | ErrorCode:
        """The id, if this broker still coordinates it under that epoch; else the error."""
        found = self.find(transactional_id)
        if isinstance(found, ErrorCode):
            return found
        if found is None or found.coordinator_epoch != coordinator_epoch:
            return ErrorCode.NOT_COORDINATOR
        return found.metadata

    def add(self, transactional_id: str, image: TransactionImage) -> EpochAndMetadata:
        """Add an id, in memory until its first append. This broker must own its partition."""
        epoch, by_id = self._owned[self.partition_of(transactional_id)]
        metadata = TransactionMetadata(transactional_id, image, self.config)
        by_id[transactional_id] = metadata
        return EpochAndMetadata(epoch, metadata)

    @property
    def coordinator_epochs(self) -> Mapping[int, int]:
        """The loaded partitions, with this coordinator's epoch."""
        return {partition: epoch for partition, (epoch, _) in self._owned.items()}

    def entries(self) -> Iterator[tuple[int, EpochAndMetadata]]:
        """All ids with their partitions."""
        for partition, (epoch, by_id) in list(self._owned.items()):
            for metadata in list(by_id.values()):
                yield partition, EpochAndMetadata(epoch, metadata)

    # ---- leadership

    def elect(self, partition: int, coordinator_epoch: int) -> None:
        """This broker leads the partition, whose requests are refused until it is loaded."""
        self._owned.pop(partition, None)
        self.loading[partition] = coordinator_epoch

    def load(
        self,
        partition: int,
        coordinator_epoch: int,
        records: Iterable[tuple[bytes, bytes | None]],
    ) -> list[EpochAndMetadata]:
        """Load a partition from its records; returns the ids. Raises `DecodeError`.

        Does nothing unless the partition is being loaded under this epoch.
        `loadTransactionsForTxnTopicPartition`.
        """
        if self.loading.get(partition) != coordinator_epoch:
            return []
        by_id = _replay(records, self.config)
        self._owned[partition] = (coordinator_epoch, by_id)
        del self.loading[partition]
        return [EpochAndMetadata(coordinator_epoch, metadata) for metadata in by_id.values()]

    def resign(self, partition: int, coordinator_epoch: int | None) -> None:
        """Another broker leads the partition; a call with an older epoch is ignored."""
        for known in (self.loading.get(partition), self._owned.get(partition, (None,))[0]):
            if known is not None and coordinator_epoch is not None and coordinator_epoch < known:
                return
        self.loading.pop(partition, None)
        self._owned.pop(partition, None)

    # ---- the log

    def append(
        self,
        purpose: Purpose,
        entry: EpochAndMetadata,
        image: TransactionImage,
        *,
        request: RequestReference = None,
        producer: ProducerIdAndEpoch = NO_PRODUCER,
        commit: bool = False,
    ) -> AppendRecords:
        """Append an image; the append may take as long as the transaction's timeout.

        `appendTransactionToLog`. Raises `UnwritableImage`.
        """
        transactional_id = entry.metadata.transactional_id
        value = encode_value(image, self.config)
        append = AppendRecords(
            self._take_token(),
            self.partition_of(transactional_id),
            entry.coordinator_epoch,
            (transactional_id,),
            ((encode_key(transactional_id), value),),
            image.transaction_timeout_ms,
        )
        self.pending_appends[append.token] = PendingAppend(
            purpose, append, image, request, producer, commit
        )
        return append

    def append_tombstones(
        self, partition: int, coordinator_epoch: int, transactional_ids: tuple[str, ...]
    ) -> AppendRecords:
        """Append tombstones for ids that are pending Dead."""
        records = tuple((encode_key(name), None) for name in transactional_ids)
        timeout_ms = self.config.request_timeout_ms
        append = AppendRecords(
            self._take_token(), partition, coordinator_epoch, transactional_ids, records, timeout_ms
        )
        self.pending_appends[append.token] = PendingAppend(Purpose.EXPIRE, append)
        return append

    def _take_token(self) -> int:
        self._next_token += 1
        return self._next_token

    def complete_append(self, token: int, error: ErrorCode) -> tuple[PendingAppend, ErrorCode]:
        """Finish an append: what it was for, and the error for its client.

        Raises `KeyError` for an unknown token.
        """
        pending = self.pending_appends.pop(token)
        if pending.purpose is Purpose.EXPIRE:
            self._forget(pending.append, error)
            return pending, error
        error = APPEND_ERRORS.get(error, error)
        found = self.find_under(pending.transactional_id, pending.append.coordinator_epoch)
        if isinstance(found, ErrorCode):
            return pending, error or found
        if error and not _will_retry(pending, error):
            found.cancel()
        if not error:
            assert pending.image is not None
            found.complete(pending.image)
        return pending, error

    def _forget(self, append: AppendRecords, error: ErrorCode) -> None:
        """`writeTombstonesForExpiredTransactionalIds`."""
        epoch, by_id = self._owned.get(append.partition, (None, {}))
        if epoch != append.coordinator_epoch:
            return
        for name in append.transactional_ids:
            metadata = by_id.get(name)
            if metadata is None or metadata.pending_state is not TransactionState.DEAD:
                continue
            if error:
                metadata.cancel()
            else:
                del by_id[name]


def _will_retry(pending: PendingAppend, error: ErrorCode) -> bool:
    return pending.purpose is Purpose.COMPLETE and error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def _replay(
    records: Iterable[tuple[bytes, bytes | None]], config: TransactionConfig
) -> dict[str, TransactionMetadata]:
    """What the last record of each id says: only that one is decoded."""
    latest: dict[bytes, bytes] = {}
    for key, value in records:
        if value is None:
            latest.pop(key, None)
        else:
            latest[key] = value
    by_id: dict[str, TransactionMetadata] = {}
    for key, value in latest.items():
        try:
            name = decode_key(key)
        except UnknownRecordVersion:
            continue
        by_id[name] = TransactionMetadata(name, decode_value(value), config)
    return by_id


def is_timed_out(entry: EpochAndMetadata, now_ms: int) -> bool:
    """Whether an open transaction exceeded its timeout. `timedOutTransactions`."""
    metadata = entry.metadata
    now = metadata.current
    return (
        metadata.pending_state is None
        and now.state is TransactionState.ONGOING
        and now.transaction_timeout_ms != NEVER_TIMES_OUT
        and now.start_timestamp_ms + now.transaction_timeout_ms < now_ms
    )


def is_expired(entry: EpochAndMetadata, now_ms: int, expiration_ms: int) -> bool:
    """Whether the id was unused for so long. `shouldExpire`."""
    metadata = entry.metadata
    now = metadata.current
    return (
        metadata.pending_state is None
        and now.state in IDLE
        and now.last_update_timestamp_ms <= now_ms - expiration_ms
    )


NEVER_TIMES_OUT: Final = 2147483647
"""The timeout of a two-phase commit transaction (KIP-939)."""
