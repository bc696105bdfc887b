"""The requests of a transactional producer, and what it does about each answer to them.

1. What an error code means to the producer stands in `ANSWERS`, a row a code and a column an API;
   what is not in it is retried if it is retriable, and else `OTHERWISE`.
2. At most one of these requests is open at any time; `Priority` says which goes next.
3. A call of the application has one `CallResult`; its first outcome is the one that stands.

Source: `TransactionManager.TxnRequestHandler` and its subclasses, Kafka 4.3.1; KIP-98, KIP-360,
KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from impl.producer.batch import TopicPartition
from impl.producer.errors import ConfigError, DeliveryError
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import CoordinatorType
from impl.protocol.schemas import ApiKey

Body = dict[str, Any]
"""A message as `impl.protocol.messages` reads and writes it."""

ADD_PARTITIONS_RETRY_BACKOFF_MS: Final = 20
"""The first AddPartitionsToTxn of a transaction waits only for the markers of the last one."""


class Priority(IntEnum):
    """What goes first of several requests that wait. `TransactionManager.Priority`."""

    FIND_COORDINATOR = 0
    INIT_PRODUCER_ID = 1
    ADD_PARTITIONS_OR_OFFSETS = 2
    END_TXN = 3
    EPOCH_BUMP = 4


class Then(Enum):
    """What the producer does about an answer."""

    GO_ON = "go on"
    RETRY = "retry after retry_backoff_ms"
    RETRY_SOON = "retry after 20 ms if nothing is in the transaction yet"
    LOOK_UP = "find the coordinator again, then retry"
    ABORT = "abortable error"
    ABORT_AND_BUMP = "abortable error and a new epoch if the coordinator can give one, else fatal"
    ABORT_UNLESS_ABORTING = "abortable error, fatal where the answer is to an abort"
    DEAUTHORIZE = "abortable error, then as before the first InitProducerId"
    LEAVE_GROUP = "abortable error: the consumer is no member of this generation"
    FENCE = "fatal: a newer producer has this transactional id"
    FAIL = "fatal error"


_COLUMNS: Final = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.FIND_COORDINATOR,
)
_E = ErrorCode
_NO_COORDINATOR = (*[Then.LOOK_UP] * 5, Then.RETRY)
_FENCED = (*[Then.FENCE] * 5, Then.FAIL)
_FATAL = (Then.FAIL,) * 6
_NOT_A_MEMBER = (Then.FAIL, Then.ABORT, Then.FAIL, Then.LEAVE_GROUP, Then.FAIL, Then.FAIL)
_ROWS: Final[Mapping[ErrorCode, tuple[Then, ...]]] = {
    _E.NONE: (Then.GO_ON,) * 6,
    _E.COORDINATOR_NOT_AVAILABLE: _NO_COORDINATOR,
    _E.NOT_COORDINATOR: _NO_COORDINATOR,
    _E.REQUEST_TIMED_OUT: (*[Then.RETRY] * 3, Then.LOOK_UP, Then.RETRY, Then.RETRY),
    _E.CONCURRENT_TRANSACTIONS: (Then.RETRY, Then.RETRY_SOON, *[Then.RETRY] * 4),
    _E.INVALID_PRODUCER_EPOCH: _FENCED,
    _E.PRODUCER_FENCED: _FENCED,
    _E.INVALID_PRODUCER_ID_MAPPING: _FATAL,
    _E.INVALID_TXN_STATE: _FATAL,
    _E.UNKNOWN_PRODUCER_ID: (
        Then.FAIL,
        Then.ABORT_AND_BUMP,
        Then.ABORT_AND_BUMP,
        Then.FAIL,
        Then.ABORT_AND_BUMP,
        Then.FAIL,
    ),
    _E.TRANSACTION_ABORTABLE: (*[Then.ABORT] * 4, Then.ABORT_UNLESS_ABORTING, Then.ABORT),
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (Then.DEAUTHORIZE, *[Then.FAIL] * 5),
    _E.CLUSTER_AUTHORIZATION_FAILED: (Then.DEAUTHORIZE, Then.ABORT, *[Then.FAIL] * 4),
    _E.GROUP_AUTHORIZATION_FAILED: (
        Then.FAIL,
        Then.ABORT,
        Then.ABORT,
        Then.ABORT,
        Then.FAIL,
        Then.ABORT,
    ),
    _E.FENCED_INSTANCE_ID: (Then.FAIL, Then.ABORT, Then.FAIL, Then.ABORT, Then.FAIL, Then.FAIL),
    _E.UNKNOWN_MEMBER_ID: _NOT_A_MEMBER,
    _E.ILLEGAL_GENERATION: _NOT_A_MEMBER,
}

ANSWERS: Final[Mapping[tuple[ApiKey, ErrorCode], Then]] = MappingProxyType(
    {
        (api_key, error): then
        for error, row in _ROWS.items()
        for api_key, then in zip(_COLUMNS, row, strict=True)
    }
)
"""(API, error) to what is done about it, as the client of 4.x has it."""

OTHERWISE: Final[Mapping[ApiKey, Then]] = MappingProxyType(
    dict.fromkeys(_COLUMNS, Then.FAIL) | {ApiKey.ADD_PARTITIONS_TO_TXN: Then.ABORT}
)
"""What is done about an error that has no row and is not retriable."""


def then_for(api_key: ApiKey, error: ErrorCode) -> Then:
    """What is done about this answer."""
    found = ANSWERS.get((api_key, error))
    if found is not None:
        return found
    return Then.RETRY if error.is_retriable else OTHERWISE[api_key]


class GroupMetadata(NamedTuple):
    """The consumer whose offsets are committed; alone, `group_id` is a consumer without a group.

    `ConsumerGroupMetadata`, KIP-447.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


