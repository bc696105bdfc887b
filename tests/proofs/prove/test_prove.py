"""The proofs: what is proved, and that a planted bug makes its own obligation fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from proofs.lift.text import Patch, patched, plain
from proofs.mutants import find
from proofs.prove import verb
from proofs.prove.dropped import DROPPED, trace_without
from proofs.prove.in_scope import check_scope, compiled
from proofs.prove.invariant import PROMISED
from proofs.prove.ranges import check_ranges
from proofs.prove.run import (
    CHECKED_SCOPES,
    RANGED_SCOPES,
    counterexample,
    never_taken,
    subject,
)
from proofs.prove.solvers import SOLVERS, ask
from proofs.prove.steps import Steps
from proofs.prove.theorems import (
    ASSUMPTIONS,
    COVERED,
    EVERYWHERE,
    LEFT_OUT,
    THEOREMS,
    plan,
    setting,
)
from proofs.trace.replay import setting_of

BY_NAME = {t.name: t for t in THEOREMS}


def results(
    theorem: str,
    variant: str | None = None,
    patches: Sequence[Patch] = (),
    *,
    solver: str = "z3",
    only: str = "",
) -> dict[str, str]:
    """What a solver says of a theorem's obligations whose names contain `only`."""
    asked = plan(patched(patches), (BY_NAME[theorem],), lambda t: variant or t.variant)
    chosen = [d.obligation for d in asked.duties if only in d.obligation.name]
    return {o.name: ask(solver, o.text, timeout_s=5).result for o in chosen}


def test_the_plan_names_each_obligation_and_what_needs_no_solver() -> None:
    asked = plan(plain(), THEOREMS, lambda t: t.variant)
    assert len(asked.duties) == 952
    assert len(asked.unchanged) == 1576
    assert {name for d in asked.duties for name in d.needed_by} == set(BY_NAME)


def test_z3_proves_every_eighth_obligation() -> None:
    """All of them are the verb's own work."""
    asked = plan(plain(), THEOREMS, lambda t: t.variant)
    duties = asked.duties[::8]
    found = {(d.needed_by, d.obligation.name): ask("z3", d.obligation.text) for d in duties}
    assert {name for name, answer in found.items() if answer.result != "proved"} == set()


def test_every_rule_of_the_world_is_a_step_or_left_out_by_an_assumption() -> None:
    model = plain()
    assert set(COVERED) | set(LEFT_OUT) == set(model.rules)
    assert not set(COVERED) & set(LEFT_OUT)
    steps = Steps(model, setting(model, "4.3.1")).all()
    assert {step for names in COVERED.values() for step in names} == {s.rule for s in steps}
    assert set(LEFT_OUT.values()) <= set(EVERYWHERE)
    assert all(set(t.assumptions) <= set(ASSUMPTIONS) for t in THEOREMS)


@pytest.mark.parametrize("theorem", ["duplicate_is_answered", "sequences_wrap"])
def test_cvc5_agrees(theorem: str) -> None:
    assert set(results(theorem, solver="cvc5").values()) == {"proved"}


@pytest.mark.parametrize(
    ("theorem", "variant", "patch", "obligation"),
    [
        ("no_gap", "4.3.1", None, "on_produce/no_gap"),
        ("remembers_five", "4.3.1", None, "restart/remembers_five"),
        (
            "at_most_once",
            None,
            Patch("leader.check_producer_epoch", "Error.INVALID_PRODUCER_EPOCH", "Error.NONE"),
            "on_produce/accepted_follows/3",
        ),
        (
            "acked_is_stored",
            None,
            find("gap_dropped_silently").patches[0],
            "on_produce/duplicate_is_the_same/3",
        ),
        ("order_kept", "4.3.1", None, "on_produce/log_is_whole"),
        (
            "order_kept",
            None,
            Patch("client.has_old_batches", "len(entry.in_flight) > 0", "False"),
            "send_new/in_flight_was_numbered/1",
        ),
        (
            "order_within_epoch",
            None,
            find("reassign_in_heap_order").patches[0],
            "bump_epoch/in_flight_in_order/3",
        ),
        (
            "why_five",
            None,
            Patch("leader.remember", "k.layout.window", "k.layout.window - 1"),
            "remember/window_is_the_last/length",
        ),
        (
            "sequences_wrap",
            None,
            Patch("leader.in_sequence", "last == k.layout.max_sequence", "last == -2"),
            "in_sequence/accepts_the_successor",
        ),
        (
            "duplicate_is_answered",
            None,
            Patch(
                "leader.is_duplicate",
                "last_sequence(k, batch) == remembered.last_sequence",
                "last_sequence(k, batch) < remembered.last_sequence",
            ),
            "on_produce/duplicate_0_is_answered",
        ),
        (
            "acked_is_stored",
            None,
            Patch("leader.advance_high_watermark", "log_end_offset(leader.log)", "0"),
            "advance_high_watermark/acked_is_stored",
        ),
    ],
)
def test_a_planted_bug_fails_its_own_obligation(
    theorem: str, variant: str | None, patch: Patch | None, obligation: str
) -> None:
    assert set(results(theorem, only=obligation).values()) <= {"proved"}
    found = results(theorem, variant, [patch] if patch else [], only=obligation)
    assert list(found) == [obligation]
    assert found[obligation] != "proved"


