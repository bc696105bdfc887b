"""Who of a group reads which partitions: examples of Kafka's own assignors."""

from __future__ import annotations

import pytest

from impl.consumer.assignors import ASSIGNORS, Subscription

A = Subscription("a", None, frozenset({"t", "u"}))
B = Subscription("b", None, frozenset({"t", "u"}))
C = Subscription("c", None, frozenset({"u"}))
STATIC = Subscription("z", "1", frozenset({"t", "u"}))


def described(strategy: str, members: list[Subscription], **partitions: int) -> dict[str, str]:
    found = ASSIGNORS[strategy](members, partitions)
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
