"""Two-phase commit: the counts that everybody knows, from each checker that is there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import exploration
from benchmarks.exploration import Disagreement, Found
from proofs.explore.explorer import explore
from proofs.export.tla import export_tla
from proofs.lift.build import lift
from proofs.lift.patch import Patch, PatchError
from proofs.lift.source import load, load_model

PACKAGE = "benchmarks.two_phase_commit"
HEARS_ALL = "all(resource in w.prepared for resource in range(k.bounds.managers))"

needs_spin = pytest.mark.skipif(shutil.which("spin") is None, reason="SPIN is not installed")


def test_two_phase_commit_is_a_model_of_its_own() -> None:
    before = dict(load_model("idempotent").rules)
    two_phase_commit = load(PACKAGE)
    assert len(two_phase_commit.rules) == 7
    assert dict(load_model("idempotent").rules) == before
    assert not set(two_phase_commit.rules) & set(before)
    assert two_phase_commit.files["world"] == "benchmarks/two_phase_commit/world.py"


@pytest.mark.parametrize("managers", [3, 5])
def test_the_lifted_text_has_the_known_counts(managers: int) -> None:
    found = explore(exploration.machine_of(managers), "ints")
    assert found.distinct == exploration.DISTINCT[managers]
    assert not found.violations
    assert set(found.witnesses) == {"all_committed"}


def test_a_manager_that_commits_too_early_breaks_the_guarantee() -> None:
    patch = Patch("world.manager_commits", HEARS_ALL, HEARS_ALL.replace("all", "any"))
    hasty = load(PACKAGE, [patch])
    found = explore(lift(hasty, exploration.configuration_of(3), "hasty").machine, "ints")
    assert set(found.violations) == {"consistent"}


def test_a_patch_that_does_not_fit_is_refused() -> None:
    with pytest.raises(PatchError, match=r"world\.nothing"):
        load(PACKAGE, [Patch("world.nothing", "k", "w")])


def test_the_exported_text_is_the_same_protocol() -> None:
    module = export_tla(exploration.model(), exploration.configuration_of(3), "two_phase_commit")
    assert module.checked == ("consistent",)
    assert set(module.rules) == set(exploration.model().rules)


@needs_spin
@pytest.mark.parametrize("managers", [3, 5])
def test_spin_finds_the_same_graph(managers: int, tmp_path: Path) -> None:
    theirs = exploration.Spin(managers, tmp_path).search()
    ours = explore(exploration.machine_of(managers), "ints")
    assert (theirs.distinct, theirs.transitions) == (ours.distinct, ours.transitions)


@pytest.mark.full  # in the suite SPIN finds the same graph, without the command around it
@needs_spin
def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    words = ["--managers", "3", "--rounds", "2", "--tlc-rounds", "0", "--json", str(file)]
    assert exploration.main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "two-phase commit, 3 resource managers: 288 states each"
    assert printed[1].startswith("SPIN: ratio ")
    assert printed[2].startswith("by symmetry, c: 80 orbits of 288 states, 1,145 transitions, ")
    assert printed[3].startswith("by symmetry, ints: 80 orbits of 288 states, 1,145 transitions, ")
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["distinct"] == 288
    assert [(peer["peer"], peer["rounds"]) for peer in written["peers"]] == [("SPIN", 2)]


def test_without_spin_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration.shutil, "which", lambda name: None)
    with pytest.raises(exploration.MissingSpin, match="apt-get install spin"):
        exploration.Spin(3, Path())


@pytest.mark.parametrize("found", [Found(1.0, 287, 1145), Found(1.0, 288, 1146)])
def test_another_graph_is_refused(found: Found) -> None:
    with pytest.raises(Disagreement, match="there are 288 and 1,145"):
        exploration.agree("SPIN", found, 288, 1145)
