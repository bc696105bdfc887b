"""TLC on the text that is exported of transactions: other people's checker, the same worlds."""

import pytest

from proofs.explore.expected import EXPECTED
from proofs.explore.scope import explore_scope
from proofs.mutants import find
from tests.sizes import sized

pytestmark = pytest.mark.usefixtures("with_tlc")

COUNTED = {
    ("transactions-tiny", "v2"): (184, 12),
    ("transactions-tiny", "v1"): (348, 13),
    ("transactions-trouble-log", "v2"): (313, 17),
    ("transactions-offsets-log", "v1"): (4391, 25),
    ("transactions-moves/unheard=0/begun=1", "v1"): (2574, 20),
    ("transactions-guards-partitions", "v2"): (603, 14),
    ("transactions-window", "v1"): (967, 21),
    ("transactions-log-again", "v2"): (214, 23),
    ("transactions-two-errors", "v2"): (2_838, 14),
}
"""Distinct states and depth: one instance and two, appends, offsets, guards, an id that is
forgotten, both conversations; seven scopes."""


FULL = {
    ("transactions-tiny", "v2"),
    ("transactions-trouble-log", "v2"),
    ("transactions-window", "v1"),
    ("transactions-offsets-log", "v1"),
    ("transactions-moves/unheard=0/begun=1", "v1"),
    ("transactions-guards-partitions", "v2"),
    ("transactions-two-errors", "v2"),
}
"""In the suite both conversations, one small scope each."""


@pytest.mark.parametrize(("scope", "variant"), sized(COUNTED, FULL))
def test_tlc_and_integers_count_the_same(scope, variant):
    theirs = explore_scope(scope, variant, engine="tlc").counts
    ours = explore_scope(scope, variant, engine="ints").counts
    assert (theirs.distinct, theirs.depth) == COUNTED[scope, variant]
    assert (ours.distinct, ours.depth, ours.levels) == (
        theirs.distinct,
        theirs.depth,
        theirs.levels,
    )
    assert theirs.complete
    if variant == "v2":
        assert (theirs.distinct, theirs.depth) == (EXPECTED[scope].distinct, EXPECTED[scope].depth)


@pytest.mark.full  # test_tlc.py has one for the suite
def test_a_planted_bug_is_found_by_a_trace_as_short():
    bug = find("lso_inclusive")
    theirs, ours = (
        explore_scope(bug.scope, bug.variant, patches=bug.patches, engine=engine, stop=True)
        for engine in ("tlc", "ints")
    )
    (found,) = theirs.violations
    assert theirs.verdict == "violated"
    assert found.steps == ours.found(found.property).steps
