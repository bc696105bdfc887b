"""The obligations as files that anyone's solver reads."""

from __future__ import annotations

from pathlib import Path

from proofs.__main__ import main
from proofs.lift.text import plain
from proofs.prove.solvers import ask
from proofs.prove.theorems import THEOREMS, plan


def test_obligations_are_files_that_a_solver_proves(tmp_path: Path) -> None:
    assert main(["export", "idempotent-tiny", "--engine", "ints", "--smtlib", str(tmp_path)]) == 0
    files = sorted(tmp_path.glob("*.smt2"))
    assert len(files) == len(plan(plain(), THEOREMS, lambda t: t.variant).duties)
    lemma = next(file for file in files if "undoes_increment" in file.name)
    assert ask("cvc5", lemma.read_text(encoding="utf-8")).result == "proved"