NO_GROUP: Final = GroupMetadata("")


class OffsetAndMetadata(NamedTuple):
    """The offset of the next record to be read; -1 for a leader epoch that is not known."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class CallResult:
    """What became of a call of the application: `done`, and then `error` is None or says why not.

    `is_acknowledged`: the caller has been told, with `acknowledge`. `TransactionalRequestResult`.
    """

    __slots__ = ("done", "error", "is_acknowledged")

    def __init__(self) -> None:
        self.done = False
        self.error: DeliveryError | None = None
        self.is_acknowledged = False

    def succeed(self) -> None:
        """The call has done what it should."""
        self.done = True

    def fail(self, error: DeliveryError) -> None:
        """The call has failed, unless it has ended before."""
        if not self.done:
            self.done, self.error = True, error

    def acknowledge(self) -> None:
        """The caller hears of the end. Raises the call's error."""
        assert self.done, "a call is acknowledged once it has ended"
        self.is_acknowledged = True
        if self.error is not None:
            raise self.error


@dataclass(slots=True, eq=False)
class TxnRequest:
    """One request, before, during and between its attempts.

    `coordinator` is whom it goes to (None: any node) and `key` that coordinator's key, or the one
    of the coordinator that it `looks_up`; `not_before_ms` is set by an attempt that failed;
    `offsets` are those of a TxnOffsetCommit that are not acknowledged, of `group`.
    """

    api_key: ApiKey
    api_version: int
    priority: Priority
    coordinator: CoordinatorType | None
    key: str
    body: Body
    result: CallResult
    not_before_ms: int = 0
    is_epoch_bump: bool = False
    looks_up: CoordinatorType | None = None
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    group: GroupMetadata = NO_GROUP


NEWEST: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.PRODUCE: 12,
        ApiKey.FIND_COORDINATOR: 6,
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.ADD_PARTITIONS_TO_TXN: 3,
        ApiKey.ADD_OFFSETS_TO_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 5,
        ApiKey.END_TXN: 5,
    }
)
"""The newest versions that this producer sends. AddPartitionsToTxn 4 and 5 are the brokers' own."""

NEWEST_IN_V1: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4}
)
"""Requests V1 stop here: the next version of each would make the broker speak V2."""

OLDEST: Final[Mapping[ApiKey, int]] = MappingProxyType(
    dict.fromkeys(NEWEST, 0) | {ApiKey.PRODUCE: 3}
)

BUMP_SINCE: Final = 3
"""InitProducerId of this version takes the producer's id and epoch, and bumps. KIP-360."""


@dataclass(frozen=True, slots=True)
class RequestVersions:
    """The newest version of each API that the cluster and this producer have in common."""

    newest: Mapping[ApiKey, int] = field(default_factory=lambda: NEWEST)

    @classmethod
    def of(cls, served: Mapping[int, tuple[int, int]]) -> RequestVersions:
        """From an ApiVersions answer: api key to (oldest, newest) version.

        Raises `ConfigError` if the cluster lacks what a transaction needs.
        """
        newest = {}
        for api_key, mine in NEWEST.items():
            first, last = served.get(api_key, (0, -1))
            newest[api_key] = min(mine, last)
            if newest[api_key] < max(first, OLDEST[api_key]):
                is_served = f"served from {first} to {last}" if last >= 0 else "not served"
                spoken = f"this producer speaks {OLDEST[api_key]} to {mine}"
                what = f"{api_key.name} is {is_served}, {spoken}: upgrade one of them"
                raise ConfigError("transactional_id", what)
        return cls(MappingProxyType(newest))

    def of_api(self, api_key: ApiKey, is_v2: bool) -> int:
        """The version to send, in requests V2 or V1."""
        newest = self.newest[api_key]
        return newest if is_v2 else min(newest, NEWEST_IN_V1.get(api_key, newest))

    @property
    def supports_bump(self) -> bool:
        """Whether the coordinator gives a new epoch to a producer that asks for it."""
        return self.newest[ApiKey.INIT_PRODUCER_ID] >= BUMP_SINCE


def topics_of(partitions: Iterable[TopicPartition]) -> list[Body]:
    """Rows of AddPartitionsToTxn."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [{"name": name, "partitions": indexes} for name, indexes in topics.items()]


def offset_rows(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Body]:
    """Rows of TxnOffsetCommit."""
    topics: dict[str, list[Body]] = {}
    for (topic, partition), committed in offsets.items():
        row: Body = {
            "partition_index": partition,
            "committed_offset": committed.offset,
            "committed_leader_epoch": committed.leader_epoch,
            "committed_metadata": committed.metadata,
        }
        topics.setdefault(topic, []).append(row)
    return [{"name": name, "partitions": rows} for name, rows in topics.items()]
