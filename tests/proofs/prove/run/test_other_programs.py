"""Other eyes on the obligations: programs read the exported text, proofs are checked."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.prove.engine.solvers import Said, ask_patiently
from proofs.prove.run import other_programs
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.other_programs import ask_program, check_proof, draw
from proofs.prove.run.plan import Duty, plan

WHY_FIVE = tuple(t for t in THEOREMS if t.name == "why_five")
NEEDED = "(assert (<= |in_flight| |window|))\n"
"""What why_five rests on: without it an obligation fails."""


def about_false_errors() -> str:
    """The obligation of why_five that needs this."""
    duties = plan(WHY_FIVE, lambda t: t.variant).duties
    (text,) = (d.obligation.text for d in duties if "no_false_error" in d.obligation.name)
    assert NEEDED in text
    return text


def about_successors(*patches: Patch) -> str:
    """The obligation that the sequence after the last one is accepted."""
    theorems = tuple(t for t in THEOREMS if t.name == "sequences_wrap")
    duties = plan(theorems, lambda t: t.variant, [load_model("idempotent", patches)]).duties
    (text,) = (d.obligation.text for d in duties if "accepts_the" in d.obligation.name)
    return text


@pytest.mark.parametrize("program", ["z3", "smtinterpol"])
def test_a_program_reads_the_exported_text_and_refuses_what_is_not_so(
    program: str, tmp_path: Path
) -> None:
    file = tmp_path / "asked.smt2"
    file.write_text(about_successors(), encoding="utf-8")
    assert ask_program(program, file, "").result == "proved"
    never = Patch("leader.in_sequence", "last == k.bounds.max_sequence", "last == -2")
    file.write_text(about_successors(never), encoding="utf-8")
    assert ask_program(program, file, "").result == "failed"


def test_a_proof_is_checked_step_by_step() -> None:
    found = check_proof(about_false_errors(), "no_false_error")
    assert found.result == "proved"
    assert 0 <= found.trusted < found.steps
    assert check_proof(about_false_errors().replace(NEEDED, ""), "").steps == 0


def test_the_text_says_that_nothing_is_captured() -> None:
    assert "\n; Names that begin with ? are bound, all others are free" in about_false_errors()


def test_a_sample_is_drawn_by_its_seed() -> None:
    theorems = tuple(t for t in THEOREMS if t.home == "producer_ids")
    duties = plan(theorems, lambda t: t.variant).duties

    def names(seed: int) -> list[str]:
        return [duty.obligation.name for duty in draw(duties, 20, seed)]

    assert names(1) == names(1) != names(2)
    assert len(set(names(1))) == 20
    assert not any(d.obligation.is_trivial for d in draw(duties, 10**6, 0))


def test_the_verb_says_what_each_program_said(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    words = ["prove", "--only", "sequences_wrap", "--sample", "2", "--programs", "z3,proofs"]
    assert main([*words, "--json", str(file)]) == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["programs"] == {"z3": {"proved": 2}, "proofs": {"proved": 2}}
    assert report["sample"] == {"seed": 0, "obligations": 2}


def test_a_program_that_is_missing_is_left_out_and_what_nobody_proves_is_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(other_programs.shutil, "which", lambda name: None)
    words = ["prove", "--only", "sequences_wrap", "--sample", "2", "--programs", "cvc5"]
    assert main(words) == 3
    said = capsys.readouterr().out
    assert "cvc5: left out, there is no program cvc5" in said
    assert "apt-get install cvc5" in said


def test_a_defect_is_seen_by_a_program_too(tmp_path: Path) -> None:
    words = ["prove", "--only", "sequences_wrap", "--mutant", "sequence_wraps_negative"]
    assert main([*words, "--sample", "9", "--programs", "z3"]) == 1


def test_a_sample_of_nothing_is_empty() -> None:
    empty: list[Duty] = []
    assert draw(empty, 5, 0) == []


def test_who_had_no_processor_is_asked_again_with_more_patience() -> None:
    """A limit by the clock on the wall says nothing where other work had the processor."""
    limits: list[float] = []

    def attempt(limit_s: float) -> Said:
        limits.append(limit_s)
        time.sleep(limit_s)
        return ("unknown" if len(limits) == 1 else "unsat"), ()

    assert ask_patiently(attempt, 0.01, lambda: 0.0) == (("unsat", ()), 0.0)
    assert limits == [0.01, 0.04]
    assert ask_patiently(attempt, 0.01, time.monotonic)[0] == ("unsat", ())
    limits.clear()
    assert ask_patiently(attempt, 0.01, time.monotonic)[0] == ("unknown", ())
    assert limits == [0.01]
