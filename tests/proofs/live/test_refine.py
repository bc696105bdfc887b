"""Transactions refine the page that a user believes in, and do not without an assumption."""

import pytest

from proofs.__main__ import main
from proofs.lift.text import Patch, composition
from proofs.live.refine import NoSpec, UnknownAssumption, refine

SIZES = {
    ("transactions-tiny", "v2"): (184, 262),
    ("transactions-tiny", "v1"): (348, 525),
    ("transactions-default", "v2"): (11_228, 27_421),
}
QUICK = ["epoch_for_each_transaction", "writes_are_verified", "marker_epochs_are_newer"]


@pytest.mark.parametrize("where", SIZES, ids="/".join)
def test_each_step_is_one_of_the_page(where: tuple[str, str]) -> None:
    found = refine(*where)
    assert (found.distinct, found.transitions) == SIZES[where]
    assert found.verdict == "holds"
    assert found.changes > found.transitions // 4


@pytest.mark.parametrize("assumption", QUICK)
def test_each_assumption_is_needed(assumption: str) -> None:
    found = refine("transactions-tiny", "v2", dropped=assumption)
    assert found.verdict == "violated"
    assert found.trace is not None
    assert found.trace.header.scope == found.scope


def test_every_assumption_has_a_setting_that_lacks_it() -> None:
    transactions = composition("transactions")
    for assumption in transactions.spec.ASSUMPTIONS.values():
        assert assumption.scope.partition("/")[0] in transactions.scopes.SCOPES
        transactions.variants.parse(assumption.variant)
    assert set(QUICK) < transactions.spec.ASSUMPTIONS.keys()


def test_a_planted_bug_is_found() -> None:
    """A last stable offset that is one too many shows what is open."""
    ahead = Patch("leader.last_stable_offset", "first_open(k, leader)", "first_open(k, leader) + 1")
    assert refine("transactions-tiny", "v2", patches=(ahead,)).verdict == "violated"


def test_bad_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoSpec, match="no page"):
        refine("idempotent-tiny", "v2")
    with pytest.raises(UnknownAssumption, match="choose one of"):
        refine("transactions-tiny", "v2", dropped="luck")
    assert main(["refine", "transactions-none"]) == 2
    assert "no scope is called" in capsys.readouterr().err


def test_the_verb_exits_with_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refine", "transactions-tiny"]) == 0
    assert "holds" in capsys.readouterr().out
    assert main(["refine", "transactions-tiny", "--drop", "writes_are_verified"]) == 1
    assert "without writes_are_verified" in capsys.readouterr().out
