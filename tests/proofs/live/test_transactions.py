"""Transactions in the end: they complete, each assumption is needed, and a defect that shipped
breaks it."""

import functools
import json
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.live.check import Live, explore_live
from tests.sizes import sized

pytestmark = pytest.mark.xdist_group("live transactions")  # what is explored is cached

ONE = ("live-transaction", "4.3.1")
TWO = ("live-two-instances", "4.3.1")
LOG = ("live-log", "4.3.1")
EXPIRY = ("live-expiry", "v1/late_bump=asked")
SIZES = {
    ONE: (2_698, 13_685),
    (ONE[0], "v1"): (7_792, 41_859),
    TWO: (1_615, 6_437),
    LOG: (563, 2_493),
    (LOG[0], "v1"): (896, 3_900),
    (LOG[0], "3.9.2"): (1_821, 7_474),
    EXPIRY: (389, 885),
    (EXPIRY[0], "4.3.1"): (150, 344),
}
TABLE = load_model("transactions").liveness
RESTS = [(guarantee.name, dropped) for guarantee in TABLE.EVENTUALLY for dropped in guarantee.under]


@functools.cache
def live(scope: str, variant: str) -> Live:
    return explore_live(scope, variant, engine="ints")


FULL = {(ONE[0], "v1"), TWO, (LOG[0], "v1"), (LOG[0], "3.9.2")}
"""In the suite one instance, a log that loses appends, and ids that expire."""


@pytest.mark.parametrize(("scope", "variant"), sized(SIZES, FULL))
def test_what_is_guaranteed_in_the_end_holds(scope: str, variant: str) -> None:
    report = live(scope, variant).report()
    assert (report.distinct, report.transitions) == SIZES[scope, variant]
    assert (report.verdict, report.cut) == ("holds", ())
    assert all(outcome.holds and outcome.exercised for outcome in report.outcomes)


WHERE = {
    ("makes_progress", "markers"): TWO,
    ("makes_progress", "coordinators_stay"): TWO,
    ("makes_progress", "answers"): TWO,
    ("last_stable_offset_moves", "coordinators_stay"): LOG,
}
"""A second instance waits for what the first has left, appends are lost with their coordinator;
what is not here shows with one instance, or is about the log."""


def shown_in(name: str, dropped: str) -> tuple[str, str]:
    """Where it shows that a guarantee needs an assumption."""
    return WHERE.get((name, dropped), LOG if dropped.startswith("appends") else ONE)


def test_each_scope_is_looked_at() -> None:
    assert {scope for scope, _ in SIZES} == TABLE.SCOPES.keys()


@pytest.mark.parametrize(
    ("name", "dropped"), sized(RESTS, [row for row in RESTS if shown_in(*row) in FULL])
)
def test_each_assumption_is_needed(name: str, dropped: str) -> None:
    where = live(*shown_in(name, dropped))
    (outcome,) = where.report(dropped, only=[name]).outcomes
    assert outcome.lasso is not None
    assert dropped not in outcome.fairness
    (twin,) = where.report(only=[name]).outcomes
    assert (twin.holds, twin.exercised) == (True, True)


def test_a_pending_state_that_stays_behind_a_failed_append_ends_all_progress() -> None:
    """KAFKA-5351, KAFKA-7519: whoever asks hears that another transition is in progress."""
    leaks = (
        Patch(
            "coordinator.append_fails",
            "nothing_appended(written)",
            "replace(nothing_appended(written), is_stopped=True)",
        ),
        Patch("coordinator.is_pending", "c.is_appending", "(c.is_appending or c.is_stopped)"),
    )
    report = explore_live(*LOG, engine="ints", patches=leaks).report(only=["makes_progress"])
    (outcome,) = report.outcomes
    assert report.verdict == "violated"
    assert outcome.lasso is not None
    assert len(outcome.lasso.trace.steps) <= 6


def test_a_strict_epoch_refuses_the_retry_of_a_marker_for_ever() -> None:
    """KAFKA-19999: the twin is the variant that takes it."""
    strict = f"{ONE[1]}/marker_epoch=strictly_newer"
    report = live(ONE[0], strict).report(only=["completes"])
    assert report.verdict == "violated"
    assert live(*ONE).report(only=["completes"]).verdict == "holds"


def test_a_client_of_v1_whose_batch_expires_while_it_aborts_waits_for_ever() -> None:
    """It never requests the epoch that it has come to want. Seen of the Java client, 3.9.2 and
    4.3.1; who asks late does not wait."""
    outcome = live(EXPIRY[0], "v1").report().outcome("makes_progress")
    assert outcome.lasso is not None
    assert (outcome.guaranteed, len(outcome.lasso.trace.steps)) == (False, 10)
    assert live(*EXPIRY).report().outcome("makes_progress").guaranteed


# Always with sometimes

REFUSES_ALL = Patch(
    "leader.is_ahead",
    "batch.base_sequence > verification.lowest_sequence",
    "batch.base_sequence >= verification.lowest_sequence",
)
"""A leader that refuses every first transactional batch: no transaction is ever open there."""


def test_a_property_whose_if_never_happens_is_vacuous() -> None:
    report = explore_live("live-log", patches=[REFUSES_ALL], engine="source").report()
    assert all(outcome.holds for outcome in report.outcomes)
    assert report.sometimes.lost == ("last_stable_offset_moves",)
    assert report.verdict == "vacuous"
    assert not report.outcome("last_stable_offset_moves").exercised


def test_the_verb_ends_with_1_and_names_the_property(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patch, file = tmp_path / "idea.py", tmp_path / "report.json"
    patch.write_text(repr([(REFUSES_ALL.function, REFUSES_ALL.before, REFUSES_ALL.after)]))
    argv = ["liveness", "live-log", "--engine", "source", "--patch", str(patch)]
    assert main([*argv, "--json", str(file)]) == 1
    assert "last_stable_offset_moves: LOST" in capsys.readouterr().out
    written = json.loads(file.read_text())
    assert (written["verdict"], written["lost"]) == ("vacuous", {"last_stable_offset_moves": None})
