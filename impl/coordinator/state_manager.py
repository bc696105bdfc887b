"""The ids that a broker coordinates, and the log behind them.

Four rules:

1. An id belongs to the leader of its partition of `__transaction_state`, under that leader's epoch.
   While a partition loads, its ids are COORDINATOR_LOAD_IN_PROGRESS; elsewhere, NOT_COORDINATOR.
2. An image is state only once its append is reported, and only under the epoch that began it.
3. A failed append takes the pending mark away; only CompleteX keeps it, for it is tried again.
4. After a load memory is what the log says: the last value of each key, a tombstone removes.

Theory of operation: `append` hands out an `AppendRecords` with a token and remembers what for;
`appended` takes the token back and says what became of it, in the coordinator's own errors.
Source: `TransactionStateManager`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.coordinator.config import TransactionConfig
from impl.coordinator.effects import AppendRecords, Request
from impl.coordinator.log_records import decode_key, decode_value, encode_key, encode_value
from impl.coordinator.metadata import (
    NO_PRODUCER,
    ProducerIdAndEpoch,
    TransactionImage,
    TransactionMetadata,
)
from impl.coordinator.placement import partition_for
from impl.coordinator.states import IDLE, TransactionState
from impl.protocol.errors import ErrorCode, UnknownRecordVersion

_E = ErrorCode

APPEND_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = MappingProxyType(
    {
        _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _E.COORDINATOR_NOT_AVAILABLE,
        _E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE,
        _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
        _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
        _E.MESSAGE_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
        _E.RECORD_LIST_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    }
)
"""What an error of the log is to a client; any other stays what it is."""


class Purpose(Enum):
    """What an append is for."""

    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    END_TXN = "EndTxn"
    FENCE = "InitProducerId while a transaction is open"
    TIME_OUT = "a transaction that took too long"
    COMPLETE = "all markers are written"
    EXPIRE = "an id that nobody used"


@dataclass(frozen=True, slots=True)
class PendingAppend:
    """An append whose outcome is not known. `producer` is who asked, `image` what is written."""

    purpose: Purpose
    append: AppendRecords
    image: TransactionImage | None = None
    request: Request = None
    producer: ProducerIdAndEpoch = NO_PRODUCER
    commit: bool = False

    @property
    def transactional_id(self) -> str:
        """The id; the first of those that expire."""
        return self.append.transactional_ids[0]


class Entry(NamedTuple):
    """An id with the epoch of its coordinator."""

    coordinator_epoch: int
    metadata: TransactionMetadata


class TransactionStateManager:
    """Ids by partition of the log. Public state, to be read: `loading`, `pending_appends`."""

    __slots__ = ("_config", "_next_token", "_owned", "loading", "pending_appends")

    def __init__(self, config: TransactionConfig) -> None:
        self._config = config
        self._owned: dict[int, tuple[int, dict[str, TransactionMetadata]]] = {}
        self._next_token = 0
        self.loading: dict[int, int] = {}
        self.pending_appends: dict[int, PendingAppend] = {}

    # ---- ids

    def partition_of(self, transactional_id: str) -> int:
        """Its partition of `__transaction_state`."""
        return partition_for(transactional_id, self._config.num_partitions)

    def find(self, transactional_id: str) -> Entry | ErrorCode | None:
        """The id, None for one that nobody knows, or why this broker cannot say.

        `getAndMaybeAddTransactionState`.
        """
        partition = self.partition_of(transactional_id)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if partition not in self._owned:
            return ErrorCode.NOT_COORDINATOR
        epoch, by_id = self._owned[partition]
        metadata = by_id.get(transactional_id)
        return None if metadata is None else Entry(epoch, metadata)

    def find_under(
        self, transactional_id: str, coordinator_epoch: int
    ) -> TransactionMetadata | ErrorCode:
        """The id, if this broker still coordinates it under that epoch; else why not."""
        found = self.find(transactional_id)
        if isinstance(found, ErrorCode):
            return found
        if found is None or found.coordinator_epoch != coordinator_epoch:
            return ErrorCode.NOT_COORDINATOR
        return found.metadata

    def add(self, transactional_id: str, image: TransactionImage) -> Entry:
        """A new id, in memory only until its first append. The caller owns its partition."""
        epoch, by_id = self._owned[self.partition_of(transactional_id)]
        metadata = TransactionMetadata(transactional_id, image, self._config)
        by_id[transactional_id] = metadata
        return Entry(epoch, metadata)

    @property
    def coordinator_epochs(self) -> Mapping[int, int]:
        """The partitions that are loaded, with the epoch of this coordinator."""
        return {partition: epoch for partition, (epoch, _) in self._owned.items()}

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Every id with its partition, as things stand now."""
        for partition, (epoch, by_id) in list(self._owned.items()):
            for metadata in list(by_id.values()):
                yield partition, Entry(epoch, metadata)

    # ---- leadership

    def elect(self, partition: int, coordinator_epoch: int) -> None:
        """This broker leads the partition: nobody is answered until it is loaded."""
        self._owned.pop(partition, None)
        self.loading[partition] = coordinator_epoch

    def load(
        self,
        partition: int,
        coordinator_epoch: int,
        records: Iterable[tuple[bytes, bytes | None]],
    ) -> list[Entry]:
        """What the log says, in its order; returns the ids. Raises `DecodeError`.

        Nothing happens if the partition is not the one being loaded under this epoch.
        `loadTransactionsForTxnTopicPartition`.
        """
        if self.loading.get(partition) != coordinator_epoch:
            return []
        by_id = _replay(records, self._config)
        self._owned[partition] = (coordinator_epoch, by_id)
        del self.loading[partition]
        return [Entry(coordinator_epoch, metadata) for metadata in by_id.values()]

    def resign(self, partition: int, coordinator_epoch: int | None) -> None:
        """Another broker leads; a call of an epoch that is not this one's comes too late."""
        for known in (self.loading.get(partition), self._owned.get(partition, (None,))[0]):
            if known is not None and coordinator_epoch is not None and coordinator_epoch < known:
                return
        self.loading.pop(partition, None)
        self._owned.pop(partition, None)

    # ---- the log

    def append(
        self,
        purpose: Purpose,
        entry: Entry,
        image: TransactionImage,
        *,
        request: Request = None,
        producer: ProducerIdAndEpoch = NO_PRODUCER,
        commit: bool = False,
    ) -> AppendRecords:
        """Have an image written. It waits as long as its transaction may take.

        `appendTransactionToLog`. Raises `UnwritableImage`.
        """
        transactional_id = entry.metadata.transactional_id
        value = encode_value(image, self._config)
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
        """Have ids forgotten that are pending Dead."""
        records = tuple((encode_key(name), None) for name in transactional_ids)
        timeout_ms = self._config.request_timeout_ms
        append = AppendRecords(
            self._take_token(), partition, coordinator_epoch, transactional_ids, records, timeout_ms
        )
        self.pending_appends[append.token] = PendingAppend(Purpose.EXPIRE, append)
        return append

    def _take_token(self) -> int:
        self._next_token += 1
        return self._next_token

    def appended(self, token: int, error: ErrorCode) -> tuple[PendingAppend, ErrorCode]:
        """An append is over: what it was for, and what its client may hear.

        Raises `KeyError` for a token that was not handed out, or came back before.
        """
        pending = self.pending_appends.pop(token)
        if pending.purpose is Purpose.EXPIRE:
            self._forget(pending.append, error)
            return pending, error
        error = APPEND_ERRORS.get(error, error)
        found = self.find_under(pending.transactional_id, pending.append.coordinator_epoch)
        if isinstance(found, ErrorCode):
            return pending, error or found
        if error and not _is_tried_again(pending, error):
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


