"""Fates of systematic mutants, at reduced size: a function each."""

import json

import pytest

from proofs.__main__ import main
from proofs.lift.text import Patch, plain
from proofs.mutants.survivors import UnknownFunction, every_mutant, fate_of


def test_every_function_that_acts_is_changed():
    changed = {patch.function for patch in every_mutant(plain())}
    assert len(changed) > 50
    assert {patch.function.partition(".")[0] for patch in every_mutant(plain())} >= {
        "leader",
        "client",
        "answers",
        "world",
    }


def test_one_function(tmp_path, capsys):
    file = tmp_path / "report.json"
    only = ["--only", "leader.check_producer_epoch", "--json", str(file)]
    assert main(["mutants", "--systematic", *only]) == 0
    report = json.loads(file.read_text())
    assert [(row["fate"], row["found"]) for row in report["mutants"]] == [("breaks", True)]
    assert "1 breaks" in capsys.readouterr().out


def test_what_changes_nothing_is_the_same_and_what_no_promise_sees_survives(monkeypatch):
    monkeypatch.setattr(
        "proofs.mutants.survivors.SETTINGS", [("idempotent-restart", "first_sequence=strict")]
    )
    same = Patch("leader.append", "k.layout.replicas == 1", "k.layout.replicas <= 1")
    assert fate_of(same).fate == "same"
    epoch = "batch.producer_epoch < entry.producer_epoch"
    refused = Patch("leader.check_producer_epoch", epoch, "batch.no_such_field")
    assert fate_of(refused).fate == "refused"
    harmless = Patch("network.broken", "survivors > 0", "survivors > 1")
    assert fate_of(harmless).fate == "survives"


def test_an_unknown_function():
    with pytest.raises(UnknownFunction, match=r"leader\.check_append"):
        list(every_mutant(plain(), "leader.nothing"))
