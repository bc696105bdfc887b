"""Transactions refine the page that a user believes in, and do not without an assumption."""

import functools

import pytest

from proofs.__main__ import main
from proofs.explore.expected import EXPECTED
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.live.refine import NoSpec, Refinement, UnknownRefinementAssumption, refine
from tests.sizes import sized

pytestmark = pytest.mark.xdist_group("refine")  # what is walked is cached

TRANSACTIONS = load_model("transactions")
ASSUMPTIONS = TRANSACTIONS.spec.ASSUMPTIONS

SIZES = {
    ("transactions-tiny", "v2"): (184, 262),
    ("transactions-default", "v2"): (11_228, 27_421),
    ("transactions-small/delays=0/moves=0/unheard=0", "v2"): (2_370, 4_506),
    ("transactions-medium/begun=1/delays=0/moves=0/unheard=0", "v2"): (946, 1_869),
    ("transactions-large/begun=1/delays=0/moves=0/timeouts=0/unheard=0", "v2"): (4_838, 10_415),
    ("transactions-exhausted/delays=0/moves=0/unheard=0", "v2"): (2_207, 4_220),
    ("transactions-forgotten/begun=1/delays=0/moves=0/unheard=0", "v2"): (311, 479),
    ("transactions-log/begun=1/moves=0/timeouts=0/unheard=0", "v2"): (876, 2_258),
    ("transactions-markers/moves=0/marker_losses=0", "v2"): (4_609, 10_746),
    ("transactions-late-batch/begun=1/delays=1/unheard=0", "v2"): (1_010, 1_893),
    ("transactions-guards/begun=1/unheard=0", "v2"): (1_222, 2_548),
    ("transactions-offsets/begun=1/timeouts=0", "v2"): (1_281, 2_314),
    ("transactions-readers/begun=1/unheard=0", "v2"): (1_617, 3_059),
    ("transactions-late-marker", "v2"): (1_702, 3_259),
    ("transactions-writes", "v2"): (4_839, 13_545),
    ("transactions-late-writes", "v2"): (2_604, 4_800),
    ("transactions-window", "v2"): (680, 1_158),
    ("transactions-adopted/delays=1", "v2"): (1_287, 2_643),
    ("transactions-guards-partitions", "v2"): (603, 1_097),
    ("transactions-offsets-log", "v2"): (3_360, 7_999),
    ("transactions-log-again", "v2"): (214, 356),
    ("transactions-two-errors", "v2"): (2_838, 5_880),
    ("transactions-offsets-again/delays=0", "v2"): (491, 695),
    ("transactions-others", "v2"): (7_138, 15_509),
    ("transactions-between", "v2"): (2_499, 4_831),
    ("transactions-moves/delays=0/expirations=0/unheard=0", "v2"): (2_820, 7_264),
    ("transactions-two-expirations", "v2"): (1_877, 3_716),
    ("transactions-leaderless/begun=1", "4.3.1/leaderless_marker=waits"): (212, 442),
    ("transactions-in-flight", "v2"): (692, 1_252),
    ("transactions-in-flight-again", "v2"): (2_822, 5_828),
    ("transactions-in-flight-moves", "v2"): (729, 1_792),
    ("transactions-in-flight-leaves", "4.3.1/leaderless_marker=waits"): (114, 194),
    ("transactions-in-flight-three", "4.3.1/leaderless_marker=waits"): (322, 602),
    ("transactions-rejection", "v2"): (584, 893),
    ("transactions-rejection/unheard=0", "v1"): (270, 358),
    ("transactions-in-flight-rejection", "v2"): (6_281, 12_510),
    ("transactions-in-flight-partitions", "v2"): (4_417, 9_808),
    ("transactions-in-flight-offsets", "v2"): (476, 683),
    ("transactions-in-flight", "v1"): (1_078, 1_867),
    ("transactions-trouble", "v2"): (130, 193),
    ("transactions-trouble-log", "v2"): (313, 670),
    ("transactions-tiny", "v1"): (348, 525),
    ("transactions-window", "v1"): (967, 1_482),
    ("transactions-guards-partitions", "v1"): (1_667, 3_017),
    ("transactions-log-again", "v1"): (253, 410),
    ("transactions-trouble", "v1"): (202, 338),
    ("transactions-trouble-log", "v1"): (348, 730),
}
"""Each scope, the large ones with less trouble: they are for the command line."""

REFUSED = {
    ("transactions-default", "v1"): (15, "late_end_arrives"),
    ("transactions-writes", "v1"): (14, "verified_batch_arrives"),
    ("transactions-adopted", "v1"): (14, "verified_batch_arrives"),
}
"""What V1 does with what is late (KAFKA-17754): how many steps, and the one that is not allowed."""

