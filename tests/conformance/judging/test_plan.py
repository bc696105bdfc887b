"""Plans: what is prepared, that ranges merge, that every transition is executed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.adapters.impl.judges import judge_range, shrink_finding
from conformance.campaigns.mutants import MUTANTS
from conformance.campaigns.mutants.patched_impl import hunt, hunt_unpatched
from conformance.judging.compositions import judged_composition
from conformance.judging.findings import Summary, steps_of
from conformance.judging.plan import BadPlan, Plan, PreparedPlan, compute_cover_bound, prepare
from conformance.judging.signatures import KEPT, signature_of
from conformance.verbs.run import with_own_rules
from model.idempotent.variants import DEFAULT_VARIANT
from proofs.lift.source import load_model
from proofs.trace.replay import Stepper, configuration_of
from tests.sizes import sized

TINY = Plan(scope="idempotent-tiny/breaks=1/refusals=0", traces=200)
Preparer = Callable[[Plan], PreparedPlan]


@pytest.fixture(scope="module")
def prepared_as(tmp_path_factory: pytest.TempPathFactory) -> Preparer:
    """Plans, each prepared once."""
    known: dict[Plan, PreparedPlan] = {}

    def ready(plan: Plan) -> PreparedPlan:
        if plan not in known:
            known[plan] = prepare(plan, tmp_path_factory.mktemp("prepared"))
        return known[plan]

    return ready


@pytest.mark.parametrize("on", ["bytes", "values"])
@pytest.mark.parametrize("actors", ["client,leader", "leader"])
def test_every_labelled_transition_is_executed(prepared_as: Preparer, actors: str, on: str) -> None:
    prepared = prepared_as(replace(TINY, actors=actors, on=on, traces_from=("cover",), traces=None))
    summary = judge_range(prepared, 0, prepared.count).summary
    assert prepared.transitions_total is not None
    assert summary.transitions_covered == prepared.transitions_total
    bits = np.unpackbits(np.frombuffer(summary.transitions, np.uint8), bitorder="little")
    assert bits[: prepared.transitions_total].all()
    assert (summary.divergences, summary.findings) == (0, {})
    assert summary.steps == prepared.steps_planned == prepared.cover_steps
    assert summary.rules == prepared.rules_total
    assert summary.branches < prepared.branches_total
    assert summary.error_codes <= prepared.error_codes_total


@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 200), max_size=4), order=st.randoms(use_true_random=False))
def test_any_grouping_of_ranges_gives_the_same_summary(
    prepared_as: Preparer, cuts: list[int], order: object
) -> None:
    prepared = prepared_as(replace(TINY, actors="leader", on="values"))
    bounds = [0, *sorted(cuts), prepared.count]
    parts = [judge_range(prepared, a, b).summary for a, b in pairwise(bounds)]
    order.shuffle(parts)  # type: ignore[attr-defined]
    total = Summary()
    for part in parts:
        total = pickle.loads(pickle.dumps(part)).merge(total)
    assert total == judge_range(prepared, 0, prepared.count).summary


def test_traces_are_runs_of_the_model(prepared_as: Preparer) -> None:
    prepared = prepared_as(TINY)
    assert prepared.count == 200
    assert 0 < prepared.cover_traces < prepared.count
    stepper = Stepper(
        load_model("idempotent"),
        configuration_of(load_model("idempotent"), TINY.scope, TINY.variant),
    )
    for number in range(0, prepared.count, 7):
        world = stepper.initial()
        for rule, choice in prepared.trace(number):
            world = stepper.apply(rule, choice, world)
    with pytest.raises(IndexError, match="trace 200: there are 200"):
        prepared.trace(200)


def test_preparing_again_loads(tmp_path: Path) -> None:
    told: list[str] = []
    first = prepare(TINY, tmp_path, lambda what, _part: told.append(what))
    assert "cutting the cover" in told
    files = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert prepare(TINY, tmp_path) == first == PreparedPlan.load(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    with pytest.raises(BadPlan, match="another plan was prepared"):
        prepare(replace(TINY, seed=1), tmp_path)
    with pytest.raises(BadPlan, match="nothing was prepared"):
        PreparedPlan.load(tmp_path / "elsewhere")


def test_two_preparations_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        prepare(TINY, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()


def test_the_bound_is_kept(tmp_path: Path) -> None:
    prepared = prepare(TINY, tmp_path)
    assert prepared.cover_bound is None
    known = compute_cover_bound(prepared)
    assert known.cover_bound is not None
    assert known.cover_steps is not None
    assert known.cover_bound <= known.cover_steps
    assert compute_cover_bound(known) is known
    assert PreparedPlan.load(tmp_path) == known


def test_faults_are_budgets(prepared_as: Preparer) -> None:
    rules = {}
    for faults in ("nodes", "connections", "none"):
        prepared = prepared_as(replace(TINY, faults=faults, traces=30))
        summary = judge_range(prepared, 0, prepared.count).summary
        assert summary.divergences == 0
        rules[faults] = prepared.rules_total
    assert "leader_restarts" in rules["nodes"] - rules["connections"]
    assert "connection_breaks" in rules["connections"] - rules["none"]


def test_hunts_alone_need_no_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.generate.graph.MAX_STATES", 10)
    prepared = prepare(replace(TINY, traces_from=("hunts",), traces=20), tmp_path / "hunts")
    assert (prepared.transitions_total, prepared.cover_steps) == (None, None)
    summary = judge_range(prepared, 0, prepared.count).summary
    assert (summary.traces, summary.divergences, summary.transitions) == (20, 0, b"")
    assert summary.rules
    for source in ("cover", "aimed"):
        with pytest.raises(BadPlan, match="take traces from pct, hunts"):
            prepare(replace(TINY, traces_from=(source,)), tmp_path / source)


def test_sources_of_hunts_take_turns(prepared_as: Preparer) -> None:
    both, aimed = (
        prepared_as(replace(TINY, traces_from=sources, traces=20))
        for sources in (("hunts", "aimed"), ("aimed",))
    )
    hunts = prepared_as(replace(TINY, traces_from=("hunts",), traces=20))
    assert [both.trace(n) for n in range(20)] == [(hunts, aimed)[n % 2].trace(n) for n in range(20)]
    assert judge_range(aimed, 0, 20).findings == []


def test_traces_of_pct_need_no_graph_and_are_the_same(
    prepared_as: Preparer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(TINY, traces_from=("pct", "hunts"), depth=2, traces=20)
    explored, alone = prepared_as(plan), prepared_as(replace(plan, traces_from=("hunts",)))
    monkeypatch.setattr("conformance.generate.graph.MAX_STATES", 10)
    walked = prepare(plan, tmp_path / "walked")
    assert walked.transitions_total is None
    pct, hunts = range(0, 20, 2), range(1, 20, 2)
    assert [walked.trace(n) for n in pct] == [explored.trace(n) for n in pct]
    assert [explored.trace(n) for n in hunts] == [alone.trace(n) for n in hunts]
    assert walked.threads_steps == explored.threads_steps
    assert (alone.threads, alone.threads_steps) == (None, None)


@pytest.mark.parametrize("scope", ["idempotent-restart", "transactions-tiny"])
def test_pct_is_a_function_of_seed_depth_and_id(
    prepared_as: Preparer, tmp_path: Path, scope: str
) -> None:
    """Nothing else: neither who prepared, nor how the ids are cut into ranges."""
    actors = judged_composition(scope).actors[0]
    plan = Plan(scope=scope, actors=actors, traces_from=("pct",), traces=30)
    prepared, again = prepared_as(plan), prepare(plan, tmp_path / "again")
    traces = [prepared.trace(number) for number in range(30)]
    assert [again.trace(number) for number in reversed(range(30))] == traces[::-1]
    whole = judge_range(prepared, 0, 30).summary
    assert whole.divergences == 0
    assert judge_range(again, 11, 30).summary.merge(judge_range(again, 0, 11).summary) == whole
    for other in (replace(plan, seed=1), replace(plan, depth=1)):
        assert [prepared_as(other).trace(number) for number in range(30)] != traces


@pytest.mark.xdist_group("mutants")
@pytest.mark.parametrize(
    "name", sized(["overlap_is_duplicate", "late_produce_hangs"], ["late_produce_hangs"])
)
def test_a_bug_that_is_planted_in_impl_is_found_by_pct(tmp_path: Path, name: str) -> None:
    mutant = MUTANTS[name]
    scope, variant = mutant.hunted_in.scope, mutant.hunted_in.variant or DEFAULT_VARIANT
    composition = judged_composition(scope)
    named = composition.model.variants.parse(with_own_rules(variant, "impl", scope)).name
    plan = Plan(
        scope=scope, variant=named, actors=composition.actors[0], traces_from=("pct",), traces=200
    )
    prepared = prepare(plan, tmp_path)
    finding = hunt(mutant, prepared.directory)
    assert finding is not None
    assert finding["one_minimal"]
    assert hunt_unpatched(prepared.directory) is None


def test_a_limit_cuts_the_cover(prepared_as: Preparer) -> None:
    whole = prepared_as(TINY)
    few = prepared_as(replace(TINY, traces=5))
    assert (few.count, few.cover_traces) == (5, 5)
    assert [few.trace(i) for i in range(5)] == [whole.trace(i) for i in range(5)]
    none = prepared_as(replace(TINY, traces=0))
    assert judge_range(none, 0, none.count).summary == Summary(transitions=b"\0" * 50)


def test_findings_are_counted_by_signature_and_shrunk(prepared_as: Preparer) -> None:
    """A variant that impl does not have stands for a defect."""
    plan = replace(TINY, variant="restart_window=full", actors="leader", traces=None)
    prepared = prepared_as(plan)
    summary, findings = judge_range(prepared, 0, prepared.count)
    assert summary.divergences == len(findings) > len(summary.findings)
    ids = [finding["id"] for finding in findings]
    assert ids == sorted(ids)
    for signature, found in summary.findings.items():
        same = [finding for finding in findings if signature_of(finding) == signature]
        assert (found.count, found.first_id) == (len(same), same[0]["id"])
        assert len(found.shortest) == min(found.count, KEPT)
        assert found.shortest[0]["steps"] == min(finding["steps"] for finding in same)
    late = judge_range(prepared, 60, prepared.count).summary
    assert late.merge(judge_range(prepared, 0, 60).summary) == summary
    shrunk = [shrink_finding(prepared, finding) for finding in findings[:3]]
    for finding in shrunk:
        assert json.loads(json.dumps(finding)) == finding
        assert finding["one_minimal"]
        assert finding["steps"] == len(steps_of(finding)) == 5
        assert finding["rule"] == "leader_restarts"
        assert finding["expected"].keys() == finding["observed"].keys()
        assert shrink_finding(prepared, finding) == finding


def test_plans_as_json() -> None:
    plan = replace(TINY, traces_from=("hunts",), traces=3)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert Plan.from_json({}) == Plan()
    with pytest.raises(BadPlan, match="unknown"):
        Plan.from_json({"colour": 1})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"system": "none"}, "choose one of impl"),
        ({"actors": "client"}, "choose one of client,leader, leader"),
        ({"on": "paper"}, "choose one of bytes, values"),
        ({"faults": "all"}, "choose one of nodes, connections, none"),
        ({"traces_from": ("dreams",)}, "traces come from cover, pct, hunts"),
        ({"traces_from": ()}, "traces come from cover, pct, hunts"),
        ({"traces": -1}, "must not be negative"),
        ({"depth": 0}, "depth is 0; it must be 1 to 200"),
        ({"scope": "huge"}, "no scope is called 'huge'"),
        ({"variant": "0.1"}, "release is '0.1'"),
    ],
)
def test_bad_plans_are_refused(wrong: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadPlan, match=said):
        prepare(replace(TINY, **wrong), tmp_path)  # type: ignore[arg-type]


def test_the_steps_of_a_finding_survive_json_which_sorts_choices() -> None:
    choice = (("producer", 0), ("partition", 0), ("connection", 1))
    finding = {"trace": [["late_request_arrives", dict(choice)]]}
    read = json.loads(json.dumps(finding, sort_keys=True))
    assert steps_of(read) == (("late_request_arrives", choice),)
