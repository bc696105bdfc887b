"""Every scope's exact counts, by every engine; what is guaranteed holds; traces replay."""

import dataclasses
from itertools import product

import pytest

from proofs.explore import engines
from proofs.explore.engines import EnginesDisagree
from proofs.explore.expected import BY_NAME_ONLY, EXPECTED
from proofs.explore.result import Interrupted
from proofs.explore.scope import UnknownEngine, explore_scope
from proofs.explore.source import explore_source, instances, source_graph
from proofs.lift.build import lift
from proofs.lift.compiler import NoCompiler
from proofs.lift.patch import Patch, PatchError
from proofs.lift.source import COMPOSITIONS, load_model
from proofs.trace.replay import UnknownScope, configuration_of, replay
from tests.sizes import sized

SLOWER = {"ints": (4_000, 20_000), "source": (600, 2_000)}
"""Slower engines count the scopes with fewer states than these as well: in the suite, in full."""
FAST = {"idempotent-tiny", "producer-ids-alone", "transactions-tiny", "transactions-trouble"}
CORE = (
    "idempotent-small",
    "idempotent-tiny",
    "idempotent-default",
    "idempotent-restart",
    "idempotent-failover",
    "idempotent-partitions",
)
"""What can be seen under every variant; the other scopes are each about something of its own."""
VARIANTS = (
    "4.3.1",
    "first_sequence=strict",
    "restart_window=full",
    "first_sequence=strict/restart_window=full",
)
BEST = VARIANTS[-1]


def counted(report):
    counts = report.counts
    return counts.distinct, counts.transitions, counts.depth


def test_all_scopes_has_expected_counts():
    models = [load_model("idempotent"), *map(load_model, COMPOSITIONS)]
    known = {scope for model in models for scope in model.scopes.SCOPES}
    assert EXPECTED.keys() == known


LONG = {"idempotent-medium", *BY_NAME_ONLY}
COUNTED = FAST | {
    "idempotent-default",
    "idempotent-small",
    "idempotent-failover",
    "idempotent-expiry",
    "idempotent-timeout",
    "idempotent-split",
    "idempotent-exhausted",
    "idempotent-too-large",
    "idempotent-unlucky",
    "idempotent-replicas",
    "producer-ids",
    "processing",
    "processing-three",
    "transactions-default",
    "transactions-writes",
    "transactions-leaderless",
    "transactions-in-flight-rejection",
}
"""Of the quick ones, one of each kind; in the suite other tests explore or walk most others."""


def marked(name):
    """Compiling all scopes takes two minutes."""
    return pytest.param(
        name,
        marks=[
            *([pytest.mark.fast] if name in FAST else []),
            *([] if name in COUNTED else [pytest.mark.full]),
        ],
    )


@pytest.mark.parametrize("scope", [marked(name) for name in EXPECTED if name not in LONG])
def test_counts_are_exact_and_engines_agree_on_everything(scope):
    """Integers where the scope is small, the source where it is tiny."""
    report = explore_scope(scope, engine="c", workers=2)
    assert counted(report) == dataclasses.astuple(EXPECTED[scope])
    assert report.verdict == "holds"
    assert report.counts.complete
    assert report.counts.collision_bound < 1e-9
    assert sum(report.counts.levels) == report.counts.distinct
    assert sum(report.counts.firings.values()) == report.counts.transitions
    for engine, (states, _) in SLOWER.items():
        if report.counts.distinct < states:
            assert comparable(explore_scope(scope, engine=engine).counts) == comparable(
                report.counts
            )


@pytest.mark.full
@pytest.mark.parametrize(
    ("engine", "scope"),
    [
        (engine, scope)
        for engine, (suite, full) in SLOWER.items()
        for scope, expected in EXPECTED.items()
        if suite <= expected.distinct < full
    ],
)
def test_slower_engines_agree_in_larger_scopes(engine, scope):
    """`make explore` compares still larger ones."""
    counts = explore_scope(scope, engine=engine).counts
    assert comparable(counts) == comparable(explore_scope(scope, engine="c", workers=2).counts)


def comparable(counts):
    """What any engine must count."""
    return dataclasses.replace(counts, engine="", peak_bytes=0)


BETWEEN = [
    (scope, variant)
    for scope in ("idempotent-small", "idempotent-default", "idempotent-partitions")
    for variant in VARIANTS
    if variant != BEST
]
"""Larger scopes under other variants than the best."""