DROPPED = {
    "epoch_for_each_transaction": (15, "late_end_arrives"),
    "writes_are_verified": (11, "late_offsets_arrive"),
    "marker_epochs_are_newer": (13, "late_marker_arrives"),
    "markers_wait_for_leaders": (9, "marker_is_skipped"),
    "fences_take_an_epoch": (11, "batch_is_produced"),
    "offsets_come_in_order": (9, "late_offsets_arrive"),
}
"""The same, of a configuration that lacks an assumption."""


@functools.cache
def walked(scope: str, variant: str, *patches: Patch) -> Refinement:
    return refine(scope, variant, patches=patches)


def last_step(found: Refinement) -> tuple[int, str]:
    """How many steps lead to the one that is not allowed, itself counted, and its rule."""
    assert found.trace is not None
    return len(found.trace.steps), found.trace.steps[-1].rule


SUITE = {
    ("transactions-tiny", "v2"),
    ("transactions-forgotten/begun=1/delays=0/moves=0/unheard=0", "v2"),
    ("transactions-log/begun=1/moves=0/timeouts=0/unheard=0", "v2"),
    ("transactions-late-batch/begun=1/delays=1/unheard=0", "v2"),
    ("transactions-offsets/begun=1/timeouts=0", "v2"),
    ("transactions-readers/begun=1/unheard=0", "v2"),
    ("transactions-writes", "v2"),
    ("transactions-window", "v2"),
    ("transactions-guards-partitions", "v2"),
    ("transactions-log-again", "v2"),
    ("transactions-leaderless/begun=1", "4.3.1/leaderless_marker=waits"),
    ("transactions-in-flight-moves", "v2"),
    ("transactions-in-flight-leaves", "4.3.1/leaderless_marker=waits"),
    ("transactions-in-flight-three", "4.3.1/leaderless_marker=waits"),
    ("transactions-in-flight-offsets", "v2"),
    ("transactions-rejection", "v2"),
    ("transactions-rejection/unheard=0", "v1"),
    ("transactions-in-flight", "v1"),
    ("transactions-trouble", "v2"),
    ("transactions-trouble-log", "v2"),
    ("transactions-tiny", "v1"),
    ("transactions-log-again", "v1"),
    ("transactions-trouble", "v1"),
    ("transactions-trouble-log", "v1"),
}
"""The smaller ones, with each kind of trouble."""
FULL = SIZES.keys() - SUITE


@pytest.mark.parametrize(("scope", "variant"), sized(SIZES, FULL))
def test_each_step_is_one_of_the_page(scope: str, variant: str) -> None:
    where = scope, variant
    found = walked(*where)
    assert (found.distinct, found.transitions) == SIZES[where]
    assert found.verdict == "holds"
    assert found.changes > found.transitions // 5


def test_each_scope_is_walked_and_counts_what_it_counts_elsewhere() -> None:
    assert {scope.partition("/")[0] for scope, _ in SIZES} == TRANSACTIONS.scopes.SCOPES.keys()
    whole = {scope: size for (scope, variant), size in SIZES.items() if variant == "v2"}
    for scope in whole.keys() & EXPECTED.keys():
        assert whole[scope] == (EXPECTED[scope].distinct, EXPECTED[scope].transitions)


@pytest.mark.parametrize(
    ("scope", "variant"), sized(REFUSED, REFUSED.keys() - {("transactions-writes", "v1")})
)
def test_what_is_late_in_v1_is_not_on_the_page(scope: str, variant: str) -> None:
    assert last_step(walked(scope, variant)) == REFUSED[scope, variant]


ABORTS_TOO_SOON = Patch(
    "client.abort_transaction", "require(not commit_waits(client))", "require(True)"
)


def test_who_asks_for_a_commit_hears_that_it_has_failed_before_it_aborts() -> None:
    """commitTransaction returns once each batch that was sent has its outcome."""
    found = walked("transactions-two-errors", "v2", ABORTS_TOO_SOON)
    assert last_step(found)[1] == "abort_is_asked"
    assert found.verdict == "violated"


# What it takes


@pytest.mark.parametrize("assumption", sized(DROPPED, ["epoch_for_each_transaction"]))
def test_each_assumption_is_needed(assumption: str) -> None:
    found = refine("transactions-tiny", "v2", dropped=assumption)
    assert found.verdict == "violated"
    assert last_step(found) == DROPPED[assumption]
    assert found.trace is not None
    assert found.trace.header.scope == found.scope == ASSUMPTIONS[assumption].scope


LARGER_TWINS = {"epoch_for_each_transaction", "fences_take_an_epoch", "marker_epochs_are_newer"}


