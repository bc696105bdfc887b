"""The obligations as files that anyone's solver reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.prove.engine.solvers import ask
from proofs.prove.idempotent.composition import SingleRules
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.plan import plan
from proofs.verbs import export

LEMMAS = tuple(t for t in THEOREMS if isinstance(t.composition, SingleRules))
"""What has no induction: few obligations, soon written."""


def test_obligations_are_files_that_a_solver_proves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert export.THEOREMS is THEOREMS
    monkeypatch.setattr(export, "THEOREMS", LEMMAS)
    assert main(["export", "idempotent-tiny", "--engine", "ints", "--smtlib", str(tmp_path)]) == 0
    files = sorted(tmp_path.glob("*.smt2"))
    assert len(files) == len(plan(LEMMAS, lambda t: t.variant).duties) > 10
    lemma = next(file for file in files if "undoes_increment" in file.name)
    assert ask("cvc5", lemma.read_text(encoding="utf-8")).result == "proved"
