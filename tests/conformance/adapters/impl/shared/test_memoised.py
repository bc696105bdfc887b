"""A memoised actor does what the actor does, and is asked once in each state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.adapters.impl.shared.memoised import Interner, MemoisedActor
from conformance.adapters.impl.shared.snapshots import PicklableActor
from conformance.judging.system import Reaction, View

pytestmark = pytest.mark.fast

Deed = tuple[str, tuple[int, ...]]
"""A method, and what it is given."""


class Sum(PicklableActor):
    """Adds up what it is told, and fails at a number below zero after it has taken it. `moves`
    has an entry for each call, also of an actor that was made again."""

    SHARED = frozenset({"moves"})

    def __init__(self) -> None:
        self.moves: list[int] = []
        self.reset()

    def reset(self) -> None:
        self.total = 0

    def view(self) -> View:
        return (self.total,)

    def add(self, number: int) -> Reaction:
        self.moves.append(number)
        self.total += number
        if number < 0:
            raise ValueError(number)
        return self.view(), ((10 * self.total, None),)

    def quiet(self) -> None:
        self.total += 1


def done(actor: Any, deeds: Sequence[Deed]) -> list[Any]:
    """What an actor gives, failures too, and its states."""
    actor.reset()
    found: list[Any] = []
    for name, inputs in deeds:
        try:
            found.append(getattr(actor, name)(*inputs))
        except ValueError as error:
            return [*found, repr(error)]
        found.append(actor.view())
    return found


DEEDS: st.SearchStrategy[Deed] = st.one_of(
    st.just(("quiet", ())), st.integers(-1, 2).map(lambda number: ("add", (number,)))
)


@given(st.lists(st.lists(DEEDS, max_size=6), max_size=8), st.sampled_from([1, 3, 100_000]))
def test_a_memoised_actor_does_what_the_actor_does(lives: list[list[Deed]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conformance.adapters.impl.shared.snapshots.MAX_SNAPSHOTS", most)
        memoised, living = MemoisedActor(Sum()), Sum()
        for deeds in lives * 2:
            assert done(memoised, deeds) == done(living, deeds)


def test_an_actor_is_called_once_in_each_state() -> None:
    actor = Sum()
    memoised = MemoisedActor(actor)
    ways: list[list[Deed]] = [
        [("add", (1,)), ("add", (2,)), ("add", (1,))],
        [("add", (2,)), ("add", (1,)), ("add", (1,))],
        [("quiet", ()), ("add", (2,)), ("add", (1,))],
    ]
    for deeds in ways * 2:
        done(memoised, deeds)
    assert actor.moves == [1, 2, 1, 2, 1]


def test_a_failure_is_not_memoised() -> None:
    actor = Sum()
    memoised = MemoisedActor(actor)
    deeds: list[Deed] = [("add", (1,)), ("add", (-1,))]
    assert done(memoised, deeds)[-1] == done(memoised, deeds)[-1] == "ValueError(-1)"
    assert actor.moves == [1, -1, -1]
    assert done(memoised, [("add", (1,)), ("add", (2,))])[-1] == (3,)


def test_equal_messages_are_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    intern = Interner()
    first = intern([1])
    assert intern([1]) is first
    assert intern([2]) is not first
    monkeypatch.setattr(Interner, "LIMIT", 2)
    assert intern([3]) == [3]
    assert intern([1]) == first
