"""The coordinator of group offsets: commits to batches of `__consumer_offsets`, and fetches.

Five rules:

1. The leader of a group's partition coordinates it. While that partition loads, its groups are
   COORDINATOR_LOAD_IN_PROGRESS; elsewhere, NOT_COORDINATOR.
2. A commit that passes its checks becomes a batch. The state changes when that batch is in the log
   and is passed to `replay`; the same for markers.
3. A transactional commit is one transactional batch with sequence 0; the partition's leader, not
   this module, verifies it and checks its epoch (origin COORDINATOR).
4. A row of a commit fails by itself only because of its metadata; all other errors fail all rows.
5. A fetched answer is valid once the log is replicated up to its `required_offset`.

Theory of operation, as the broker has to call it. OffsetCommit: `commit`; if it returns a batch,
`append_as_coordinator` on the leader of the partition of `partition_of`; then `replay` with the
stored bytes, and the answer when it is replicated; after an error the answer is
`on_append_error`. TxnOffsetCommit: first `find` (an error is the answer), then
`begin_verification` on that leader with sequence -1, and the transaction coordinator; then as
before with `commit_in_transaction` and the guard. WriteTxnMarkers: `write_marker`, then `replay`.
OffsetFetch: `fetch`. DeleteTopics: append and `replay` the batches of `forget_topics`; at intervals
those of `forget_expired`. The caller checks which topics a request may name.
Sources: `GroupCoordinatorService`, `OffsetMetadataManager`, `CoordinatorRuntime`; release 4.3.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.consumer_group_records import encode_group_record, group_tombstones
from impl.coordinator.group_config import OffsetsConfig
from impl.coordinator.group_records import encode_group_key
from impl.coordinator.offset_expiration import ExpiredGroup, find_expired
from impl.coordinator.offsets_groups import (
    SIMPLE_GROUP,
    Committer,
    GroupMembers,
    check_committer,
    check_epoch_committer,
    check_fetcher,
)
from impl.coordinator.offsets_records import (
    NO_EXPIRY,
    NO_LEADER_EPOCH,
    NO_METADATA,
    CommittedOffset,
    OffsetKey,
    encode_key,
    encode_value,
)
from impl.coordinator.offsets_state import GroupOffsets, OffsetsView
from impl.coordinator.placement import LOG_ERRORS, partition_for
from impl.coordinator.tombstones import chunks
from impl.protocol.errors import ErrorCode
from impl.protocol.primitives import ZERO_UUID
from impl.protocol.record_batch import (
    INVALID_OFFSET,
    TRANSACTIONAL,
    Record,
    RecordBatch,
    decode_batch,
    encode_batch,
)

_E = ErrorCode

ANY_VERSION: Final = 32_767
"""For requests whose errors do not depend on their version."""
GROUP_ID_NOT_FOUND_FROM: Final = 9
"""The first OffsetCommit version with this error; older ones get ILLEGAL_GENERATION."""
LOADING_FROM: Final = 2
"""The first TxnOffsetCommit version whose clients handle COORDINATOR_LOAD_IN_PROGRESS."""

DEFAULT_RETENTION: Final = -1
DEFAULT_TIMESTAMP: Final = -1
MINUTE_MS: Final = 60_000
TOMBSTONE_BATCH_BYTES: Final = 16_384
"""Of keys: more tombstones are several batches, as a log takes none that is too large."""

_LONG: Final = 1 << 63
_PLAIN: Final = RecordBatch(())


APPEND_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = MappingProxyType(
    {**LOG_ERRORS, _E.NETWORK_EXCEPTION: _E.COORDINATOR_LOAD_IN_PROGRESS}
)
"""The answer to a client for an error of verification or of the log; other errors stay.
`CoordinatorOperationExceptionHelper`."""

_TOO_LARGE: Final = frozenset((_E.MESSAGE_TOO_LARGE, _E.RECORD_LIST_TOO_LARGE))


class OffsetToCommit(NamedTuple):
    """One row of a commit; `commit_timestamp_ms` is only in OffsetCommit 1.

    Members of consumer groups are held to the partitions that they have by `topic_id`.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None
    commit_timestamp_ms: int = DEFAULT_TIMESTAMP
    topic_id: bytes = ZERO_UUID


class RowError(NamedTuple):
    """The answer to one row of a commit."""

    topic: str
    partition: int
    error: ErrorCode


class CommitDecision(NamedTuple):
    """The answer to a commit, valid if its batch, if it has one, is appended."""

    rows: tuple[RowError, ...]
    batch: bytes | None = None


