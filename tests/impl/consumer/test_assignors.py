"""Who of a group reads which partitions: examples of Kafka's own assignors."""

from __future__ import annotations

import pytest
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as Theirs
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1
from hypothesis import given
from hypothesis import strategies as st

from impl.client.errors import InvalidArgumentError
from impl.consumer.assignors import (
    ASSIGNORS,
    RangePartitionAssignor,
    Subscription,
    parse_assignors,
)

A = Subscription("a", None, frozenset({"t", "u"}))
B = Subscription("b", None, frozenset({"t", "u"}))
C = Subscription("c", None, frozenset({"u"}))
STATIC = Subscription("z", "1", frozenset({"t", "u"}))


def described(strategy: str, members: list[Subscription], **partitions: int) -> dict[str, str]:
    found = ASSIGNORS[strategy].assign(members, partitions)
    return {
        member: " ".join(f"{topic}{index}" for topic, index in places)
        for member, places in found.items()
    }


@pytest.mark.parametrize("members", [[A, B], [B, A]])
def test_range_gives_successive_partitions_of_each_topic(members: list[Subscription]) -> None:
    found = described("range", members, t=3, u=3)
    assert found == {"a": "t0 t1 u0 u1", "b": "t2 u2"}


@pytest.mark.parametrize("members", [[A, B], [B, A]])
def test_round_robin_gives_one_after_the_other(members: list[Subscription]) -> None:
    found = described("roundrobin", members, t=3, u=3)
    assert found == {"a": "t0 t2 u1", "b": "t1 u0 u2"}


def test_only_readers_of_a_topic_get_its_partitions() -> None:
    assert described("range", [A, B, C], t=1, u=3) == {"a": "t0 u0", "b": "u1", "c": "u2"}
    assert described("roundrobin", [A, B, C], t=1, u=3) == {"a": "t0 u2", "b": "u0", "c": "u1"}


def test_static_members_come_first() -> None:
    assert described("range", [A, STATIC], t=1) == {"a": "", "z": "t0"}
    assert described("roundrobin", [A, STATIC], t=1) == {"a": "", "z": "t0"}


@pytest.mark.parametrize("strategy", ASSIGNORS)
def test_a_topic_without_readers_is_left_out(strategy: str) -> None:
    assert described(strategy, [C], t=2) == {"c": ""}
    assert described(strategy, [A, B], t=0) == {"a": "", "b": ""}


# ---- sticky: in balance, and nothing moves that need not

TOPICS = ("t", "u", "v")
Owners = dict[str, frozenset[tuple[str, int]]]


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, frozenset[str]], dict[str, int]]:
    topics = st.frozensets(st.sampled_from(TOPICS), min_size=1)
    members = draw(st.dictionaries(st.sampled_from("abcdef"), topics, min_size=1))
    counts = draw(st.fixed_dictionaries({topic: st.integers(0, 9) for topic in TOPICS}))
    return members, counts


def rebalanced(
    members: dict[str, frozenset[str]], counts: dict[str, int], had: Owners, generation: int = 1
) -> Owners:
    """By the assignor that is sticky, whose members say what they had."""
    assignor = ASSIGNORS["sticky"]
    told = [
        Subscription(
            member,
            None,
            topics,
            user_data=assignor.user_data(had.get(member, ()), generation) or b"",
        )
        for member, topics in members.items()
    ]
    return {m: frozenset(places) for m, places in assignor.assign(told, counts).items()}


def check_balance(
    members: dict[str, frozenset[str]], counts: dict[str, int], found: Owners
) -> None:
    """Each partition has one reader, and nobody could take one from who has two more."""
    read = frozenset().union(*members.values())
    everything = sorted((topic, i) for topic in read for i in range(counts[topic]))
    assert sorted(place for places in found.values() for place in places) == everything
    for member, places in found.items():
        assert {topic for topic, _ in places} <= members[member]
        for other, theirs in found.items():
            if len(theirs) > len(places) + 1:
                assert not {topic for topic, _ in theirs} & members[member], (member, other)


