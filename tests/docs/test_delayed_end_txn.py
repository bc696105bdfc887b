"""Every claim of `docs/delayed_end_txn.md` is a command, and the command says so."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import cache

import pytest

from proofs.lift.patch import Patch, parse_diff
from proofs.lift.source import load_model
from proofs.prove.engine.solvers import ask
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.assumptions import ASSUMPTIONS
from proofs.prove.run.counterexamples import counterexample
from proofs.prove.run.plan import plan
from proofs.prove.run.target import subject
from proofs.trace.format import read
from proofs.trace.replay import configuration_of, model_of, replay
from tests.docs.pages import REPOSITORY, STORIES, called, is_understood, missing, page

PAGE = page(REPOSITORY / "docs" / "delayed_end_txn.md")
LONGER = {
    "refine transactions-tiny --drop epoch_for_each_transaction  # exits with 1",
    "prove --only transaction_decisions --solver z3",
    "explore transactions-default --variant v1 --engine ints",
}
"""`make full` alone runs these: half a minute. In the suite they are parsed."""


def words_of(run: Sequence[str]) -> tuple[str, ...]:
    return tuple(shlex.split(run[0], comments=True))


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=run[0], marks=pytest.mark.full if run[0] in LONGER else ())
        for run in PAGE.runs
    ],
)
def test_each_command_prints_what_is_shown(
    run: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    called(run[0])
    assert missing(run[1:], capsys.readouterr().out.splitlines()) == []


@pytest.mark.parametrize(
    "command",
    [*PAGE.parsed, *(words_of(run) for run in PAGE.runs if run[0] in LONGER)],
    ids=" ".join,
)
def test_each_longer_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_understood(command)
    assert capsys.readouterr().out


def test_there_are_commands() -> None:
    assert len(PAGE.runs) >= 8
    assert len(PAGE.parsed) >= 5
    assert {run[0] for run in PAGE.runs} >= LONGER


@pytest.mark.parametrize(
    ("name", "broken"),
    [("lost", "no_lost_write"), ("shown", "no_aborted_read"), ("torn", "all_or_none")],
)
def test_each_story_breaks_its_guarantee_at_its_last_step(name: str, broken: str) -> None:
    trace = read(STORIES / f"delayed_end_txn_{name}.jsonl")
    model = model_of(trace.header)
    k = configuration_of(model, trace.header.scope, trace.header.variant)
    guarantee = next(p for p in model.guarantees.GUARANTEES if p.name == broken)
    kept = [guarantee.check(k, world) for world in replay(trace, model)]
    assert all(kept[:-1])
    assert not kept[-1]


@cache
def test_the_assumptions_stand_beside_the_theorem() -> None:
    """All of them, in the words of the output."""
    text = (REPOSITORY / "docs" / "delayed_end_txn.md").read_text(encoding="utf-8")
    table = text.partition("| `all_or_none` assumes | that |\n|---|---|\n")[2].partition("\n\n")[0]
    theorem = next(t for t in THEOREMS if t.name == "all_or_none")
    said = [f"| `{name}` | {ASSUMPTIONS[name].says} |" for name in theorem.assumptions]
    assert table.splitlines() == said


def the_change() -> tuple[Patch, ...]:
    """The change of the page: the epoch before ends what is open."""
    text = (REPOSITORY / "docs" / "delayed_end_txn.md").read_text(encoding="utf-8")
    found = re.search(r"^```diff\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert found
    return parse_diff(found[1])


def unproved(theorem: str, only: str, patches: Sequence[Patch] = ()) -> set[str]:
    """The obligations of a theorem that Z3 does not prove, of those whose names contain `only`."""
    (of,) = (t for t in THEOREMS if t.name == theorem)
    duties = plan((of,), lambda t: t.variant, [load_model("transactions", patches)]).duties
    asked = [d.obligation for d in duties if only in d.obligation.name]
    assert asked
    return {o.name for o in asked if ask("z3", o.text, timeout_s=5).result != "proved"}


@pytest.mark.full  # in the suite the same step fails among the planted bugs of the theorems
def test_the_theorem_that_is_cited_fails_with_the_defect() -> None:
    """The delayed EndTxn is refused by one step of all_or_none; the smaller theorem does not see
    it, and a run breaks what is guaranteed."""
    (of,) = (t for t in THEOREMS if t.name == "all_or_none")
    assert unproved("all_or_none", "/my_late_end/") == set()
    assert unproved("all_or_none", "/my_late_end/", the_change()) == {
        "transactions/my_late_end/commits_are_asked",
        "transactions/my_late_end/unsent_is_undecided",
    }
    assert unproved("transaction_decisions", "/end/", the_change()) == set()
    found = counterexample(of, subject(None, None, the_change()))
    assert found is not None
    assert (found.finding.property, found.finding.steps) == ("no_aborted_read", 14)
