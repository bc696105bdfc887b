"""TLC counts what we count, in scopes of every composition.

All that are compared: `kafka-eos explore --all --engine c,tlc`.
"""

import pytest

from proofs.explore.expected import EXPECTED
from proofs.explore.scope import explore_scope
from proofs.lift.source import COMPOSITIONS, composition_of
from proofs.verbs.explore import COMPARED
from tests.sizes import sized

SCOPES = sorted(scope for scope, engines in COMPARED.items() if "tlc" in engines)
IN_THE_SUITE = ("producer-ids-alone", "idempotent-restart")
"""TLC starts twice; transactions have a file of their own."""


def test_scopes_of_every_composition_are_compared_with_tlc():
    assert len(SCOPES) >= 28
    assert {composition_of(scope) for scope in SCOPES} == set(COMPOSITIONS)


@pytest.mark.usefixtures("with_tlc")
@pytest.mark.parametrize("scope", sized(SCOPES, set(SCOPES) - set(IN_THE_SUITE)))
def test_tlc_counts_what_is_expected(scope):
    report = explore_scope(scope, engine="tlc")
    counts = report.counts
    assert (counts.distinct, counts.depth) == (EXPECTED[scope].distinct, EXPECTED[scope].depth)
    assert sum(counts.levels) == counts.distinct
    assert report.verdict == "holds"
