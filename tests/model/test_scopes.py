"""Scopes as text: what an entry says, what it takes from its parent, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.idempotent.configuration import Bounds, Budgets, Scope
from model.idempotent.faults import Faults
from model.scope import InvalidPart, UnknownSize, read_scopes

BASE = Scope("", "", Bounds(), Budgets())

TEXT = """
small: two records,
    and a break | records=2 breaks=1 epochs_end
later: the same, with more | from=small records=3 restarts=2
tight: no room beyond its own | from=small | room
roomy: room for a crash | from=small | room crashes=1 records=5
"""


def test_a_size_that_is_a_budget_too_is_both() -> None:
    small = read_scopes(BASE, TEXT)["small"]
    assert small.why == "two records, and a break"
    assert small.bounds == Bounds(records=2, epochs_end=True)
    assert small.budgets == Budgets(records=2, breaks=1)


def test_a_scope_says_what_differs_from_its_parent() -> None:
    later = read_scopes(BASE, TEXT)["later"]
    assert later.bounds == Bounds(records=3, epochs_end=True)
    assert later.budgets == Budgets(records=3, breaks=1, restarts=2)


def test_room_is_of_the_bounds_alone() -> None:
    scopes = read_scopes(BASE, TEXT)
    assert scopes["tight"].bounds == Bounds(records=2, epochs_end=True, faults=Faults())
    assert scopes["roomy"].bounds == Bounds(records=5, epochs_end=True, faults=Faults(crashes=1))
    assert scopes["roomy"].budgets == scopes["tight"].budgets == scopes["small"].budgets


def test_what_never_happens_is_inherited_but_for_what_a_scope_has_sometimes() -> None:
    base = replace(BASE, never={"something_failed": "nothing fails"})
    scopes = read_scopes(
        base,
        """
quiet: one record | records=1 | never a_bump, a_wrap: there is one record
loud: more | from=quiet records=2 | room | sometimes a_bump, something_failed
""",
    )
    one = "there is one record"
    assert scopes["quiet"].never == {
        "something_failed": "nothing fails",
        "a_bump": one,
        "a_wrap": one,
    }
    assert scopes["loud"].never == {"a_wrap": one}


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("never a_bump", "scope wrong: .*does not say why"),
        ("sometimes a_bump", "scope wrong: .*nothing that the parent never has"),
        ("seldom a_bump", "scope wrong: .*'seldom'"),
        ("room crashes=x", "scope wrong: 'crashes=x': write a number, as crashes=1"),
    ],
)
def test_a_part_that_cannot_be_read_is_refused(part: str, problem: str) -> None:
    with pytest.raises(InvalidPart, match=problem):
        read_scopes(BASE, f"wrong: a slip | records=1 | {part}")


def test_a_name_that_is_neither_a_size_nor_a_budget_is_refused() -> None:
    with pytest.raises(UnknownSize, match=r"scope wrong: .*'brakes'"):
        read_scopes(BASE, "wrong: a slip | brakes=1")
    with pytest.raises(UnknownSize, match=r"scope wrong: .*'crushes'"):
        read_scopes(BASE, "wrong: a slip | records=1 | room crushes=1")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("wrong: a slip | breaks=x", "'breaks=x': write a number"),
        ("wrong: a slip | breaks=", "'breaks=': write a number"),
        ("wrong: a slip | from=smal breaks=1", "'from=smal': no scope above it is called 'smal'"),
        ("wrong: a slip", "no sizes"),
    ],
)
def test_an_entry_that_cannot_be_read_is_refused_with_the_name_of_its_scope(
    entry: str, problem: str
) -> None:
    with pytest.raises(InvalidPart, match=f"scope wrong: {problem}"):
        read_scopes(BASE, TEXT + entry)