@pytest.mark.parametrize("assumption", sized(DROPPED, LARGER_TWINS))
def test_with_the_assumption_its_configuration_is_clean(assumption: str) -> None:
    """Else what the page refuses there would say nothing of the assumption."""
    row = ASSUMPTIONS[assumption]
    assert walked(row.twin_scope, row.twin_variant).verdict == "holds"


def test_each_assumption_is_looked_at() -> None:
    assert DROPPED.keys() == ASSUMPTIONS.keys()


# Planted bugs

AHEAD = Patch("leader.last_stable_offset", "first_open(k, leader)", "first_open(k, leader) + 1")
TWICE = Patch("leader.on_produce", "is_duplicate(entry, batch)", "False")
ANY_SEQUENCE = Patch(
    "leader.check_append", "batch.base_sequence == entry.last_sequence + 1", "True"
)
BACKWARDS = Patch("leader.appended", "(*leader.log, stored)", "(stored, *leader.log)")
SHOWN = Patch("coordinator.marker_for", "metadata.state == TransactionState.PREPARE_COMMIT", "True")
NOT_POISONED = Patch(
    "sender.give_up",
    "in_batch_error(k, with_partition(client, partition, there), Effect.ABORT)",
    "with_partition(client, partition, there)",
)
PLANTED: dict[str, tuple[tuple[Patch, ...], str, int, str]] = {
    "what is open is read": ((AHEAD,), "transactions-tiny", 5, "batch_is_produced"),
    "a record is written twice": (
        (TWICE, ANY_SEQUENCE),
        "transactions-tiny",
        6,
        "batch_is_produced",
    ),
    "the newest record comes first": ((BACKWARDS,), "transactions-window", 7, "batch_is_produced"),
    "an aborted record is shown": ((SHOWN,), "transactions-tiny", 8, "marker_is_written"),
    "a commit is reported while a batch is late": (
        (NOT_POISONED,),
        "transactions-writes",
        9,
        "transaction_is_ended",
    ),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    patches, scope, steps, rule = PLANTED[bug]
    assert last_step(walked(scope, "v2", *patches)) == (steps, rule)
    assert walked(scope, "v2").verdict == "holds"


# Each step of the page happens, and by its own events

REFUSES_ALL = Patch(
    "leader.is_ahead",
    "batch.base_sequence > verification.lowest_sequence",
    "batch.base_sequence >= verification.lowest_sequence",
)
"""A leader that refuses every first transactional batch: no step is wrong, and none writes."""
OTHER_BUGS = {
    "an application that commits aborts": (
        Patch(
            "world.commit_is_asked",
            "client_rules.commit_transaction",
            "client_rules.abort_transaction",
        ),
        "abort_is_reported is no step of commit_is_asked",
    ),
    "an outcome is taken back": (
        Patch("client.on_ended", "Outcome.ABORTED", "Outcome.OPEN"),
        "this is no step of the specification",
    ),
}


def test_a_step_of_the_page_that_never_happens_is_lost() -> None:
    found = walked("transactions-tiny", "v2", REFUSES_ALL)
    assert found.trace is None
    assert found.verdict == "violated"
    assert set(found.sometimes.unexpected) == {"commit_failure_is_reported"}
    assert set(found.sometimes.lost) == {
        "slot_is_added",
        "slots_commit",
        "slots_abort",
        "slots_are_readable",
    }


def test_a_scope_of_ones_own_may_lack_steps() -> None:
    found = walked("transactions-tiny/begun=0", "v2")
    assert (found.verdict, found.sometimes.is_enforced) == ("holds", False)
    assert "slots_commit" in found.sometimes.lost


@pytest.mark.parametrize("bug", OTHER_BUGS)
def test_what_the_page_knows_beside_its_rows_finds_more(bug: str) -> None:
    """By which events a step may be, and what may follow an outcome."""
    patch, why = OTHER_BUGS[bug]
    assert walked("transactions-tiny", "v2", patch).why == why


# The verb


def test_bad_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoSpec, match="no specification"):
        refine("idempotent-tiny", "v2")
    with pytest.raises(UnknownRefinementAssumption, match="choose one of"):
        refine("transactions-tiny", "v2", dropped="luck")
    assert main(["refine", "transactions-none"]) == 2
    assert "no scope is called" in capsys.readouterr().err


def test_the_verb_exits_with_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refine", "transactions-tiny"]) == 0
    assert "holds" in capsys.readouterr().out
    assert main(["refine", "transactions-tiny", "--drop", "writes_are_verified"]) == 1
    assert "without writes_are_verified" in capsys.readouterr().out