def test_five_are_too_few_for_six() -> None:
    """Without F <= W the proof of why_five must fail."""
    asked = plan(plain(), (BY_NAME["why_five"],), lambda t: t.variant)
    (text,) = (d.obligation.text for d in asked.duties if "no_false_error" in d.obligation.name)
    without = text.replace("(assert (<= |in_flight| |window|))\n", "")
    assert without != text
    assert ask("z3", text).result == "proved"
    assert ask("z3", without, timeout_s=2).result != "proved"


@pytest.mark.parametrize("name", DROPPED)
def test_a_dropped_assumption_is_answered_by_a_trace(name: str) -> None:
    found = trace_without(name, DROPPED[name])
    assert found is not None
    assert found.property == DROPPED[name].property
    assert 0 < found.events <= 25


def test_the_clauses_hold_in_every_state_of_a_scope_and_each_rule_fires_there() -> None:
    model = plain()
    variant = model.variants.parse("first_sequence=strict/restart_window=full")
    k = model.scopes.SCOPES["idempotent-tiny"].setting(variant)
    found = check_scope(model, k, "idempotent-tiny")
    assert found.failed == ()
    assert {"client_sends", "request_arrives", "answer_arrives", "leader_restarts"} <= set(
        found.firings
    )


def test_small_scopes_take_the_steps_that_trouble_needs() -> None:
    model = plain()
    names = [name for name in CHECKED_SCOPES if name not in RANGED_SCOPES]
    checks = [
        check_scope(model, setting_of(model, name, CHECKED_SCOPES[name] or ""), name)
        for name in names
    ]
    assert [check.failed for check in checks] == [()] * len(names)
    assert set(never_taken(checks)) <= {"client_bumps_epoch", "leader_restarts"}


def test_a_wrong_clause_fails_in_scope() -> None:
    """no_gap is not true under 4.3.1's own rule; the check in scope must see it."""
    from proofs.explore.source import source_graph
    from proofs.prove.in_scope import Facts
    from proofs.prove.state import Builder

    model = plain()
    k = model.scopes.SCOPES["idempotent-tiny"].setting(model.variants.parse("4.3.1"))
    check = compiled(PROMISED["no_gap"].formula(Builder(model, k).state()))
    worlds = source_graph(model, k, "idempotent-tiny").worlds
    assert not all(check(Facts(model, k, world)) for world in worlds)


def test_ranges_are_decided_and_a_wrong_one_is_found() -> None:
    model = plain()
    k = model.scopes.SCOPES["idempotent-tiny"].setting(model.variants.parse("4.3.1"))
    found = check_ranges(model, k, "idempotent-tiny")
    assert found.failed == ()
    assert found.claims == found.by_interval + found.by_z3 + found.by_search
    assert min(found.by_interval, found.by_z3, found.by_search) > 0
    wrong = patched([Patch("leader.append", "stored.base_offset + batch.record_count", "99")])
    (broken,) = check_ranges(wrong, k, "idempotent-tiny").failed
    assert "high_watermark" in broken


def test_a_failed_promise_is_answered_by_a_trace() -> None:
    found = counterexample(BY_NAME["no_gap"], subject(plain(), None, "4.3.1"))
    assert found is not None
    assert found.finding.property == "no_gap"
    assert 0 < found.finding.events <= 25


def test_below_is_no_duplicate_where_any_first_sequence_is_accepted() -> None:
    """The condition of out_of_order_as_duplicate is needed: its own clause fails without it."""
    name = "on_produce/log_is_whole"
    assert set(results("out_of_order_as_duplicate", only=name).values()) == {"proved"}
    found = results("out_of_order_as_duplicate", "4.3.1", only=name)
    assert "proved" not in found.values()


def test_the_verb_answers_a_failure_with_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    mutant = ["--mutant", "sequence_wraps_negative"]
    code = verb.main(["--only", "sequences_wrap", *mutant, "--json", str(file)])
    report = json.loads(file.read_text(encoding="utf-8"))
    assert code == 1
    assert report["verdict"] == "violated"
    (found,) = report["counterexamples"]
    assert found["property"] == "no_false_error"
    assert 0 < found["events"] <= 25
    failed = {o["name"] for o in report["obligations"] if o["result"] != "proved"}
    assert failed == {"in_sequence/accepts_the_successor"}
    assert set(SOLVERS) == {o["solver"] for o in report["obligations"]}


def test_an_unknown_theorem_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert verb.main(["--only", "everything"]) == 2
    assert "choose one of at_most_once" in capsys.readouterr().err
