"""Systematic mutants: which there are, how they are named and planted, and the verdicts on them."""

import ast
import json
from collections import Counter

import pytest

from proofs.__main__ import main
from proofs.explore.result import SearchProgress
from proofs.explore.scope import explore_scope
from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, composition_of, load_model, model_folder
from proofs.run.files import REPOSITORY
from proofs.run.journal import Journal
from proofs.systematic_mutants import verdicts
from proofs.systematic_mutants.baseline import Overgrown
from proofs.systematic_mutants.changes import (
    SystematicMutant,
    UnknownSystematicMutant,
    changed_text,
    diff,
    every_mutant,
    functions_that_act,
    selected,
)
from proofs.systematic_mutants.operators import OPERATORS
from proofs.systematic_mutants.summary import REASONS, kept_page
from proofs.systematic_mutants.verdicts import CONFIGURATIONS, IN_THE_END, few_enough, verdict_on
from proofs.trace.replay import configuration_of
from proofs.verbs import systematic_mutants as verb
from tests.sizes import sized

pytestmark = pytest.mark.xdist_group("systematic mutants")  # to list them takes seconds

SMALL = (("idempotent-restart", verdicts.BEST), ("transactions-trouble", "v1"))
FORGETFUL = ("transactions-log-again", "v2")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(verdicts, "CONFIGURATIONS", SMALL)
    monkeypatch.setattr(verdicts, "IN_THE_END", ())
    monkeypatch.setattr(verdicts, "REFINED", ())
    monkeypatch.setattr(verdicts, "FURTHER", ())
    monkeypatch.setattr(verdicts, "first_lost", lambda _group, _patch: None)


# Which there are


def test_there_are_enough_and_each_has_its_name_and_is_another_one():
    mutants = every_mutant()
    assert len(mutants) >= 3_000
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    assert len({(mutant.group, mutant.patch) for mutant in mutants}) == len(mutants)
    assert set(Counter(mutant.group for mutant in mutants)) == set(COMPOSITIONS)
    kinds = {mutant.kind for mutant in mutants}
    assert kinds == {*OPERATORS, "check", "order"}


def test_every_function_that_acts_is_changed_and_no_limit_of_a_scope():
    acting = {group: set(functions_that_act(load_model(group))) for group in COMPOSITIONS}
    assert {"leader.on_produce", "responses.retry"} <= acting["idempotent"]
    assert {"end_txn.on_end_txn", "world.produced"} <= acting["transactions"]
    assert not acting["idempotent"] & {"world.allows", "world.may_write", "language.rule"}
    assert not acting["transactions"] & {"world.room_in_log", "guarantees.no_lost_write"}
    assert not any("within_scope" in mutant.patch.before for mutant in selected("*:constant:*"))


@pytest.mark.parametrize("number", range(60))
def test_a_mutant_is_a_patch_and_its_diff_is_the_same_change(number):
    mutant = selected(count=60, seed=1)[number]
    module = mutant.patch.function.partition(".")[0]
    path = model_folder() / mutant.group / f"{module}.py"
    planted = ast.parse(changed_text(path.read_text(), mutant.patch))
    name = module, mutant.patch.function.partition(".")[2]
    functions = {node.name: node for node in planted.body if isinstance(node, ast.FunctionDef)}
    patched = load_model(mutant.group, [mutant.patch]).functions[name]
    assert ast.unparse(functions[name[1]]) == ast.unparse(patched)
    lines = diff(mutant).splitlines()
    assert lines[0] == f"--- a/model/{mutant.group}/{module}.py"
    assert any(line.startswith(("+", "-")) for line in lines[2:])


def test_patterns_and_samples():
    append = selected("idempotent.leader:append")
    assert {mutant.function for mutant in append} == {"idempotent.leader:append"}
    assert selected("*leader:append:update:*") == [m for m in append if m.kind == "update"]
    drawn = selected("transactions", 7, seed=3)
    assert drawn == selected("transactions", 7, seed=3) != selected("transactions", 7, seed=4)
    with pytest.raises(UnknownSystematicMutant, match="named like idempotent"):
        selected("no_such_name")


# Verdicts


def verdict(function, before, after, group="idempotent"):
    return verdict_on(SystematicMutant("drawn by hand", group, Patch(function, before, after)))


def test_verdicts(small):
    assert verdict("leader.append", "k.bounds.replicas == 1", "k.bounds.replicas <= 1").how == (
        "equal calls"
    )
    epoch = "batch.producer_epoch < entry.producer_epoch"
    assert verdict("leader.check_producer_epoch", epoch, "batch.no_such_field").fate == "invalid"
    silent = verdict("network.broken", "survivors > 0", "survivors > 1")
    assert (silent.fate, silent.verb) == ("killed", "coverage")
    assert silent.how.startswith("lost of ")
    last = verdict("messages.last_sequence", "batch.record_count - 1", "batch.record_count")
    assert (last.fate, last.verb) == ("killed", "explore")


