"""Systematic mutants: which there are, what configurations make of one, what is said of
survivors."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from proofs.__main__ import main
from proofs.explore.result import SearchProgress
from proofs.explore.scope import explore_scope
from proofs.lift.patch import Patch
from proofs.lift.source import model_for
from proofs.live.check import PropertyOutcome
from proofs.mutants import survivors
from proofs.mutants.baseline import Overgrown
from proofs.mutants.survivors import (
    CONFIGURATIONS,
    FATES,
    FOUND,
    IN_THE_END,
    REFUSED,
    fate_in_configurations,
    fate_in_the_end,
    fate_of,
    few_enough,
    ground,
)
from proofs.mutants.systematic import (
    MUTATED,
    SystematicMutant,
    UnknownFunction,
    every_point,
    explanation,
    functions_that_act,
    model_of,
    sample,
)
from proofs.mutants.table import EQUIVALENT
from proofs.run.journal import Journal
from proofs.trace.replay import configuration_of
from proofs.verbs import mutants as verb
from tests.sizes import sized

SMALL = {
    "idempotent": [("idempotent-restart", survivors.BEST)],
    "transactions": [("transactions-trouble", "v1")],
}
NUMBERS = [
    ("idempotent-tiny", survivors.BEST),
    ("idempotent-wrap", survivors.WRAPS),
    ("idempotent-wrap-across", survivors.WRAPS),
    ("idempotent-tiny", "first_sequence=strict"),
]
CHANGED = (
    "leader.check_producer_epoch",
    "leader.in_sequence",
    "leader.remember",
    "messages.increment_sequence",
    "messages.decrement_sequence",
    "messages.last_sequence",
)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr("proofs.mutants.survivors.CONFIGURATIONS", SMALL)
    monkeypatch.setattr("proofs.mutants.survivors.IN_THE_END", dict.fromkeys(SMALL, ()))


# Which there are


def test_every_function_that_acts_is_changed_and_no_limit_of_a_scope():
    acting = {group: set(functions_that_act(model_of(group))) for group in MUTATED}
    assert acting["idempotent"] >= {
        "leader.on_produce",
        "responses.retry",
        "world.client_sends",
    }
    assert acting["transactions"] >= {
        "end_txn.on_end_txn",
        "delayed_messages.arriving",
        "world.produced",
    }
    assert not acting["idempotent"] & {"world.allows", "world.may_write", "language.rule"}
    assert not acting["transactions"] & {"world.room_in_log", "guarantees.no_lost_write"}


def test_what_a_scope_limits_is_left_alone():
    sends = [p for p in every_point() if p.patch.function == "world.client_sends"]
    assert sends == []


def test_there_are_enough_of_them_and_each_is_another_one():
    points = every_point()
    assert len({(point.group, point.says) for point in points}) == len(points)
    assert all(sum(point.group == group for point in points) > 300 for group in MUTATED)


def test_so_many_of_them_are_drawn_and_the_same_ones_for_a_seed():
    points = every_point("transactions")
    drawn = sample(points, 7, seed=3)
    assert drawn == sample(points, 7, seed=3) != sample(points, 7, seed=4)
    assert [p for p in points if p in drawn] == drawn
    assert sample(points, None, 0) == sample(points, len(points), 0) == points


def test_an_unknown_function():
    with pytest.raises(UnknownFunction, match=r"idempotent\.leader\.check_append"):
        every_point("idempotent.leader.nothing")
    with pytest.raises(UnknownFunction, match=r"transactions\.end_txn\.end_v2"):
        every_point("none")


# What a configuration makes of one


DRAWN = sample(every_point(), 10, seed=1)


@pytest.mark.parametrize("point", sized(DRAWN, DRAWN[::2]), ids=lambda p: p.says[:60])
def test_what_is_seen_of_a_change_is_what_the_explorer_finds(point):
    """The whole exploration of the changed model, against what is asked of states only."""
    [(scope, variant)] = SMALL[point.group]
    try:
        found = explore_scope(scope, variant, patches=[point.patch], engine="ints", stop=True)
    except REFUSED as refusal:
        with pytest.raises(type(refusal)):
            ground(scope, variant).see(model_for(scope, [point.patch]))
        return
    seen = ground(scope, variant).see(model_for(scope, [point.patch]))
    assert (seen.fate == "breaks") == (found.verdict == "violated")
    if seen.fate in ("same", "unmet"):
        plain = explore_scope(scope, variant, engine="ints", stop=True).counts
        assert replace(found.counts, peak_bytes=None) == replace(plain, peak_bytes=None)


def fate(text, before, after, group="idempotent"):
    return fate_of(SystematicMutant(group, Patch(text, before, after)))


def test_fates(small):
    assert fate("leader.append", "k.bounds.replicas == 1", "k.bounds.replicas <= 1").fate == "same"
    epoch = "batch.producer_epoch < entry.producer_epoch"
    assert fate("leader.check_producer_epoch", epoch, "batch.no_such_field").fate == "refused"
    harmless = fate("network.broken", "survivors > 0", "survivors > 1")
    assert (harmless.fate, harmless.scope) == ("survives", "idempotent-restart")
    assert harmless.how == "1 steps, connection_breaks(producer=0, partition=0, survivors=1)"
    last = fate("messages.last_sequence", "batch.record_count - 1", "batch.record_count")
    assert last.fate in ("breaks", "refused")
    open_for = ("leader.last_stable_offset", "first_open(k, leader)", "first_open(k, leader) + 1")
    assert fate(*open_for, group="transactions").fate in ("breaks", "refused")


def test_a_difference_that_no_state_shows_is_unmet(small):
    wrap = "following == 0 and last == k.bounds.max_sequence"
    assert fate("leader.in_sequence", wrap, "following == 0 and last < 0").fate == "unmet"


def test_what_happens_in_the_configuration_must_still_happen(small):
    """Nothing is broken by a producer that never sends again what is lost."""
    gone = Patch("client.send_again", "len(ready) > 0", "len(ready) > 1")
    seen = ground(*SMALL["idempotent"][0]).see(model_for("idempotent-restart", [gone]))
    assert (seen.fate, seen.how.partition("(")[0]) == ("loses", "client_retries")


def in_the_end(monkeypatch, *outcomes):
    """What `fate_in_the_end` says where the unbounded scopes have these outcomes."""
    live = SimpleNamespace(report=lambda: SimpleNamespace(outcomes=outcomes))
    monkeypatch.setattr("proofs.mutants.survivors.explore_live", lambda *_, **__: live)
    return fate_in_the_end(every_point("idempotent.client.send_again")[0])


def test_what_should_happen_in_the_end_need_not(monkeypatch):
    lasso = SimpleNamespace(trace=SimpleNamespace(steps=(1, 2, 3)))
    holds = PropertyOutcome("requests_end", True, (), True, None)
    asked = PropertyOutcome("bumps_end", False, (), True, lasso)
    assert in_the_end(monkeypatch, holds, asked) is None
    found = in_the_end(monkeypatch, holds, asked, replace(asked, name="completes", guaranteed=True))
    assert (found.fate, found.scope, found.how) == ("stalls", "live-timeouts", "completes, 3 steps")


def test_a_change_with_too_many_states_is_left_there():
    few_enough(SearchProgress(0, 0, 0, survivors.MOST_IN_THE_END, 0, 0.0))
    with pytest.raises(Overgrown):
        few_enough(SearchProgress(0, 0, 0, survivors.MOST_IN_THE_END + 1, 0, 0.0))


@pytest.mark.parametrize(
    "function", sized(CHANGED, {"leader.in_sequence", "messages.decrement_sequence"})
)
def test_a_small_change_of_what_numbers_batches_breaks_something_or_is_explained(
    function, monkeypatch
):
    monkeypatch.setattr("proofs.mutants.survivors.CONFIGURATIONS", {"idempotent": NUMBERS})
    for point in every_point(f"idempotent.{function}"):
        broken = fate_in_configurations(point).fate in FOUND
        assert broken == (explanation(point) is None), point.says


def test_what_is_explained_is_a_change():
    said = {group: {p.says for p in every_point(group)} for group in MUTATED}
    for group, rows in EQUIVALENT.items():
        assert rows.keys() <= said[group]
        assert all(rows.values())


def test_what_is_explained_breaks_nothing(small):
    """Some of the rows, in a small configuration: the verb asks them all, in every one."""
    rows = [p for p in every_point("idempotent") if explanation(p)]
    for point in sample(rows, 3, seed=2):
        assert fate_of(point).fate not in FOUND, point.says


def test_each_configuration_is_one():
    for group, configurations in IN_THE_END.items():
        assert all(
            configuration_of(model_of(group), *one).bounds.unbounded for one in configurations
        )
    for group, configurations in CONFIGURATIONS.items():
        assert all(scope.startswith((group, "delivery")) for scope, _ in configurations)
        assert len(set(configurations)) == len(configurations)


# The verb


def test_one_function_and_the_same_command_goes_on(tmp_path, capsys, small, monkeypatch):
    given = ["mutants", "--systematic", "--only", "idempotent.leader.check_producer_epoch"]
    out = ["--out", str(tmp_path / "out")]
    assert main([*given, *out]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [(row["fate"], row["found"], row["open"]) for row in report["mutants"]] == [
        ("breaks", True, False)
    ]
    said = capsys.readouterr().out
    assert (
        "1 of 1 tried: 1 breaks, 0 loses, 0 stalls, 0 refused, 0 disagrees, 0 same, 0 unmet" in said
    )
    assert "0 explained, 0 open" in said
    monkeypatch.setattr(verb, "fate_of", None)
    assert main([*given, *out]) == 0
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report
    assert main([*given, "--seed", "1", *out]) == 2


def test_what_breaks_nothing_is_open_until_someone_says_why(tmp_path, capsys, small, monkeypatch):
    given = ["mutants", "--systematic", "--only", "idempotent.recovery.with_closed_gap"]
    [point] = every_point("idempotent.recovery.with_closed_gap")
    monkeypatch.setattr("proofs.mutants.systematic.EQUIVALENT", {"idempotent": {}})
    assert main(given) == 1
    assert "NOT EXPLAINED: same" in capsys.readouterr().out
    told = {**EQUIVALENT, "idempotent": {point.says: "because"}}
    monkeypatch.setattr("proofs.mutants.systematic.EQUIVALENT", told)
    assert main(given) == 0
    assert "    because" in capsys.readouterr().out


def test_a_row_for_what_breaks_something_is_open(small, monkeypatch, capsys):
    [point] = every_point("idempotent.leader.check_producer_epoch")
    told = {**EQUIVALENT, "idempotent": {point.says: "because"}}
    monkeypatch.setattr("proofs.mutants.systematic.EQUIVALENT", told)
    assert (
        main(["mutants", "--systematic", "--only", "idempotent.leader.check_producer_epoch"]) == 1
    )
    assert "NOT EXPLAINED: breaks" in capsys.readouterr().out


def test_another_text_is_no_text_to_go_on_with(tmp_path, small, monkeypatch):
    given = ["mutants", "--systematic", "--only", "idempotent.leader.check_producer_epoch"]
    out = ["--out", str(tmp_path / "out")]
    assert main([*given, *out]) == 0
    monkeypatch.setattr(verb, "CONFIGURATIONS", CONFIGURATIONS | {"more": ()})
    assert main([*given, *out]) == 2


def test_ctrl_c_keeps_what_was_tried(tmp_path, small, monkeypatch, capsys):
    given = ["mutants", "--systematic", "--only", "idempotent.leader.check_sequence"]
    out = tmp_path / "out"
    fates = iter(every_point("idempotent.leader.check_sequence"))

    def stopped(point):
        if point != next(fates) or point.patch.before.startswith("len"):
            raise KeyboardInterrupt
        return fate_of(point)

    monkeypatch.setattr(verb, "fate_of", stopped)
    assert main([*given, "--out", str(out)]) == 3
    assert "the same command goes on from there" in capsys.readouterr().err
    assert len(Journal(out / "journal.jsonl")) == 1


def test_figures():
    rows = [
        {"fate": "breaks", "why": None, "open": False},
        {"fate": "survives", "why": "because", "open": False},
        {"fate": "unmet", "why": None, "open": True},
    ]
    found = verb.figures(rows)
    assert {name: found[name] for name in ("tried", "explained", "open")} == {
        "tried": 3,
        "explained": 1,
        "open": 1,
    }
    assert [found[fate] for fate in FATES] == [1, 0, 0, 0, 0, 0, 1, 1]
