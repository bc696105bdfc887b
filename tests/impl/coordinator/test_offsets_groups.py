"""Group offsets: who may commit, and where; what a load finds; histories."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from impl.coordinator.classic_group import ClassicGroup
from impl.coordinator.group_records import encode_group, encode_group_key
from impl.coordinator.offsets import (
    APPEND_ERRORS,
    CommitDecision,
    OffsetsCoordinator,
    OffsetToCommit,
    RowError,
    encode_commit,
)
from impl.coordinator.offsets_groups import Committer, GroupMembers, GroupState
from impl.coordinator.offsets_records import (
    CommittedOffset,
    OffsetKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from impl.coordinator.offsets_state import GroupOffsets
from impl.protocol.control_records import ControlType
from impl.protocol.errors import DecodeError, ErrorCode, InvalidRecord
from impl.protocol.record_batch import (
    Record,
    RecordBatch,
    encode_batch,
)
from tests.impl.coordinator.shard import ABORT, COMMIT, NOBODY, NONE, NOW_MS, UNSTABLE, Shard

pytestmark = pytest.mark.slow  # thousands of generated steps

ILLEGAL_GENERATION = ErrorCode.ILLEGAL_GENERATION
UNKNOWN_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID


# who may commit

MEMBERS = frozenset({"m", "s"})


def group(state: GroupState) -> GroupMembers:
    return GroupMembers(state, 4, MEMBERS, {"i": "s"})


EMPTY, STABLE = GroupMembers(generation_id=4), group(GroupState.STABLE)
COMPLETING = group(GroupState.COMPLETING_REBALANCE)
FENCED_INSTANCE = ErrorCode.FENCED_INSTANCE_ID
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
MEMBER = Committer(4, "m")
COMMITTERS = [
    # group, who: what a plain commit, what a transactional one earns
    (EMPTY, NOBODY, NONE, NONE),
    (EMPTY, Committer(-1, "x", "i"), NONE, NONE),
    (EMPTY, MEMBER, UNKNOWN_MEMBER, UNKNOWN_MEMBER),
    (STABLE, MEMBER, NONE, NONE),
    (STABLE, NOBODY, UNKNOWN_MEMBER, NONE),
    (STABLE, Committer(3, "m"), ILLEGAL_GENERATION, ILLEGAL_GENERATION),
    (STABLE, Committer(5, "m"), ILLEGAL_GENERATION, ILLEGAL_GENERATION),
    (STABLE, Committer(-1, "m"), ILLEGAL_GENERATION, ILLEGAL_GENERATION),
    (STABLE, Committer(4, "x"), UNKNOWN_MEMBER, UNKNOWN_MEMBER),
    (STABLE, Committer(4, ""), UNKNOWN_MEMBER, UNKNOWN_MEMBER),
    (STABLE, Committer(4, "s", "i"), NONE, NONE),
    (STABLE, Committer(4, "m", "i"), FENCED_INSTANCE, FENCED_INSTANCE),
    (STABLE, Committer(3, "m", "i"), FENCED_INSTANCE, FENCED_INSTANCE),
    (STABLE, Committer(4, "m", "j"), UNKNOWN_MEMBER, UNKNOWN_MEMBER),
    (STABLE, Committer(-1, "", "i"), FENCED_INSTANCE, FENCED_INSTANCE),
    (COMPLETING, MEMBER, REBALANCING, NONE),
    (COMPLETING, Committer(3, "m"), ILLEGAL_GENERATION, ILLEGAL_GENERATION),
    (COMPLETING, NOBODY, UNKNOWN_MEMBER, NONE),
    (group(GroupState.PREPARING_REBALANCE), MEMBER, NONE, NONE),
]


@pytest.mark.parametrize("row", COMMITTERS, ids=lambda row: f"{row[0].state.value}-{row[1]}")
def test_who_may_commit(row: tuple[GroupMembers, Committer, ErrorCode, ErrorCode]) -> None:
    members, who, plain, transactional = row
    shard = Shard()
    shard.coordinator.members["g"] = members
    before = shard.offsets.view()
    assert shard.commit(5, who=who) == plain
    assert (shard.offsets.view() == before) == bool(plain)
    before = shard.offsets.view()
    assert shard.commit_in_transaction(6, who=who) == transactional
    assert (shard.offsets.view() == before) == bool(transactional)


def test_an_unknown_group_accepts_no_generation() -> None:
    coordinator = Shard().coordinator
    rows = [OffsetToCommit("t", 0, 5)]
    for version, error in ((9, ErrorCode.GROUP_ID_NOT_FOUND), (8, ILLEGAL_GENERATION)):
        refused = coordinator.commit("g", MEMBER, rows, now_ms=NOW_MS, api_version=version)
        assert refused == CommitDecision((RowError("t", 0, error),))
    refused = coordinator.commit_in_transaction(
        "g", MEMBER, rows, producer_id=1, producer_epoch=0, now_ms=NOW_MS
    )
    assert refused == CommitDecision((RowError("t", 0, ILLEGAL_GENERATION),))
    anyone = coordinator.commit("g", Committer(-1, "x"), rows, now_ms=NOW_MS)
    assert anyone.batch is not None


def test_a_simple_group_has_no_members() -> None:
    shard = Shard()
    shard.commit_in_transaction(5)
    shard.mark(ABORT)
    assert shard.commit(6, who=MEMBER) == UNKNOWN_MEMBER


# where it is not coordinated


def test_loading_elsewhere_and_not_running() -> None:
    shard = Shard()
    coordinator, rows = shard.coordinator, [OffsetToCommit("t", 0, 5)]

    def told() -> tuple[ErrorCode, ErrorCode, ErrorCode, ErrorCode]:
        def transactional(version: int) -> ErrorCode:
            decision = coordinator.commit_in_transaction(
                "g",
                NOBODY,
                rows,
                producer_id=1,
                producer_epoch=0,
                now_ms=NOW_MS,
                api_version=version,
            )
            assert (decision.batch is None) == bool(decision.rows[0].error)
            return decision.rows[0].error

        plain = coordinator.commit("g", NOBODY, rows, now_ms=NOW_MS).rows[0].error
        fetched = coordinator.fetch("g", None, require_stable=False).error
        return plain, transactional(2), transactional(1), fetched

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert told() == (NONE,) * 4
    coordinator.begin_loading(0)
    coordinator.replay(0, b"not looked at: the load will read it")
    assert told() == (loading, loading, NOT_AVAILABLE, loading)
    coordinator.resign(0)
    assert told() == (elsewhere,) * 4
    coordinator.is_active = False
    assert told() == (NOT_AVAILABLE,) * 4


def test_group_ids() -> None:
    coordinator = Shard().coordinator
    rows = [OffsetToCommit("t", 0, 5)]
    invalid = ErrorCode.INVALID_GROUP_ID

    def transactional(group_id: str | None) -> ErrorCode:
        decision = coordinator.commit_in_transaction(
            group_id, NOBODY, rows, producer_id=1, producer_epoch=0, now_ms=NOW_MS
        )
        return decision.rows[0].error

    assert coordinator.commit(None, NOBODY, rows, now_ms=NOW_MS).rows[0].error == invalid
    assert coordinator.commit("", NOBODY, rows, now_ms=NOW_MS).rows[0].error == NONE
    assert (transactional(None), transactional("")) == (invalid, invalid)
    assert coordinator.fetch(None, None, require_stable=False).error == invalid
    assert coordinator.fetch("", None, require_stable=False).error == NONE


def test_errors_of_the_log_have_names_of_the_coordinators() -> None:
    coordinator = OffsetsCoordinator()
    rows = (RowError("t", 0, NONE), RowError("t", 1, ErrorCode.OFFSET_METADATA_TOO_LARGE))

    def told(error: ErrorCode, **how: int) -> set[ErrorCode]:
        return {row.error for row in coordinator.on_append_error(rows, error, **how)}

    for error, meant in APPEND_ERRORS.items():
        assert told(error) == {meant}
    assert told(ErrorCode.NETWORK_EXCEPTION, txn_version=1) == {NOT_AVAILABLE}
    assert told(ErrorCode.MESSAGE_TOO_LARGE) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    for error in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_ABORTABLE):
        assert told(error) == {error}


def test_a_group_belongs_to_one_partition() -> None:
    coordinator = OffsetsCoordinator()
    assert coordinator.partition_of("my-group") == 12
    coordinator.load(12, ())
    assert coordinator.fetch("my-group", None, require_stable=False).error == NONE
    assert coordinator.fetch("x", None, require_stable=False).error == ErrorCode.NOT_COORDINATOR
    coordinator.begin_loading(3)
    assert coordinator.view() == ((3, None), (12, GroupOffsets().view()))


# loading


def test_records_of_other_kinds_are_skipped() -> None:
    shard = Shard()
    share_group = Record(0, NOW_MS, b"\0\x0b\0\1g", b"anything")
    shard.coordinator.load(0, [encode_batch(RecordBatch((share_group,)))])
    assert shard.offsets.view() == GroupOffsets().view()
    assert shard.offsets.next_offset == 1


def test_a_record_of_members_makes_a_group_and_its_tombstone_ends_it() -> None:
    shard = Shard()
    key = encode_group_key("g")
    group = Record(0, NOW_MS, key, encode_group(ClassicGroup("g")))
    shard.coordinator.load(0, [encode_batch(RecordBatch((group,)))])
    assert shard.offsets.view().groups == ("g",)
    shard.coordinator.replay(0, encode_commit([Record(0, NOW_MS, key, None)], NOW_MS))
    assert shard.offsets.view().groups == ()
    assert shard.offsets.stored_groups == {}


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (Record(0, 0, None, b""), InvalidRecord),
        (Record(0, 0, b"\0", b""), DecodeError),
        (Record(0, 0, encode_key(OffsetKey("g", "t", 0)), b"\0\3\0"), DecodeError),
        (Record(0, 0, encode_key(OffsetKey("g", "t", 0)), b"\0\7\0"), DecodeError),
    ],
)
def test_a_load_that_fails_is_named_and_goes_on(record: Record, error: type[DecodeError]) -> None:
    shard = Shard()
    shard.coordinator.begin_loading(0)
    with pytest.raises(error):
        shard.coordinator.load(0, [encode_batch(RecordBatch((record,)))])
    assert shard.coordinator.partitions == {0: None}


@pytest.mark.parametrize("version", range(5))
def test_values_of_all_versions_are_read(version: int) -> None:
    rest = {
        0: "000000000000000500016d0000000000000007",
        1: "000000000000000500016d00000000000000070000000000000009",
        2: "000000000000000500016d0000000000000007",
        3: "00000000000000050000000100016d0000000000000007",
        4: "000000000000000500000001026d000000000000000700",
    }
    value = version.to_bytes(2, "big") + bytes.fromhex(rest[version])
    epoch, expiry = (1 if version >= 3 else -1), (9 if version == 1 else -1)
    assert decode_value(value, 11) == CommittedOffset(5, epoch, "m", 7, expiry, 11)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(
    key=st.builds(OffsetKey, NAMES, NAMES, st.integers(0, 9)),
    value=st.tuples(st.integers(0, 1 << 62), st.integers(-1, 9), NAMES, st.integers(-1, 9)),
)
def test_what_is_written_is_read(key: OffsetKey, value: tuple[int, int, str, int]) -> None:
    committed = CommittedOffset(*value)
    assert decode_key(encode_key(key)) == key
    assert decode_value(encode_value(committed), -1) == committed


class Histories(RuleBasedStateMachine):
    """Commits of two groups, plain and of two producers; `order` is what each key was given, in
    the order of the log, so that the last of those decided to be is what must be visible.
    """

    @initialize()
    def begin(self) -> None:
        self.shard = Shard()
        self.order: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self.epochs = {1: 0, 2: 0}
        self.count = 0

    KEYS = st.tuples(st.sampled_from("gh"), st.integers(0, 1))
    PRODUCERS = st.sampled_from([1, 2])

    def note(self, key: tuple[str, int], fate: str) -> int:
        self.count += 1
        self.order.setdefault(key, []).append((self.count, fate))
        return self.count

    @rule(key=KEYS)
    def commit(self, key: tuple[str, int]) -> None:
        offset = self.note(key, "visible")
        assert self.shard.commit(offset, group=key[0], partition=key[1]) == NONE

    @rule(key=KEYS, producer_id=PRODUCERS)
    def commit_in_transaction(self, key: tuple[str, int], producer_id: int) -> None:
        offset = self.note(key, f"pending {producer_id}")
        error = self.shard.commit_in_transaction(
            offset,
            producer_id=producer_id,
            epoch=self.epochs[producer_id],
            group=key[0],
            partition=key[1],
        )
        assert error == NONE

    @rule(producer_id=PRODUCERS, kind=st.sampled_from([COMMIT, ABORT]))
    def end(self, producer_id: int, kind: ControlType) -> None:
        self.epochs[producer_id] += 1
        self.shard.mark(kind, producer_id=producer_id, epoch=self.epochs[producer_id])
        fate = "visible" if kind is COMMIT else "dropped"
        self.order = {
            key: [(n, fate if was == f"pending {producer_id}" else was) for n, was in given_]
            for key, given_ in self.order.items()
        }

    @rule()
    def load(self) -> None:
        before = self.shard.offsets.view()
        self.shard.load()
        assert self.shard.offsets.view() == before

    @invariant()
    def what_is_fetched_is_what_was_decided(self) -> None:
        for (name, partition), given_ in self.order.items():
            visible = max((n for n, fate in given_ if fate == "visible"), default=-1)
            is_pending = any(fate.startswith("pending") for _, fate in given_)
            assert self.shard.fetch(group=name, partition=partition) == visible
            stable = self.shard.fetch(group=name, partition=partition, stable=True)
            assert stable == (UNSTABLE if is_pending else visible)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=30)