ONE_REPLICA = ("leader.append", "k.bounds.replicas == 1", "k.bounds.replicas <= 2")
"""A change that answers each call as before where there is one replica."""


def test_equal_calls_show_no_equivalence(small):
    found = verdict(*ONE_REPLICA)
    assert (found.fate, found.how) == ("unseen", "equal calls")


def test_what_no_configuration_shows_is_asked_of_further_ones(small, monkeypatch):
    further = (("idempotent-partitions-replicas/restarts=0", verdicts.BEST),)
    monkeypatch.setattr(verdicts, "FURTHER", further)
    found = verdict(*ONE_REPLICA)
    assert (found.fate, found.verb, found.scope) == ("killed", "coverage", further[0][0])


def test_what_no_configuration_shows_is_asked_of_theorems(small, monkeypatch):
    monkeypatch.setattr(verdicts, "first_lost", lambda group, _patch: f"a theorem of {group}")
    found = verdict(*ONE_REPLICA)
    assert (found.fate, found.verb, found.how) == ("killed", "prove", "a theorem of idempotent")


def test_no_configuration_is_asked_twice() -> None:
    assert not set(verdicts.FURTHER) & set(CONFIGURATIONS)
    for scope, variant in verdicts.FURTHER:
        configuration_of(load_model(composition_of(scope)), scope, variant)


def test_a_marker_that_forgets_what_is_verified_for_the_next_transaction(small, monkeypatch):
    """It breaks no promise, since the batch comes again: the footprint tells."""
    monkeypatch.setattr(verdicts, "CONFIGURATIONS", (FORGETFUL,))
    kept = "verification if is_next else NOT_VERIFIED"
    found = verdict("leader.still_verified", kept, "NOT_VERIFIED", group="transactions")
    assert (found.fate, found.verb) == ("killed", "coverage")
    assert "verifications" in found.how


def test_a_witness_that_is_lost_kills(small, monkeypatch):
    monkeypatch.setattr(verdicts, "CONFIGURATIONS", (("producer-ids-alone", "2.8.2"),))
    (forgets,) = selected("producer_ids.manager:want_block:constant:3")
    lost = verdict_on(forgets)
    assert (lost.fate, lost.verb, lost.how) == ("killed", "explore", "a_block_is_used_up is lost")


BY_NARROW_SCOPES = {
    "idempotent.world:answer_arrives:index:4": ("explore", "acked_is_replicated, "),
    "idempotent.world:answer_arrives:index:3": ("coverage", "lost of orders: answer_arrives"),
    "producer_ids.world:block_is_wanted:connective:2": ("coverage", "lost of "),
    "transactions.client:unresolved:member:3": ("explore", "stuck_only_while_aborting, "),
}
"""Changes that show only where there are two partitions of two replicas, where one request comes in
all, or where a batch expires before its transaction is aborted."""


@pytest.mark.parametrize("name", BY_NARROW_SCOPES)
def test_a_narrow_scope_notices(name, monkeypatch):
    narrow = ("-replicas/restarts=0", "asked=1", "guards-partitions")
    only = tuple(pair for pair in CONFIGURATIONS if pair[0].endswith(narrow))
    monkeypatch.setattr(verdicts, "CONFIGURATIONS", only)
    (mutant,) = selected(name)
    found = verdict_on(mutant)
    assert (found.fate, found.verb) == ("killed", BY_NARROW_SCOPES[name][0])
    assert found.how.startswith(BY_NARROW_SCOPES[name][1])


@pytest.mark.parametrize("number", sized(range(6), range(1, 5)))
def test_verdicts_agree_with_the_explorer(number, small):
    """The whole exploration of the changed model, against what changed calls and states say. The
    first and the last mutant, which the suite looks at, are of two compositions."""
    mutant = selected("*leader:*", 6, seed=5)[number]
    found = verdict_on(mutant)
    (scope, variant) = next(p for p in SMALL if p[0].startswith(mutant.group))
    if found.fate == "killed" and "steps" in found.how and "range" not in found.how:
        seen = explore_scope(scope, variant, patches=[mutant.patch], engine="ints", stop=True)
        assert seen.verdict == "violated"
    if found.fate in ("equivalent", "unseen"):
        seen, plain = (
            explore_scope(scope, variant, patches=patches, engine="ints").counts
            for patches in ([mutant.patch], [])
        )
        assert (seen.levels, seen.firings) == (plain.levels, plain.firings)


