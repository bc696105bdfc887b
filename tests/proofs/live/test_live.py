"""What happens in the end: it holds, each assumption is needed, and planted bugs break it."""

import functools

import pytest

from proofs.explore.scope import explore_scope
from proofs.explore.sometimes import allowed_events
from proofs.lift.build import lift
from proofs.lift.dag import FALSE
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.lift.specialise import specialise, with_constant_inputs
from proofs.live.check import Live, UnknownAssumption, explore_live
from proofs.live.lasso import Lasso
from proofs.trace.format import dumps, loads
from proofs.trace.pictures import text
from proofs.trace.replay import UnknownScope, configuration_of, replay, scope_of

pytestmark = pytest.mark.xdist_group("live")  # what is explored is cached

STRICT = "4.3.1/first_sequence=strict"
WRAPS = "4.3.1/sequence_order=wraps"

# Each scope with fewer records or less trouble; the whole ones are for the command line.
RETRIES = ("live-retries/records=3", STRICT)
RESTARTS = ("live-restarts/records=3", "4.3.1")
FAILOVER = ("live-failover/records=3", "4.3.1")
PARTITIONS = ("live-partitions", "4.3.1")
FEW_PARTITIONS = ("live-partitions/records=1", "4.3.1")
TIMEOUTS = ("live-timeouts/records=3", "4.3.1")
STREAM = ("live-stream/records=3/breaks=0", WRAPS)

SIZES = {
    RETRIES: (172, 528),
    RESTARTS: (111, 371),
    FAILOVER: (281, 1543),
    PARTITIONS: (2531, 9983),
    FEW_PARTITIONS: (49, 182),
    TIMEOUTS: (2381, 9101),
    STREAM: (543, 1218),
}

NOT_EXERCISED = {
    RETRIES: {"bumps_happen", "bumps_end", "high_watermark_catches_up"},
    RESTARTS: {"high_watermark_catches_up"},
    FAILOVER: set(),
    PARTITIONS: {"high_watermark_catches_up"},
    FEW_PARTITIONS: {"bumps_happen", "bumps_end", "high_watermark_catches_up"},
    TIMEOUTS: {"high_watermark_catches_up"},
    STREAM: {"high_watermark_catches_up"},
}

NEEDED = {
    ("requests_end", "delivery"): (RETRIES, 1, 0),
    ("requests_end", "answers"): (RETRIES, 2, 0),
    ("requests_end", "replication"): (FAILOVER, 2, 0),
    ("retries_go_out", "retries"): (RETRIES, 2, 0),
    ("retries_go_out", "bumps"): (RESTARTS, 8, 0),
    ("bumps_happen", "bumps"): (RESTARTS, 8, 0),
    ("high_watermark_catches_up", "replication"): (FAILOVER, 2, 0),
    ("makes_progress", "delivery"): (RETRIES, 1, 0),
    ("makes_progress", "answers"): (RETRIES, 2, 0),
    ("makes_progress", "replication"): (FAILOVER, 2, 0),
    ("makes_progress", "retries"): (RETRIES, 2, 0),
    ("makes_progress", "bumps"): (RESTARTS, 8, 0),
    ("makes_progress", "connections_hold"): (RETRIES, 1, 2),
    ("makes_progress", "replicas_return"): (RETRIES, 1, 3),
    ("completes", "deadlines"): (TIMEOUTS, 1, 0),
    ("completes", "bumps"): (TIMEOUTS, 3, 0),
    ("sequences_resolve", "deadlines"): (TIMEOUTS, 4, 0),
    ("sequences_resolve", "resolution"): (TIMEOUTS, 6, 0),
    ("sequences_resolve", "bumps"): (TIMEOUTS, 3, 0),
    ("bumps_end", "restarts_end"): (STREAM, 4, 15),
}
"""For each property and each of its assumptions: where it fails without it, and how soon."""


@functools.cache
def live(scope: str, variant: str, *patches: Patch) -> Live:
    return explore_live(scope, variant, patches=patches, engine="source")


WALKED = [
    pytest.param(where, id=where[0], marks=pytest.mark.full if where == PARTITIONS else ())
    for where in SIZES
]