class FetchedOffset(NamedTuple):
    """The answer to one partition of a fetch; offset and epoch are -1 for none."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    offset: int = INVALID_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = NO_METADATA


class FetchedOffsets(NamedTuple):
    """The answer to a fetch: an error for the group, or its rows.

    The answer may be sent when the partition's high watermark reaches `required_offset`.
    """

    error: ErrorCode
    rows: tuple[FetchedOffset, ...] = ()
    required_offset: int = INVALID_OFFSET


class Tombstones(NamedTuple):
    """A batch for this partition of `__consumer_offsets`."""

    partition: int
    batch: bytes


class Expired(NamedTuple):
    """Tombstones of what has expired, and the group that goes with them, if one does."""

    tombstones: Tombstones
    group_id: str | None


class OffsetsCoordinator:
    """The group offsets of one broker: see the rules above.

    Writable: `members` (by group id), `is_active` (false until the broker has started, and when it
    stops). Read-only: `partitions` (that it leads; None while one loads), `config`.
    """

    __slots__ = ("config", "is_active", "members", "partitions")

    def __init__(self, config: OffsetsConfig | None = None) -> None:
        self.config = config or OffsetsConfig()
        self.members: dict[str, GroupMembers] = {}
        self.partitions: dict[int, GroupOffsets | None] = {}
        self.is_active = True

    def view(self) -> tuple[tuple[int, OffsetsView | None], ...]:
        """The partitions as a value, by number; None for one that loads."""
        return tuple(
            (partition, None if offsets is None else offsets.view())
            for partition, offsets in sorted(self.partitions.items(), key=itemgetter(0))
        )

    # ---- leadership

    def begin_loading(self, partition: int) -> None:
        """This broker leads the partition, which is loaded next."""
        self.partitions[partition] = None

    def load(self, partition: int, batches: Iterable[bytes]) -> None:
        """Load the partition's batches. Raises `DecodeError`; it is still loading then."""
        offsets = GroupOffsets()
        for data in batches:
            offsets.replay(decode_batch(data))
        self.partitions[partition] = offsets

    def resign(self, partition: int) -> None:
        """This broker does not lead the partition any more."""
        self.partitions.pop(partition, None)

    def replay(self, partition: int, data: bytes) -> None:
        """Apply an appended batch or marker. Does nothing unless the partition is loaded here.

        Raises `DecodeError`.
        """
        offsets = self.partitions.get(partition)
        if offsets is not None:
            offsets.replay(decode_batch(data))

    def has_loaded(self, partition: int) -> bool:
        """Whether this broker coordinates the partition, and has loaded it."""
        return self.partitions.get(partition) is not None

    # ---- lookup

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds the group."""
        return partition_for(group_id, self.config.num_partitions)

    def find(self, group_id: str | None, *, may_be_empty: bool) -> GroupOffsets | ErrorCode:
        """The offsets of the group's partition, or the error."""
        if not self.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if group_id is None or (group_id == "" and not may_be_empty):
            return ErrorCode.INVALID_GROUP_ID
        partition = self.partition_of(group_id)
        if partition not in self.partitions:
            return ErrorCode.NOT_COORDINATOR
        offsets = self.partitions[partition]
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if offsets is None else offsets

    def _group(self, offsets: GroupOffsets, group_id: str) -> GroupMembers | None:
        simple = SIMPLE_GROUP if group_id in offsets.groups else None
        return self.members.get(group_id, simple)

    # ---- commits

    def commit(
        self,
        group_id: str | None,
        committer: Committer,
        rows: Sequence[OffsetToCommit],
        *,
        now_ms: int,
        api_version: int = ANY_VERSION,
        retention_time_ms: int = DEFAULT_RETENTION,
    ) -> CommitDecision:
        """OffsetCommit; `retention_time_ms` is of versions 2 to 4. `commitOffset`."""
        unknown = ErrorCode.GROUP_ID_NOT_FOUND
        if api_version < GROUP_ID_NOT_FOUND_FROM:
            unknown = ErrorCode.ILLEGAL_GENERATION
        found = self.find(group_id, may_be_empty=True)
        error = self._check(
            found, group_id, committer, rows, unknown, api_version, is_transactional=False
        )
        if error or group_id is None:
            return _answer_all(rows, error)
        expiry = NO_EXPIRY
        if retention_time_ms != DEFAULT_RETENTION:
            # QUIRK: an infinite retention is expired at once, because Java's long wraps.
            expiry = (now_ms + retention_time_ms + _LONG) % (2 * _LONG) - _LONG
        return self._decide(group_id, rows, _PLAIN, now_ms, expiry)

    def commit_in_transaction(
        self,
        group_id: str | None,
        committer: Committer,
        rows: Sequence[OffsetToCommit],
        *,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        api_version: int = ANY_VERSION,
    ) -> CommitDecision:
        """TxnOffsetCommit, once it is verified. `commitTransactionalOffset`."""
        unknown = ErrorCode.ILLEGAL_GENERATION
        found = self.find(group_id, may_be_empty=False)
        error = self._check(
            found, group_id, committer, rows, unknown, api_version, is_transactional=True
        )
        if error or group_id is None:
            return _answer_all(rows, _error_for_version(error, api_version))
        header = RecordBatch(
            (),
            attributes=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        return self._decide(group_id, rows, header, now_ms, NO_EXPIRY)

    def on_append_error(
        self, rows: Sequence[RowError], error: ErrorCode, *, txn_version: int = ANY_VERSION
    ) -> tuple[RowError, ...]:
        """The answer if a commit's batch was not verified or not appended.

        `txn_version` is the version of a TxnOffsetCommit.
        """
        answer = self.config.size_error if error in _TOO_LARGE else APPEND_ERRORS.get(error, error)
        answer = _error_for_version(answer, txn_version)
        return tuple(RowError(topic, partition, answer) for topic, partition, _ in rows)

    def _check(
        self,
        found: GroupOffsets | ErrorCode,
        group_id: str | None,
        committer: Committer,
        rows: Sequence[OffsetToCommit],
        unknown: ErrorCode,
        api_version: int,
        *,
        is_transactional: bool,
    ) -> ErrorCode:
        """`validateOffsetCommit`, `validateTransactionalOffsetCommit`."""
        if isinstance(found, ErrorCode) or group_id is None:
            return found if isinstance(found, ErrorCode) else ErrorCode.INVALID_GROUP_ID
        consumers = found.consumer_groups.get(group_id)
        if consumers is not None:
            places = [(row.topic_id, row.partition) for row in rows]
            return check_epoch_committer(
                consumers, committer, places, api_version, is_transactional=is_transactional
            )
        group = self._group(found, group_id)
        if group is None:
            return unknown if committer.generation_id >= 0 else ErrorCode.NONE
        return check_committer(group, committer, is_transactional=is_transactional)

    def _decide(
        self,
        group_id: str,
        rows: Sequence[OffsetToCommit],
        header: RecordBatch,
        now_ms: int,
        expire_timestamp_ms: int,
    ) -> CommitDecision:
        """The answers, and the batch of the rows whose metadata is short enough."""
        answers: list[RowError] = []
        records: list[Record] = []
        for row in rows:
            is_long = self._is_too_long(row.metadata)
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE if is_long else ErrorCode.NONE
            answers.append(RowError(row.topic, row.partition, error))
            if not is_long:
                key = OffsetKey(group_id, row.topic, row.partition)
                committed = _to_committed_offset(row, now_ms, expire_timestamp_ms)
                value = encode_value(committed, self.config.value_version)
                records.append(Record(len(records), now_ms, encode_key(key), value))
        batch = encode_commit(records, now_ms, header) if records else None
        return CommitDecision(tuple(answers), batch)

    def _is_too_long(self, metadata: str | None) -> bool:
        units = len((metadata or "").encode("utf-16-le", "surrogatepass")) // 2
        return units > self.config.offset_metadata_max_bytes

    # ---- what goes: deleted topics, groups and offsets, and what has expired

    def forget_topics(self, topics: Collection[str], *, now_ms: int) -> tuple[Tombstones, ...]:
        """Tombstones for the offsets of deleted topics, pending ones too.

        `OffsetMetadataManager.onTopicsDeleted`.
        """
        found: list[Tombstones] = []
        for partition, offsets in self.partitions.items():
            keys = [] if offsets is None else offsets.keys(lambda key: key.topic in topics)
            batches = _batches_of(map(encode_key, keys), now_ms)
            found += (Tombstones(partition, batch) for batch in batches)
        return tuple(found)

    def forget_expired(
        self, classic: Mapping[str, ClassicGroup], *, now_ms: int
    ) -> tuple[Expired, ...]:
        """Tombstones for what has expired, group by group; `classic` are those that were joined.

        `GroupCoordinatorShard.cleanupGroupMetadata`.
        """
        retention_ms = self.config.retention_minutes * MINUTE_MS
        found: list[Expired] = []
        for partition, offsets in self.partitions.items():
            if offsets is not None:
                for gone in find_expired(offsets, classic, now_ms, retention_ms):
                    found += _expire(partition, offsets, gone, now_ms)
        return tuple(found)

    def forget_group(self, group_id: str, *, now_ms: int) -> Tombstones:
        """Tombstones for a group without members, and for all its offsets. `deleteGroup`."""
        offsets = self.find(group_id, may_be_empty=True)
        assert isinstance(offsets, GroupOffsets), "the caller has found the group"
        keys = [encode_key(key) for key in offsets.keys(lambda key: key.group_id == group_id)]
        keys += _group_keys(offsets, group_id)
        return Tombstones(self.partition_of(group_id), _tombstones(keys, now_ms))

    def forget_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]], *, now_ms: int
    ) -> Tombstones | None:
        """Tombstones for those of these offsets that there are. `deleteOffsets`."""
        offsets = self.find(group_id, may_be_empty=True)
        assert isinstance(offsets, GroupOffsets), "the caller has found the group"
        wanted = {OffsetKey(group_id, *place) for place in partitions}
        keys = offsets.keys(wanted.__contains__)
        if not keys:
            return None
        batch = _tombstones(list(map(encode_key, keys)), now_ms)
        return Tombstones(self.partition_of(group_id), batch)

    # ---- fetches

    def fetch(
        self,
        group_id: str | None,
        partitions: Iterable[tuple[str, int]] | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> FetchedOffsets:
        """OffsetFetch for one group; None for all partitions with an offset.

        A member of a consumer group is held to its epoch (versions 9 and later). With
        `require_stable` (versions 7 and later) pending offsets are UNSTABLE_OFFSET_COMMIT
        (KIP-447). `fetchOffsets`, `fetchAllOffsets`.
        """
        found = self.find(group_id, may_be_empty=True)
        if isinstance(found, ErrorCode) or group_id is None:
            return FetchedOffsets(
                found if isinstance(found, ErrorCode) else ErrorCode.INVALID_GROUP_ID
            )
        consumers = found.consumer_groups.get(group_id)
        if consumers is not None:
            error = check_fetcher(consumers, member_id, member_epoch)
            if error:
                return FetchedOffsets(error)
        offsets = GroupOffsets() if self._group(found, group_id) is None else found
        keys = (
            sorted(key for key in offsets.committed if key.group_id == group_id)
            if partitions is None
            else [OffsetKey(group_id, topic, partition) for topic, partition in partitions]
        )
        rows = tuple(_fetch_row(offsets, key, require_stable=require_stable) for key in keys)
        return FetchedOffsets(ErrorCode.NONE, rows, found.next_offset)


def _fetch_row(offsets: GroupOffsets, key: OffsetKey, *, require_stable: bool) -> FetchedOffset:
    if require_stable and offsets.has_pending(key):
        return FetchedOffset(key.topic, key.partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = offsets.committed.get(key)
    if committed is None:
        return FetchedOffset(key.topic, key.partition)
    return FetchedOffset(
        key.topic,
        key.partition,
        ErrorCode.NONE,
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
    )


def _to_committed_offset(
    row: OffsetToCommit, now_ms: int, expire_timestamp_ms: int
) -> CommittedOffset:
    """`OffsetAndMetadata.fromRequest`."""
    is_default = row.commit_timestamp_ms == DEFAULT_TIMESTAMP
    return CommittedOffset(
        row.offset,
        row.leader_epoch,
        row.metadata or NO_METADATA,
        now_ms if is_default else row.commit_timestamp_ms,
        expire_timestamp_ms,
    )


def encode_commit(records: Sequence[Record], now_ms: int, header: RecordBatch = _PLAIN) -> bytes:
    """A coordinator's batch, with sequence 0, transactional or not. `CoordinatorRuntime`."""
    batch = header._replace(
        records=tuple(records),
        last_offset_delta=len(records) - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        base_sequence=0,
    )
    return encode_batch(batch)


def _expire(
    partition: int, offsets: GroupOffsets, gone: ExpiredGroup, now_ms: int
) -> Iterator[Expired]:
    """The group goes with the last of the batches."""
    keys = [encode_key(key) for key in gone.offsets]
    keys += _group_keys(offsets, gone.group_id) if gone.is_dead else []
    *before, last = (Tombstones(partition, batch) for batch in _batches_of(keys, now_ms))
    yield from (Expired(tombstones, None) for tombstones in before)
    yield Expired(last, gone.group_id if gone.is_dead else None)


def _group_keys(offsets: GroupOffsets, group_id: str) -> list[bytes]:
    """The keys of a group's own records."""
    consumers = offsets.consumer_groups.get(group_id)
    if consumers is None:
        return [encode_group_key(group_id)]
    return [encode_group_record(group_id, gone)[0] for gone in group_tombstones(consumers)]


def _batches_of(keys: Iterable[bytes], now_ms: int) -> Iterator[bytes]:
    for each in chunks(keys, TOMBSTONE_BATCH_BYTES, key_size=len):
        yield _tombstones(each, now_ms)


def _tombstones(keys: Sequence[bytes], now_ms: int) -> bytes:
    rows = [Record(n, now_ms, key, None) for n, key in enumerate(keys)]
    return encode_commit(rows, now_ms)


def _answer_all(rows: Sequence[OffsetToCommit], error: ErrorCode) -> CommitDecision:
    return CommitDecision(tuple(RowError(row.topic, row.partition, error) for row in rows))


def _error_for_version(error: ErrorCode, txn_version: int) -> ErrorCode:
    """Old producers do not handle COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and txn_version < LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