def test_an_event_that_no_longer_happens_kills(small):
    gone = "(*link.broken, left)", "(*link.broken,)"
    found = verdict("network.broken", *gone)
    assert (found.fate, found.verb) == ("killed", "coverage")
    assert found.how.startswith("lost of events: late_request_arrives(")


def test_a_change_with_too_many_states_is_left_there():
    few_enough(SearchProgress(0, 0, 0, verdicts.MOST_IN_THE_END, 0, 0.0))
    with pytest.raises(Overgrown):
        few_enough(SearchProgress(0, 0, 0, verdicts.MOST_IN_THE_END + 1, 0, 0.0))


def test_each_configuration_is_one():
    for scope, variant in IN_THE_END:
        model = verdicts.load_model(verdicts.composition_of(scope))
        assert configuration_of(model, scope, variant).bounds.unbounded
    assert {verdicts.composition_of(scope) for scope, _ in CONFIGURATIONS} == set(COMPOSITIONS)
    assert len(set(CONFIGURATIONS)) == len(CONFIGURATIONS)


# The verb

GIVEN = ["mutants", "--systematic", "--only", "idempotent.leader:check_producer_epoch:comparison"]


def test_the_report_and_the_same_command_goes_on(tmp_path, capsys, small, monkeypatch):
    out = ["--out", str(tmp_path / "out"), "--processes", "1"]
    code = main([*GIVEN, *out])
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    fates = {row["name"].rpartition(":")[2]: row["fate"] for row in report["mutants"]}
    assert fates.keys() == {"1", "2"}
    assert code == ("alive" in fates.values())
    assert sum(report["figures"]["fates"].values()) == 2
    assert report["functions"].keys() == {"idempotent.leader:check_producer_epoch"}
    written = (tmp_path / "out" / "mutants.md").read_text()
    assert "| idempotent.leader:check_producer_epoch | 2 |" in written
    monkeypatch.setattr(verb, "verdict_on", None)
    assert main([*GIVEN, *out]) == code
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == report
    assert main([*GIVEN, "--seed", "1", *out]) == 2


def test_a_reason_is_of_a_mutant_and_explains_one_that_is_alive(tmp_path, monkeypatch, small):
    assert set(REASONS) <= {mutant.name for mutant in every_mutant()}
    (first, _) = selected(GIVEN[-1])
    alive = verdicts.MutantVerdict("alive", how="it differs")
    monkeypatch.setattr(verb, "verdict_on", lambda mutant: alive)
    kept = tmp_path / "kept.json"
    given = [*GIVEN, "--processes", "1", "--keep", str(kept)]
    assert main(given) == 1
    monkeypatch.setattr(verb, "REASONS", {m.name: "it is only later" for m in selected(GIVEN[-1])})
    assert main(given) == 0
    shown = kept_page(kept)
    assert f"| `{first.name}` | `" in shown
    assert "| it is only later |" in shown
    assert json.loads(kept.read_text())["drawn"]["only"] == GIVEN[-1]


def test_the_page_of_the_kept_run():
    shown = kept_page(REPOSITORY / "evidence" / "systematic_mutants.json")
    assert "tried at commit" in shown
    assert "no reason is known" not in shown


def test_list_and_show(capsys):
    assert main([*GIVEN, "--list"]) == 0
    names = capsys.readouterr().out.split()
    assert names == [mutant.name for mutant in selected(GIVEN[-1])]
    assert main(["mutants", "--show", names[0]]) == 0
    assert "batch.producer_epoch <= entry.producer_epoch" in capsys.readouterr().out
    assert main(["mutants", "--show", "nothing"]) == 2


def test_another_text_is_no_text_to_go_on_with(tmp_path, small, monkeypatch):
    out = ["--out", str(tmp_path / "out"), "--processes", "1"]
    main([*GIVEN, *out])
    monkeypatch.setattr(verb, "code_digest", lambda packages: f"other {packages}")
    assert main([*GIVEN, *out]) == 2


def test_a_text_that_judges_otherwise_is_another_text(monkeypatch):
    asked = []
    monkeypatch.setattr(verb, "code_digest", lambda packages: asked.extend(packages) or "text")
    assert verb.tried_text() == "text"
    assert set(asked) >= {"model", "proofs"}


def test_ctrl_c_keeps_what_was_tried(tmp_path, small, monkeypatch, capsys):
    def stopped(mutant):
        if mutant.name.endswith(":2"):
            raise KeyboardInterrupt
        return verdict_on(mutant)

    monkeypatch.setattr(verb, "verdict_on", stopped)
    out = tmp_path / "out"
    assert main([*GIVEN, "--out", str(out), "--processes", "1"]) == 3
    assert "the same command goes on from there" in capsys.readouterr().err
    assert len(Journal(out / "journal.jsonl")) == 1
