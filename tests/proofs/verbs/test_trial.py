"""`try` and `patch`: what a change of the protocol breaks first, and what it leaves as it is."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from proofs.__main__ import main as run
from proofs.lift.patch import parse_diff
from proofs.lift.source import model_folder, read_patches
from proofs.mutants.table import MUTANTS
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.theorems_under_change import TheoremOutcome, TheoremTrial
from proofs.verbs import trial

MUTANT = next(m for m in MUTANTS if m.name == "gap_dropped_silently")
(DROPS,) = MUTANT.patches
STRICT = "4.3.1/marker_epoch=strictly_newer"


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    """A leader that answers success to what is out of order, and drops it."""
    file = tmp_path / "change.json"
    file.write_text(json.dumps([[DROPS.function, DROPS.before, DROPS.after]]))
    return file


def limit(monkeypatch: pytest.MonkeyPatch, *scopes: str) -> None:
    """Only these scopes are explored."""
    monkeypatch.setattr(trial, "scopes_of", lambda change: list(scopes))


def test_a_patch_breaks_a_promise_and_the_answer_says_which_first_and_where(
    patch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit(monkeypatch, "idempotent-too-large", "idempotent-tiny", "idempotent-wrap")
    out = tmp_path / "out"
    words = ["try", "--patch", str(patch), "--stop", "--no-theorems", "--out", str(out)]
    assert run([*words, "--json", str(tmp_path / "report.json")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "  idempotent-too-large: 90 states, as before" in lines
    first = next(line for line in lines if "FIRST BROKEN" in line)
    assert "in idempotent-tiny: acked_is_stored" in first
    assert "is broken by step" in first
    assert lines[-1] == "verdict: violated"
    (found,) = json.loads((tmp_path / "report.json").read_text())["trials"]
    assert found["as_before"] == ["idempotent-too-large"]
    assert found["left_out"] == ["idempotent-wrap"]
    assert found["broken"][0]["property"] not in found["kept"]
    assert {"high_watermark_sound", "at_most_once"} <= set(found["kept"])
    trace = next((out / "traces").glob("*.jsonl"))
    header = json.loads(trace.read_text().splitlines()[0])
    assert header["patches"] == [[DROPS.function, DROPS.before, DROPS.after]], "replay honours it"


def test_a_variant_is_compared_with_its_release_and_theorems_are_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit(monkeypatch, "transactions-trouble")
    asked: list[TheoremTrial] = []

    def decide(
        changed: TheoremTrial, theorems: Sequence[Theorem], *_: Any
    ) -> dict[str, TheoremOutcome]:
        asked.append(changed)
        found = dict.fromkeys((t.name for t in theorems), TheoremOutcome.NOT_DECIDED)
        return found | {"fenced": TheoremOutcome.LOST, "stored_once": TheoremOutcome.HOLDS}

    monkeypatch.setattr(TheoremTrial, "decide", decide)
    assert run(["try", "--variant", STRICT]) == 3, "a theorem that fails has no trace here"
    said = capsys.readouterr().out
    assert "marker_epoch=strictly_newer, compared with 4.3.1/level=2/requests=v2\n" in said
    assert "  as many states and transitions as in 4.3.1: transactions-trouble\n" in said
    assert "  theorems that hold as before: stored_once\n" in said
    assert "  theorems that are not proved any more: fenced\n" in said
    assert "  theorems not decided in time (ask again: answers are kept): tr" in said
    (given,) = asked
    assert given.changed.variants["*"].endswith("marker_epoch=strictly_newer")
    assert given.base.variants == {"*": "4.3.1/level=2/requests=v2"}


STRICT_FIRST = "4.3.1/first_sequence=strict"
FIRST = "leader.check_first_sequence"
SAME = (FIRST, "batch.base_sequence == 0", "0 == batch.base_sequence")
CANCELS = (FIRST, "k.variant.first_sequence == FirstSequence.ANY", "True")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (SAME, "idempotent-expiry: 208 states, as before"),
        (CANCELS, f"idempotent-expiry: 173 states (208 in {STRICT_FIRST}), no promise broken"),
    ],
    ids=["a change of nothing", "a change that takes the variant back"],
)
def test_a_patch_of_a_variant_is_compared_with_that_variant(
    row: Sequence[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The counts of the default variant, 173, stood for those of any other."""
    limit(monkeypatch, "idempotent-expiry")
    file = tmp_path / "change.json"
    file.write_text(json.dumps([row]))
    words = ["--variant", STRICT_FIRST, "--only", "idempotent", "--no-theorems"]
    run(["try", "--patch", str(file), *words])
    printed = capsys.readouterr().out
    assert f"  {said}" in printed
    same = f"  as many states and transitions as in {STRICT_FIRST}: idempotent-expiry\n"
    assert (same in printed) == (row == SAME)
    assert "in 4.3.1:" not in printed