@pytest.mark.parametrize(("scope", "variant"), sized(product(CORE, VARIANTS), BETWEEN))
def test_what_is_guaranteed_holds(scope, variant):
    report = explore_scope(scope, variant, engine="c", workers=2)
    assert report.verdict == "holds"
    witnesses = {w.name for w in load_model("idempotent").guarantees.WITNESSES}
    assert set(report.witnesses) == witnesses - {"something_failed", "epochs_are_used_up"}
    assert not any(found.guaranteed for found in report.violations)
    if variant == BEST:
        assert {found.property for found in report.violations} <= {"no_false_error"}


@pytest.mark.parametrize("variant", ["4.3.1", BEST])
def test_a_batch_refused_for_good_makes_the_next_epoch_store_another_twice(variant):
    """KAFKA-14034: 10 steps, of which 7 are events of the protocol."""
    report = explore_scope("idempotent-rejection", variant, engine="c", workers=2)
    (found,) = [found for found in report.violations if found.property == "acked_once"]
    assert (found.guaranteed, found.steps, found.events) == (False, 10, 7)
    assert not any(found.guaranteed for found in report.violations)


@pytest.mark.parametrize("scope", ["transactions-rejection", "transactions-in-flight-rejection"])
def test_a_stored_batch_refused_for_good_costs_v1_a_record_of_the_next_transaction(scope):
    report = explore_scope(scope, "v1", engine="c", workers=2)
    (found,) = [found for found in report.violations if found.property == "no_lost_write"]
    assert (found.guaranteed, found.steps) == (False, 16)
    assert not any(found.guaranteed for found in report.violations)
    told = explore_scope(f"{scope}/unheard=0", "v1", engine="c", workers=2)
    assert "no_lost_write" not in {found.property for found in told.violations}


OLDER = list(
    product(
        ("idempotent-tiny", "idempotent-timeout", "idempotent-deletion", "idempotent-split"),
        ("2.0.0", "2.4.1"),
    )
)


@pytest.mark.parametrize(("scope", "release"), sized(OLDER, OLDER[3:]))
def test_what_older_releases_guarantee_holds(scope, release):
    report = explore_scope(scope, release, engine="c", workers=2)
    assert report.verdict == "holds"
    assert not any(found.guaranteed for found in report.violations)


@pytest.mark.parametrize(
    ("variant", "kept", "broken"),
    [
        ("at-most-once", {"at_most_once"}, {"acked_is_stored", "order_kept"}),
        ("at-least-once", {"acked_is_stored"}, {"at_most_once", "order_kept"}),
        ("exactly-once", {"at_most_once", "acked_is_stored"}, set()),
    ],
)
def test_three_configurations_are_named_after_what_they_guarantee(variant, kept, broken):
    violated = {f.property for f in explore_scope("delivery", variant, engine="ints").violations}
    assert not kept & violated
    assert broken <= violated


@pytest.mark.parametrize(
    ("variant", "counts", "broken"),
    [
        (
            "at-most-once",
            (24, 26, 6),
            {
                "acked_is_stored": 1,
                "no_gap": 2,
                "order_kept": 5,
                "acked_once": 1,
                "acked_is_replicated": 1,
                "requests_are_awaited": 1,
                "last_acked_is_the_latest": 4,
                "no_gap_behind_first": 4,
            },
        ),
        (
            "at-least-once",
            (277, 426, 15),
            {
                "at_most_once": 5,
                "no_gap": 2,
                "acked_once": 6,
                "last_acked_is_the_latest": 6,
                "no_gap_behind_first": 5,
            },
        ),
        ("exactly-once", (141, 267, 12), {}),
    ],
)
def test_one_request_in_flight_keeps_the_order_where_answers_are_awaited(variant, counts, broken):
    """Without idempotence, too: that is what it was for before there was any."""
    report = explore_scope("delivery-one-in-flight", variant, engine="ints")
    assert report.verdict == "holds"
    assert report.counts.complete
    assert counted(report) == counts
    assert {f.property: f.steps for f in report.violations} == broken
    [order] = [p for p in load_model("idempotent").guarantees.GUARANTEES if p.name == "order_kept"]
    k = configuration_of(load_model("idempotent"), report.scope, report.variant)
    assert order.guaranteed(k) is (variant == "at-least-once")


def test_what_is_not_guaranteed_is_shown_and_is_no_fault():
    report = explore_scope("idempotent-tiny", engine="ints")
    found = {f.property: (f.guaranteed, f.steps, f.events) for f in report.violations}
    assert found == {
        "no_gap": (False, 4, 2),
        "order_kept": (False, 11, 7),
        "acked_once": (False, 12, 8),
        "no_false_error": (False, 7, 4),
    }
    for finding in report.violations:
        world = replay(finding.trace)[-1]
        guarantee = next(
            p for p in load_model("idempotent").guarantees.GUARANTEES if p.name == finding.property
        )
        assert not guarantee.check(
            configuration_of(load_model("idempotent"), report.scope, report.variant), world
        )
    assert report.found("at_most_once") is None