@given(groups(), groups())
def test_sticky_is_balanced_and_repeats_itself(
    before: tuple[dict[str, frozenset[str]], dict[str, int]],
    after: tuple[dict[str, frozenset[str]], dict[str, int]],
) -> None:
    had = rebalanced(*before, {})
    check_balance(*before, had)
    assert rebalanced(*before, had) == had
    found = rebalanced(*after, had)
    check_balance(*after, found)
    assert rebalanced(*after, found, 2) == found


@given(st.integers(1, 6), st.integers(0, 20), st.integers(1, 6))
def test_sticky_moves_as_few_partitions_as_balance_allows(
    members: int, partitions: int, later: int
) -> None:
    def group(count: int) -> dict[str, frozenset[str]]:
        return {f"m{number}": frozenset({"t"}) for number in range(count)}

    had = rebalanced(group(members), {"t": partitions}, {})
    found = rebalanced(group(later), {"t": partitions}, had)
    kept = sum(len(places & had.get(member, frozenset())) for member, places in found.items())
    least, more = divmod(partitions, later)
    sizes = sorted((len(had.get(member, ())) for member in group(later)), reverse=True)
    assert kept == sum(min(size, least + (rank < more)) for rank, size in enumerate(sizes))


@given(groups(), groups())
def test_cooperative_rebalances_lead_to_the_same_balance_and_share_nothing_meanwhile(
    before: tuple[dict[str, frozenset[str]], dict[str, int]],
    after: tuple[dict[str, frozenset[str]], dict[str, int]],
) -> None:
    members, counts = after
    owned = rebalanced(*before, {})
    for generation in range(1, 4):
        told = [
            Subscription(member, None, topics, owned.get(member, frozenset()), generation)
            for member, topics in members.items()
        ]
        assigned = ASSIGNORS["cooperative-sticky"].assign(told, counts)
        for member, places in assigned.items():
            others = [owned[other] for other in owned.keys() & members.keys() - {member}]
            assert not frozenset(places) & frozenset().union(*others)
        settled = owned == {m: frozenset(places) for m, places in assigned.items()}
        owned = {member: frozenset(places) for member, places in assigned.items()}
        if settled:
            break
    check_balance(members, counts, owned)


def test_the_newest_generation_decides_who_had_a_partition() -> None:
    def said(member: str, generation: int) -> Subscription:
        data = ASSIGNORS["sticky"].user_data([("t", 0)], generation) or b""
        return Subscription(member, None, frozenset({"t"}), user_data=data)

    for first, second, owner in ((1, 2, "b"), (2, 1, "a")):
        found = ASSIGNORS["sticky"].assign([said("a", first), said("b", second)], {"t": 2})
        assert ("t", 0) in found[owner]
    garbled = Subscription("c", None, frozenset({"t"}), user_data=b"\0\0\0\1?")
    assert len(ASSIGNORS["sticky"].assign([garbled, said("a", 1)], {"t": 2})["c"]) == 1


def test_user_data_is_that_of_kafka() -> None:
    """`StickyAssignor`, version 1, as aiokafka writes it, too."""
    ours = ASSIGNORS["sticky"].user_data([("t", 0), ("t", 2)], 7)
    theirs = StickyAssignorUserDataV1([("t", [0, 2])], 7).encode()
    assert ours == theirs
    version_0 = Subscription("a", None, frozenset({"t"}), user_data=theirs[:-4])
    none = Subscription("b", None, frozenset({"t"}))
    assert ("t", 2) in ASSIGNORS["sticky"].assign([none, version_0], {"t": 3})["a"]


@pytest.mark.parametrize("bad", ["range", [], [None], ["lucky"], 5, [dict]])
def test_a_strategy_lists_assignors(bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match="names of range, roundrobin, sticky"):
        parse_assignors(bad)


def test_a_strategy_is_a_name_a_class_or_another_clients_class() -> None:
    strategy = ["sticky", RangePartitionAssignor, RangePartitionAssignor(), Theirs]
    assert [assignor.name for assignor in parse_assignors(strategy)] == [
        "sticky",
        "range",
        "range",
        "roundrobin",
    ]