@pytest.mark.parametrize("where", WALKED)
def test_what_is_guaranteed_in_the_end_holds(where):
    report = live(*where).report()
    assert (report.distinct, report.transitions) == SIZES[where]
    assert (report.verdict, report.cut) == ("holds", ())
    assert all(outcome.holds and outcome.guaranteed for outcome in report.outcomes)
    assert {o.name for o in report.outcomes if not o.exercised} == NOT_EXERCISED[where]


@pytest.mark.parametrize("where", WALKED)
def test_what_is_allowed_happens_and_what_happens_is_allowed(where):
    """Nothing makes a producer bump its epoch under strict first sequences, nor with one record."""
    model = load_model("idempotent")
    never = scope_of(model, where[0]).never
    unmet = {"client_bumps_epoch"} if where in (RETRIES, FEW_PARTITIONS) else set()
    happened = model.rules.keys() & live(*where).happened()
    assert allowed_events(*where) - never.keys() == happened | unmet


@pytest.mark.full
@pytest.mark.parametrize("where", SIZES, ids=lambda where: where[0])
def test_normal_forms_exclude_no_event(where):
    model, (scope, variant) = load_model("idempotent"), where
    machine = lift(model, configuration_of(model, scope, variant), scope).machine
    rules = specialise(with_constant_inputs(machine)).rules
    assert {rule.rule for rule in rules if rule.guard is not FALSE} == allowed_events(*where)


def test_each_scope_is_looked_at():
    assert {scope.partition("/")[0] for scope, _ in SIZES} == load_model(
        "idempotent"
    ).liveness.SCOPES.keys()


def test_each_property_is_asked_with_each_of_its_assumptions_dropped():
    rows = {(p.name, a) for p in load_model("idempotent").liveness.EVENTUALLY for a in p.under}
    assert rows == NEEDED.keys()
    assert {a for _, a in rows} == load_model("idempotent").liveness.ASSUMPTIONS.keys()


@pytest.mark.parametrize(("name", "dropped"), NEEDED)
def test_each_assumption_is_needed(name, dropped):
    where, stem, loop = NEEDED[name, dropped]
    report = live(*where).report(dropped, only=[name])
    (outcome,) = report.outcomes
    assert dropped not in outcome.fairness
    assert report.verdict == "violated"
    assert shape(outcome.lasso) == (stem, loop)
    (twin,) = live(*where).report(only=[name]).outcomes
    assert (twin.holds, twin.exercised) == (True, True)


def shape(lasso: Lasso) -> tuple[int, int]:
    """How many steps come before the loop, and how many are in it."""
    return lasso.stem, len(lasso.trace.steps) - lasso.stem


def test_a_lasso_is_a_trace_that_replays_and_closes():
    report = live(*STREAM).report("restarts_end", only=["bumps_end"])
    lasso = report.outcome("bumps_end").lasso
    trace = loads(dumps(lasso.trace))
    assert trace == lasso.trace
    assert trace.header.loop == lasso.stem
    worlds = replay(trace)
    assert worlds[lasso.stem] == worlds[-1]
    assert worlds[lasso.stem] != worlds[lasso.stem + 1]


def test_a_lasso_is_told_with_the_numbers_that_a_run_has():
    """Its loop is a spiral: each restart costs an epoch, and epochs grow."""
    lasso = live(*STREAM).report("restarts_end", only=["bumps_end"]).outcome("bumps_end").lasso
    told = text(lasso.story, with_changes=False)
    before, after = told.split("for ever:\n")
    assert "producer_epoch=1" not in before
    assert "The producer takes the next epoch by itself." in after
    assert "producer_epoch=1 base_sequence=0" in after
    assert "producer 0  producer_epoch: 0 -> 1" in text(lasso.story).partition("for ever:\n")[2]
    before_loop, after_loop = (lasso.story.logs[i][0].marks for i in (lasso.stem, -1))
    assert dict(after_loop)["high watermark"] > dict(before_loop)["high watermark"]


def test_where_nothing_more_happens_the_story_says_so():
    lasso = live(*RETRIES).report("retries", only=["makes_progress"]).outcomes[0].lasso
    assert text(lasso.story).endswith("and nothing happens any more\n")


# What Kafka does not guarantee