WINDOW = Patch("leader.is_duplicate", "batch.producer_epoch == entry.producer_epoch", "False")


@pytest.mark.parametrize("engine", ["source", "ints", "c"])
def test_a_patch_that_breaks_a_guarantee_is_violated(engine):
    report = explore_scope("idempotent-tiny", BEST, patches=[WINDOW], engine=engine, stop=True)
    assert report.verdict == "violated"
    assert not report.counts.complete
    assert [f.property for f in report.violations if f.guaranteed] == ["acked_once"]
    assert report.violations[0].trace.header.patches == (
        (WINDOW.function, WINDOW.before, WINDOW.after),
    )
    replay(report.violations[0].trace)


def test_stop_looks_for_faults_only():
    assert explore_scope("idempotent-tiny", engine="ints", stop=True).violations == ()


def test_a_depth_that_ends_the_search_decides_nothing():
    report = explore_scope("idempotent-tiny", engine="source", max_depth=3)
    assert report.verdict == "undecided"
    assert report.counts.depth == 3


def test_budgets_by_hand_are_part_of_the_name():
    report = explore_scope("idempotent-tiny", engine="source", budgets={"restarts": 0})
    assert report.scope == "idempotent-tiny/restarts=0"
    assert report.counts.distinct < EXPECTED["idempotent-tiny"].distinct


BAD = {
    "scope": ({"scope_name": "idempotent-tny"}, UnknownScope, "idempotent-tiny"),
    "variant": ({"variant_text": "1.0"}, ValueError, "4.3.1"),
    "rule": ({"variant_text": "speed=high"}, ValueError, "first_sequence"),
    "engine": ({"engine": "steam"}, UnknownEngine, "source"),
    "patch": ({"patches": [Patch("a.b", "c", "d")]}, PatchError, "no function"),
}


@pytest.mark.parametrize(("change", "error", "lists"), BAD.values(), ids=BAD)
def test_a_bad_name_is_refused_with_those_that_there_are(change, error, lists):
    arguments = {"scope_name": "idempotent-tiny", "engine": "ints", **change}
    with pytest.raises(error, match=lists):
        explore_scope(**arguments)


def test_without_a_compiler_integers_stand_in_and_one_line_says_so(monkeypatch):
    def no_compiler(machine, engine, **how):
        if engine == "c":
            raise NoCompiler("no C compiler: install one")
        return real(machine, engine, **how)

    real = engines.explore
    monkeypatch.setattr(engines, "explore", no_compiler)
    said: list[str] = []
    report = explore_scope("idempotent-restart", engine="c", say=said.append)
    assert report.counts.engine == "ints"
    assert len(said) == 1
    assert "no C compiler: install one" in said[0]


def test_an_engine_whose_trace_does_not_run_is_a_defect_of_ours(monkeypatch):
    def wrong(job):
        counts = engines.by_source(job)
        holds = counts.witnesses["something_acknowledged"]
        return dataclasses.replace(counts, violations={"no_gap": holds})

    monkeypatch.setitem(engines.ENGINES, "wrong", wrong)
    with pytest.raises(EnginesDisagree, match="no_gap holds"):
        explore_scope("idempotent-tiny", engine="wrong")


def test_an_interruption_gives_what_was_found(monkeypatch):
    def interrupt(now):
        raise KeyboardInterrupt

    monkeypatch.setattr("proofs.explore.explorer.PROGRESS_SECONDS", 0.0)
    report = explore_scope("idempotent-tiny", engine="source", progress=interrupt)
    assert report.verdict == "undecided"
    assert report.counts.interrupted
    with pytest.raises(Interrupted):
        explore_source(
            load_model("idempotent"),
            configuration_of(load_model("idempotent"), "idempotent-tiny", "4.3.1"),
            "x",
            progress=interrupt,
        )


def test_instances_are_in_the_order_of_the_lifted_machine():
    k = configuration_of(load_model("idempotent"), "idempotent-partitions", "4.3.1")
    lifted = [
        (rule.rule, rule.choice) for rule in lift(load_model("idempotent"), k, "x").machine.rules
    ]
    of_source = [
        instance for instance in instances(load_model("idempotent"), k) if instance in lifted
    ]
    assert of_source == lifted


def test_a_graph_has_every_world_and_transition():
    k = configuration_of(load_model("idempotent"), "idempotent-tiny", "4.3.1")
    graph = source_graph(load_model("idempotent"), k, "tiny")
    assert (len(graph.worlds), len(graph.edges)) == (1352, 3331)
    assert len(set(graph.worlds)) == 1352