def test_a_variant_of_an_older_release_is_compared_with_that_release(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit(monkeypatch, "idempotent-too-large")
    run(
        ["try", "--variant", "2.4.1/first_sequence=strict", "--no-theorems", "--only", "idempotent"]
    )
    printed = capsys.readouterr().out
    assert "compared with 2.4.1/" in printed
    assert "as in 2.4.1/" in printed


def test_without_time_nothing_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["try", "--variant", STRICT, "--budget-s", "1"]) == 3
    said = capsys.readouterr().out
    assert "breaks no promise of 4.3.1/level=2/requests=v2 in 0 scopes" in said
    assert "left out (--budget-s, --stop): transactions-in-flight-leaves, transactions-t" in said


@pytest.mark.parametrize(("words", "share"), [([], 2 / 3), (["--no-theorems"], 1)])
def test_exploring_leaves_time_to_the_theorems(
    words: list[str], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scopes took all of it, and no theorem was asked."""
    given: list[float] = []

    def explore(change: trial.ModelChange, _: object, until: float, *rest: object) -> trial.Trial:
        given.append(until - time.monotonic())
        return trial.Trial(change)

    monkeypatch.setattr(trial, "explore_change", explore)
    monkeypatch.setattr(trial, "ask_theorems", lambda *_: None)
    run(["try", "--variant", STRICT, "--budget-s", "300", *words])
    assert given[0] == pytest.approx(300 * share, abs=20)


def test_changes_of_several_compositions_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one took it all."""
    given: dict[str, float] = {}

    def explore(change: trial.ModelChange, _: object, until: float, *rest: object) -> trial.Trial:
        given[change.composition] = until - time.monotonic()
        return trial.Trial(change)

    monkeypatch.setattr(trial, "explore_change", explore)
    run(["try", "--variant", "4.0.2", "--budget-s", "300", "--no-theorems"])
    assert given["idempotent"] == pytest.approx(100, abs=15)
    assert given["transactions"] == pytest.approx(300, abs=40), "what the others left over"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "write what to try"),
        (["--variant", "4.3.1"], "name a rule"),
        (["--variant", "4.3.1/no=such"], "no"),
        (["--patch", "no.json"], "No such file"),
    ],
)
def test_bad_use(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["try", *words]) == 2
    assert said in capsys.readouterr().err


# Patch files


def diff_of(before: str, after: str) -> str:
    """A diff of one line of the leader."""
    name = "model/idempotent/leader.py"
    return f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{before}\n+{after}\n"


@pytest.fixture
def line() -> str:
    """A line that the leader's text has once."""
    text = (model_folder() / "idempotent" / "leader.py").read_text(encoding="utf-8")
    lines = text.splitlines()
    return next(x for x in lines if x.startswith("def ") and lines.count(x) == 1)


def test_a_diff_becomes_a_patch_file_that_verbs_read(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    diff, out = diff_of(line, f"{line}  # changed"), tmp_path / "made.json"
    monkeypatch.setattr("sys.stdin", io.StringIO(diff))
    assert run(["patch", "-", "--out", str(out)]) == 0
    assert read_patches(out) == parse_diff(diff)
    assert "fits the model; changes idempotent" in capsys.readouterr().out


def test_a_change_that_the_model_has_is_to_be_taken_back(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "applied.diff"
    file.write_text(diff_of("def before():", line))
    assert run(["patch", str(file), "--out", str(tmp_path / "made.json")]) == 0
    assert "the model has this change already" in capsys.readouterr().out


BAD: dict[str, Any] = {
    "lines that are not there": (diff_of("no such line", "x"), "found 0 times"),
    "another file": ("--- a/x.py\n+++ b/x.py\n-a\n+b\n", "x.py cannot be patched"),
    "no diff": ("nothing", "a diff without a change"),
}


@pytest.mark.parametrize(("diff", "said"), BAD.values(), ids=BAD)
def test_a_diff_that_does_not_fit(
    diff: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.diff"
    file.write_text(diff)
    assert run(["patch", str(file), "--out", str(tmp_path / "made.json")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "made.json").exists()