def test_any_first_sequence_lets_a_batch_be_refused_for_ever():
    """KAFKA-14359: the second batch is stored while the first is refused, and then the first is
    out of sequence for ever, and its producer does not see that it is the next."""
    report = live("live-retries/records=3", "4.3.1").report()
    outcome = report.outcome("makes_progress")
    assert not outcome.guaranteed
    assert not outcome.holds
    assert report.verdict == "holds"
    assert shape(outcome.lasso) == (7, 3)
    told = text(outcome.lasso.story, with_changes=False).split("for ever:\n")[1]
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in told
    assert "takes the next epoch" not in told


def test_a_deadline_ends_what_is_refused_for_ever():
    assert live(*TIMEOUTS).report().outcome("completes").holds


def test_after_the_wrap_plain_numbers_never_say_that_a_batch_is_next():
    raw = live("live-stream/records=3/breaks=0", "4.3.1").report(only=["makes_progress"])
    outcome = raw.outcome("makes_progress")
    assert (outcome.guaranteed, outcome.holds) == (False, False)
    assert live(*STREAM).report(only=["makes_progress"]).outcome("makes_progress").holds


def test_a_producer_that_counts_its_retries_gives_up_and_that_is_no_fault():
    report = live("live-restarts/records=3", "4.3.1/retries=one").report()
    outcome = report.outcome("makes_progress")
    assert (outcome.guaranteed, outcome.holds, report.verdict) == (False, False, "holds")
    assert live("live-restarts/records=3", "4.3.1/acks=leader").report().verdict == "holds"


# Planted bugs

NEVER_RETRIES = Patch(
    "client.waiting", "replace(b, outstanding=False, attempts=1 if counts_attempts(k) else 0)", "b"
)
REFUSES_DUPLICATES = Patch(
    "leader.on_produce",
    "success(k, leader, batch, known.last_offset - known.offset_delta)",
    "refusal(leader, batch, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)",
)
BUMPS_FOR_EVER = Patch("recovery.bump_epoch", "EMPTY_SET", "client.bump_for")
FORGETS_TO_RESOLVE = Patch(
    "recovery.is_resolvable", "len(entry.in_flight) == 0", "len(entry.in_flight) == 1"
)


@pytest.mark.parametrize(
    ("patch", "where", "broken"),
    [
        (NEVER_RETRIES, RETRIES, {"makes_progress"}),
        (REFUSES_DUPLICATES, RETRIES, {"makes_progress", "bumps_end"}),
        (
            BUMPS_FOR_EVER,
            RESTARTS,
            {"makes_progress", "bumps_end", "bumps_happen", "retries_go_out"},
        ),
        (FORGETS_TO_RESOLVE, ("live-timeouts/records=3/breaks=0", "4.3.1"), {"sequences_resolve"}),
    ],
)
def test_a_planted_bug_breaks_what_it_must(patch, where, broken):
    report = live(*where, patch).report()
    assert report.verdict == "violated"
    assert {o.name for o in report.outcomes if not o.holds} == broken
    for outcome in report.outcomes:
        if outcome.lasso is not None:
            replay(outcome.lasso.trace)


# What cannot be answered


def test_a_scope_too_small_for_its_assumptions_decides_nothing():
    patch = Patch("world.can_append", "len(leader.log) < k.bounds.log", "len(leader.log) < 1")
    report = live("live-restarts/records=3", "4.3.1", patch).report()
    assert "delivery" in report.cut
    assert report.verdict in ("undecided", "violated")


def test_bad_use_is_named():
    with pytest.raises(UnknownScope, match=r"idempotent-tiny ends.*live-retries"):
        explore_live("idempotent-tiny")
    with pytest.raises(UnknownScope, match="live-retries goes on for ever"):
        explore_scope("live-retries", engine="source")
    with pytest.raises(UnknownScope, match="no scope is called 'live-nothing'"):
        explore_live("live-nothing")
    with pytest.raises(UnknownAssumption, match=r"nothing here rests on 'hope'.*delivery"):
        live(*RETRIES).report("hope")
    with pytest.raises(ValueError, match="engine is 'tlc'; choose one of c, ints, source"):
        explore_live("live-retries", engine="tlc")
