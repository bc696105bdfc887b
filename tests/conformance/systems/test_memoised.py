"""A memoised actor does what the actor does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.systems.base import Reaction, View
from conformance.systems.memoised import Interner, MemoisedActor, NotTheSame

pytestmark = pytest.mark.fast

Deed = tuple[str, tuple[int, ...]]
"""A method, and what it is given."""


class Sum:
    """Adds up what it is told, and fails at a number below zero after it has taken it."""

    def __init__(self) -> None:
        self.lives = self.moves = 0
        self.reset()

    def reset(self) -> None:
        self.lives += 1
        self.past: list[int] = []

    def view(self) -> View:
        return tuple(self.past)

    def add(self, number: int) -> Reaction:
        self.moves += 1
        self.past.append(number)
        if number < 0:
            raise ValueError(number)
        return self.view(), ((sum(self.past), None),)

    def quiet(self) -> None:
        self.past.append(0)


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
        patch.setattr("conformance.systems.memoised.MAX_STEPS", most)
        memoised, living = MemoisedActor(Sum()), Sum()
        for deeds in lives * 2:
            assert done(memoised, deeds) == done(living, deeds)


def test_an_actor_is_called_once_and_begins_again_only_where_its_inputs_are_new() -> None:
    actor = Sum()
    memoised = MemoisedActor(actor)
    one: list[Deed] = [("add", (1,)), ("add", (2,))]
    two: list[Deed] = [("add", (1,)), ("add", (3,))]
    for deeds in (one, one, one):
        done(memoised, deeds)
    assert (actor.moves, actor.lives) == (2, 2)
    done(memoised, two)
    assert (actor.moves, actor.lives) == (4, 3)
    done(memoised, two)
    assert (actor.moves, actor.lives) == (4, 3)


def test_a_failure_is_not_memoised() -> None:
    actor = Sum()
    memoised = MemoisedActor(actor)
    deeds: list[Deed] = [("add", (1,)), ("add", (-1,))]
    assert done(memoised, deeds)[-1] == done(memoised, deeds)[-1] == "ValueError(-1)"
    assert actor.moves == 4
    assert done(memoised, [("add", (1,)), ("add", (2,))])[-1] == (1, 2)


def test_an_actor_that_does_not_do_the_same_again_is_found() -> None:
    class Forgetful(Sum):
        def add(self, number: int) -> Reaction:
            return super().add(number + (self.lives > 2))

    memoised = MemoisedActor(Forgetful())
    done(memoised, [("add", (1,)), ("add", (2,))])
    with pytest.raises(NotTheSame, match=r"\('add', 1\) gave"):
        done(memoised, [("add", (1,)), ("add", (3,))])


def test_equal_messages_are_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    intern = Interner()
    first = intern([1])
    assert intern([1]) is first
    assert intern([2]) is not first
    monkeypatch.setattr(Interner, "LIMIT", 2)
    assert intern([3]) == [3]
    assert intern([1]) == first
