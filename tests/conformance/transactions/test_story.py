"""What the story concludes from what was read back, and what its verb refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.__main__ import main
from conformance.transactions.delayed_end_txn import SHAPES, Written, broken
from conformance.transactions.verb import worst

LOST, SHOWN, TORN = SHAPES

writes = st.lists(st.builds(Written, st.sampled_from(["second", "offsets"]), st.booleans()))


@given(st.sampled_from(SHAPES), writes)
def test_nothing_is_broken_when_all_is_as_the_client_was_told(shape, written):
    kept = [Written(write.what, shape.then_commits) for write in written]
    assert broken(shape, kept, True, True, True) == ()


@pytest.mark.parametrize(
    ("shape", "visible", "acknowledged", "expected"),
    [
        (LOST, [False, True], True, ("no_lost_write", "all_or_none")),
        (LOST, [False, False], True, ("no_lost_write",)),
        (LOST, [False, False], False, ()),
        (LOST, [False, True], False, ("all_or_none",)),
        (SHOWN, [True, False], True, ("no_aborted_read", "all_or_none")),
        (SHOWN, [True, True], False, ("no_aborted_read",)),
        (SHOWN, [False, False], True, ()),
        (TORN, [True, True], True, ()),
    ],
)
def test_what_is_visible_decides(shape, visible, acknowledged, expected):
    written = [Written("second", is_visible) for is_visible in visible]
    assert broken(shape, written, acknowledged, True, True) == expected


def test_a_transaction_that_does_not_end_and_readers_that_wait_are_told():
    written = [Written("second", True)]
    assert broken(LOST, written, True, False, True) == ("completes",)
    assert broken(LOST, written, True, True, False) == ("last_stable_offset_moves",)


def test_one_violation_outweighs_what_is_undecided():
    assert worst(["holds", "undecided", "violated"]) == "violated"
    assert worst(["holds", "undecided"]) == "undecided"
    assert worst(["holds", "holds"]) == "holds"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["delayed-end-txn", "--kafka", "1.2.3"], "4.3.1, 4.2.1"),
        (["delayed-end-txn", "--kafka", "2.8.2"], "is not built"),
        (["delayed-end-txn", "--kafka", "3.9.2", "--level", "2"], "it has [0]"),
        (["delayed-end-txn", "--requests", "v3"], "v1, v2"),
        (["facts", "--only", "nothing"], "end_txn_v1_by_state"),
    ],
)
def test_what_there_is_not_is_refused(arguments, named, capsys):
    assert main(arguments) == 2
    assert named in capsys.readouterr().err
