"""When offsets expire, and groups with them: each rule, and whatever happens before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.coordinator.classic_group import ClassicGroup, GroupMember
from impl.coordinator.group_config import OffsetsConfig
from impl.coordinator.group_records import decode_group, encode_group, encode_group_key
from impl.coordinator.offset_expiration import ExpiredGroup, find_expired
from impl.coordinator.offsets import TOMBSTONE_BATCH_BYTES, encode_commit
from impl.coordinator.offsets_groups import GroupState
from impl.coordinator.offsets_records import CommittedOffset, OffsetKey
from impl.coordinator.offsets_state import GroupOffsets
from impl.protocol.control_records import ControlType
from impl.protocol.record_batch import Record
from impl.protocol.state_records import decode_record, encode_record
from tests.impl.coordinator.shard import NOW_MS, Shard

S = GroupState
RETENTION_MS = 1_000
KEY = OffsetKey("g", "t", 0)
MINUTE = OffsetsConfig(num_partitions=1, retention_minutes=1)


def subscription(*topics: str) -> bytes:
    return encode_record("CONSUMER_PROTOCOL_SUBSCRIPTION", 1, {"topics": list(topics)})


def group_of(
    state: GroupState,
    protocol_type: str | None = "consumer",
    metadata: bytes = b"",
    since_ms: int | None = 0,
) -> ClassicGroup:
    """A group with one member, none if it is empty."""
    group = ClassicGroup(
        "g", protocol_type=protocol_type, protocol_name="range", state_timestamp_ms=since_ms
    )
    if state is not S.EMPTY:
        group.add(GroupMember("m", None, "c", 1, 1, (("range", metadata),)))
    group.read_topics()
    group.state = state
    return group


SIMPLE = group_of(S.EMPTY, None)
LEFT, LEFT_LATER = group_of(S.EMPTY), group_of(S.EMPTY, since_ms=500)
OLD = group_of(S.EMPTY, since_ms=None)
READS_OTHER, READS_T = (group_of(S.STABLE, metadata=subscription(t)) for t in ("u", "t"))

CASES: dict[str, tuple[ClassicGroup, CommittedOffset, int, bool]] = {
    "simple, in time": (SIMPLE, CommittedOffset(1, commit_timestamp_ms=0), 999, False),
    "simple": (SIMPLE, CommittedOffset(1, commit_timestamp_ms=0), 1_000, True),
    "simple, later": (SIMPLE, CommittedOffset(1, commit_timestamp_ms=500), 1_000, False),
    "left": (LEFT, CommittedOffset(1, commit_timestamp_ms=0), 1_000, True),
    "left, committed later": (LEFT, CommittedOffset(1, commit_timestamp_ms=999), 1_000, True),
    "left later": (LEFT_LATER, CommittedOffset(1, commit_timestamp_ms=0), 1_499, False),
    "old record": (OLD, CommittedOffset(1, commit_timestamp_ms=300), 1_299, False),
    "old record, later": (OLD, CommittedOffset(1, commit_timestamp_ms=300), 1_300, True),
    "said so": (LEFT, CommittedOffset(1, -1, "", 0, 50), 50, True),
    "said so, not yet": (LEFT, CommittedOffset(1, -1, "", 0, 5_000), 4_999, False),
    "unread": (READS_OTHER, CommittedOffset(1, commit_timestamp_ms=0), 1_000, True),
    "unread, in time": (READS_OTHER, CommittedOffset(1, commit_timestamp_ms=1), 1_000, False),
    "read": (READS_T, CommittedOffset(1, commit_timestamp_ms=0), 1_000, False),
    "read, said so": (READS_T, CommittedOffset(1, -1, "", 0, 50), 1_000, False),
    "unreadable": (group_of(S.STABLE), CommittedOffset(1, commit_timestamp_ms=0), 1_000, False),
    "other protocol": (
        group_of(S.STABLE, "connect"),
        CommittedOffset(1, commit_timestamp_ms=0),
        1_000,
        False,
    ),
    "other protocol, left": (
        group_of(S.EMPTY, "connect"),
        CommittedOffset(1, commit_timestamp_ms=0),
        1_000,
        True,
    ),
    **{
        f"{state.value}": (
            group_of(state, metadata=subscription("u")),
            CommittedOffset(1, -1, "", 0, 50),
            1_000,
            False,
        )
        for state in (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE)
    },
}


@pytest.mark.parametrize(("group", "committed", "now_ms", "expires"), CASES.values(), ids=CASES)
def test_an_offset_expires(
    group: ClassicGroup, committed: CommittedOffset, now_ms: int, expires: bool
) -> None:
    offsets = GroupOffsets()
    offsets.groups.add("g")
    offsets.committed[KEY] = committed
    found = find_expired(offsets, {"g": group}, now_ms, RETENTION_MS)
    is_dead = expires and group.is_empty
    assert found == ([ExpiredGroup("g", (KEY,), is_dead)] if expires else [])
    offsets.pending[1] = {KEY: committed}
    assert not find_expired(offsets, {"g": group}, now_ms, RETENTION_MS)
    offsets.pending[1] = {KEY._replace(partition=1): committed}
    found = find_expired(offsets, {"g": group}, now_ms, RETENTION_MS)
    assert found == ([ExpiredGroup("g", (KEY,), False)] if expires else [])


@pytest.mark.parametrize("state", GroupState)
def test_a_group_that_never_had_an_offset_goes_as_soon_as_it_is_empty(state: GroupState) -> None:
    offsets = GroupOffsets()
    offsets.groups.add("g")
    found = find_expired(offsets, {"g": group_of(state)}, 0, RETENTION_MS)
    assert found == ([ExpiredGroup("g", (), True)] if state is S.EMPTY else [])


def test_a_record_says_when_a_group_became_empty() -> None:
    for since_ms in (5, None):
        value = encode_group(group_of(S.EMPTY, since_ms=since_ms))
        assert decode_group("g", value).state_timestamp_ms == since_ms
    assert decode_record("GROUP_METADATA_VALUE", value)[1]["current_state_timestamp"] == -1


# ---- with the log


def forget(shard: Shard, now_ms: int) -> list[str | None]:
    """Append what has expired; the groups that go."""
    gone = []
    for (partition, batch), group_id in shard.coordinator.forget_expired({}, now_ms=now_ms):
        assert len(batch) < 2 * TOMBSTONE_BATCH_BYTES
        assert not shard.leader.append_as_coordinator(batch, now_ms=now_ms).error
        shard.coordinator.replay(partition, shard.leader.batches[-1].data)
        gone.append(group_id)
    return gone


def test_many_tombstones_are_several_batches_and_the_group_goes_with_the_last() -> None:
    shard = Shard(MINUTE)
    for partition in range(5_000):
        shard.commit(1, partition=partition)
    gone = forget(shard, NOW_MS + 60_000)
    assert len(gone) > 2
    assert gone == [None] * (len(gone) - 1) + ["g"]
    assert shard.coordinator.forget_topics(["t"], now_ms=NOW_MS) == ()


def test_tombstones_of_a_deleted_topic_are_several_batches_as_well() -> None:
    shard = Shard(MINUTE)
    for partition in range(5_000):
        shard.commit(1, partition=partition)
    found = shard.coordinator.forget_topics(["t"], now_ms=NOW_MS)
    assert len(found) > 2
    assert all(len(batch) < 2 * TOMBSTONE_BATCH_BYTES for _, batch in found)
    for partition, batch in found:
        assert not shard.leader.append_as_coordinator(batch, now_ms=NOW_MS).error
        shard.coordinator.replay(partition, shard.leader.batches[-1].data)
    assert not shard.offsets.committed


groups = st.sampled_from(["a", "b"])
partitions = st.integers(0, 2)
STEPS = st.lists(
    st.tuples(st.just("commit"), groups, partitions)
    | st.tuples(st.just("transaction"), groups, partitions)
    | st.tuples(st.just("join"), groups, st.just(0))
    | st.tuples(st.sampled_from(["end", "abort"]), st.just(""), st.just(0)),
    max_size=12,
)


def append_group(shard: Shard, group_id: str) -> None:
    """A group of members that have left."""
    value = encode_group(replace(group_of(S.EMPTY, since_ms=NOW_MS), group_id=group_id))
    record = Record(0, NOW_MS, encode_group_key(group_id), value)
    assert not shard.leader.append_as_coordinator(encode_commit([record], NOW_MS), now_ms=0).error
    shard.coordinator.replay(0, shard.leader.batches[-1].data)


@given(STEPS)
def test_after_their_time_only_what_a_transaction_holds_is_left(
    steps: list[tuple[str, str, int]],
) -> None:
    shard = Shard(MINUTE)
    for kind, group, partition in steps:
        if kind == "commit":
            shard.commit(1, group=group, partition=partition)
        elif kind == "transaction":
            shard.commit_in_transaction(2, group=group, partition=partition)
        elif kind == "join":
            append_group(shard, group)
        elif shard.offsets.pending:
            shard.mark(ControlType.COMMIT if kind == "end" else ControlType.ABORT)
    committed = dict(shard.offsets.committed)
    forget(shard, NOW_MS)
    assert shard.offsets.committed == committed, "it is too early"
    forget(shard, NOW_MS + 60_000)
    pending = {key for each in shard.offsets.pending.values() for key in each}
    assert shard.offsets.committed.keys() <= pending
    assert shard.offsets.groups == {key.group_id for key in pending}
    assert not shard.coordinator.forget_expired({}, now_ms=NOW_MS + 10**9)
    before = shard.offsets.view()
    shard.load()
    assert shard.offsets.view() == before, "the log says the same"
