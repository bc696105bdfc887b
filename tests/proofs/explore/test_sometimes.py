"""Always with sometimes: a model in which something never happens does not hold."""

import json
from dataclasses import replace

import pytest

from model.releases import NEWEST
from proofs.__main__ import main
from proofs.explore.scope import explore_scope, verdict_of
from proofs.explore.sometimes import allowed_events
from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, UnknownClaim, load_model, load_package
from proofs.trace.replay import replay
from tests.sizes import sized

REFUSES_ALL = Patch(
    "leader.is_ahead",
    "batch.base_sequence > verification.lowest_sequence",
    "batch.base_sequence >= verification.lowest_sequence",
)
"""A leader that refuses every first transactional batch."""
NOBODY_ABORTS = Patch("client.abort_transaction", "waits_for_offsets(k, client)", "True")
"""An event that cannot happen any more."""
REMEMBERS_FOUR = Patch("leader.remember", "-k.bounds.window", "1 - k.bounds.window")
"""What makes a producer begin a new epoch where it never has to."""

OF_OTHER_VARIANTS = {
    "addition_is_delayed",
    "block_is_read",
    "block_is_wanted",
    "block_is_written",
    "block_is_written_unheard",
    "late_addition_arrives",
    "offsets_are_added",
    "owner_fences",
    "partitions_are_added",
}
"""Events that the default variant has in no scope: of V1, of ZooKeeper, and of other rules."""


def of_composition(name):
    model = load_model(name)
    return {w.name for w in model.guarantees.WITNESSES}, set(model.rules)


@pytest.mark.fast
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_what_a_scope_never_has_is_a_witness_an_event_or_a_step_of_the_specification(name):
    witnesses, events = of_composition(name)
    spec = load_model(name).modules.get("spec")
    steps = {step.name for step in spec.STEPS} if spec else set()
    assert not witnesses & events
    assert not steps & (witnesses | events)
    for scope in load_model(name).scopes.SCOPES.values():
        assert scope.never.keys() <= witnesses | events | steps, scope.name


@pytest.mark.fast
def test_a_misspelt_name_in_a_claim_is_refused_when_the_model_is_loaded(monkeypatch):
    """Nothing was ever held to it."""
    scopes = load_model("idempotent").scopes
    scope = scopes.SCOPES["idempotent-tiny"]
    wrong = replace(scope, never={**scope.never, "client_bumps_epok": "nobody asks"})
    monkeypatch.setitem(scopes.SCOPES, scope.name, wrong)
    said = "scope idempotent-tiny, never client_bumps_epok: .*did you mean client_bumps_epoch"
    with pytest.raises(UnknownClaim, match=said):
        load_package.__wrapped__("model.idempotent")


@pytest.mark.fast
def test_steps_of_the_specification_are_by_events_that_there_are():
    model = load_model("transactions")
    for step in model.spec.STEPS:
        assert step.events <= model.rules.keys(), step.name


@pytest.mark.parametrize("name", sized(COMPOSITIONS, ["idempotent", "transactions"]))
def test_each_event_and_each_witness_must_happen_in_some_scope(name):
    """All scopes are lifted: half a minute for the two large compositions."""
    witnesses, events = of_composition(name)
    demanded = set()
    for scope in load_model(name).scopes.SCOPES.values():
        demanded |= (witnesses | allowed_events(scope.name, NEWEST)) - scope.never.keys()
    assert (witnesses | events) - demanded == OF_OTHER_VARIANTS & events


@pytest.mark.fast
def test_a_leader_that_refuses_every_first_batch_breaks_a_guarantee_and_loses_both_witnesses():
    report = explore_scope("transactions-tiny", engine="ints", patches=[REFUSES_ALL])
    assert [violation.property for violation in report.violations] == ["untroubled_commits"]
    assert report.verdict == "violated"
    assert report.sometimes.lost == ("something_committed", "something_aborted")
    before = report.sometimes.before["something_committed"]
    assert len(before.steps) == 8
    replay(before)


def test_an_event_that_is_disabled_is_lost_although_the_patched_text_excludes_it():
    report = explore_scope("transactions-tiny", engine="ints", patches=[NOBODY_ABORTS])
    assert report.verdict == "vacuous"
    assert report.sometimes.lost == ("something_aborted", "abort_is_asked")


def test_what_never_happens_in_a_scope_must_not_happen():
    report = explore_scope("idempotent-five-in-flight", engine="ints", patches=[REMEMBERS_FOUR])
    assert report.sometimes.unexpected.keys() == {"client_bumps_epoch"}
    assert report.verdict == verdict_of(report.counts, (), report.sometimes) == "violated"


def test_a_patch_of_another_variant_is_held_to_what_happens_without_it():
    report = explore_scope("transactions-tiny", "v1", engine="ints", patches=[REFUSES_ALL])
    assert report.verdict == "violated"
    assert report.sometimes.lost == ("something_committed", "something_aborted")


def test_budgets_and_variants_of_ones_own_are_reported_and_decide_only_if_asked():
    fewer = "transactions-tiny/begun=0"
    report = explore_scope(fewer, engine="ints")
    assert report.verdict == "holds"
    assert "something_committed" in report.sometimes.lost
    assert explore_scope(fewer, engine="ints", witnesses=True).verdict == "vacuous"


@pytest.mark.fast
def test_the_verb_says_of_what_a_variant_never_does_that_it_decides_nothing(capsys):
    argv = ["explore", "transactions-tiny/begun=0", "--engine", "ints"]
    assert main(argv) == 0
    said = capsys.readouterr().out
    assert "never happens here: something_committed, " in said
    assert f"only named scopes of {NEWEST}, and small ones of other releases, must have it;" in said
    assert main([*argv, "--witnesses"]) == 1


def test_nothing_is_lost_in_what_is_not_explored_to_its_end():
    report = explore_scope("transactions-tiny", engine="ints", max_depth=3)
    assert report.verdict == "undecided"
    assert not report.sometimes.lost


def test_every_engine_that_counts_events_loses_the_same():
    lost = {
        explore_scope("transactions-tiny", engine=engine, patches=[REFUSES_ALL]).sometimes.lost
        for engine in ("c", "ints", "source")
    }
    assert lost == {("something_committed", "something_aborted")}


@pytest.mark.fast
def test_the_verb_names_what_is_lost_and_how_it_was_reached(tmp_path, capsys):
    patch, file = tmp_path / "idea.py", tmp_path / "report.json"
    patch.write_text(repr([(REFUSES_ALL.function, REFUSES_ALL.before, REFUSES_ALL.after)]))
    argv = ["explore", "transactions-tiny", "--engine", "ints", "--patch", str(patch)]
    assert main([*argv, "--json", str(file)]) == 1
    said = capsys.readouterr().out
    assert "something_committed: LOST" in said
    assert "without the patch it takes 8 steps" in said
    report = json.loads(file.read_text())
    assert report["verdict"] == "violated"
    assert report["lost"].keys() == {"something_committed", "something_aborted"}
    assert len(report["lost"]["something_committed"]) == 9
    assert (report["unexpected"], report["witnesses_enforced"]) == ({}, True)