def _is_tried_again(pending: PendingAppend, error: ErrorCode) -> bool:
    return pending.purpose is Purpose.COMPLETE and error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def _replay(
    records: Iterable[tuple[bytes, bytes | None]], config: TransactionConfig
) -> dict[str, TransactionMetadata]:
    by_id: dict[str, TransactionMetadata] = {}
    for key, value in records:
        try:
            name = decode_key(key)
        except UnknownRecordVersion:
            continue
        if value is None:
            by_id.pop(name, None)
        else:
            by_id[name] = TransactionMetadata(name, decode_value(value), config)
    return by_id


def is_timed_out(entry: Entry, now_ms: int) -> bool:
    """Whether an open transaction took longer than it may. `timedOutTransactions`."""
    metadata = entry.metadata
    now = metadata.current
    return (
        metadata.pending_state is None
        and now.state is TransactionState.ONGOING
        and now.transaction_timeout_ms != NEVER_TIMES_OUT
        and now.start_timestamp_ms + now.transaction_timeout_ms < now_ms
    )


def is_expired(entry: Entry, now_ms: int, expiration_ms: int) -> bool:
    """Whether nobody used the id for so long. `shouldExpire`."""
    metadata = entry.metadata
    now = metadata.current
    return (
        metadata.pending_state is None
        and now.state in IDLE
        and now.last_update_timestamp_ms <= now_ms - expiration_ms
    )


NEVER_TIMES_OUT: Final = 2147483647
"""The timeout of a two-phase commit transaction (KIP-939)."""
