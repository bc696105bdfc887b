"""Bugs planted in impl: each fits the text exactly, and the judge alone finds it."""

import json
from pathlib import Path
from statistics import median

import pytest

from conformance.__main__ import main
from conformance.campaigns.mutants import GROUPS, MUTANTS
from conformance.campaigns.mutants.patched_impl import HuntFailed, hunt, hunt_unpatched
from conformance.judging.plan import Plan, prepare

SHOWN = (
    "overlap_is_duplicate",
    "wrap_refused",
    "plain_batches_deduplicated",
    "commit_of_nothing",
    "timeout_without_bump",
    "marker_strictly_greater",
)
"""One in each of six scopes: all of them take the verb's own minutes."""
FEW = ("wrap_refused", "commit_of_nothing")
"""One of each composition, for the suite: ten seconds each."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(FEW, id="few"), pytest.param(SHOWN, id="shown", marks=pytest.mark.full)],
)
def hunted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Path, tuple[str, ...]]:
    out = tmp_path_factory.mktemp("hunted") / "out"
    names = [argument for name in request.param for argument in ("--only", name)]
    return main(["mutants", *names, "--out", str(out)]), out, request.param


# Finding them


@pytest.mark.xdist_group("mutants")
def test_each_bug_is_found_shrunk_and_drawn(hunted):
    code, out, names = hunted
    report = json.loads((out / "report.json").read_text())
    rows = report["mutants"]
    assert code == 0
    assert report["verdict"] == "holds"
    assert [row["name"] for row in rows] == list(names)
    for row in rows:
        assert row["found"]
        assert row["one_minimal"]
        assert row["twin_clean"]
        assert (out / row["trace"]).is_file()
        page = (out / row["trace"]).with_suffix(".html").read_text()
        assert row["rule"] in page
    assert median(row["steps"] for row in rows) <= 10


@pytest.mark.xdist_group("mutants")
def test_a_found_bug_can_be_explained(hunted, capsys):
    _, out, _ = hunted
    assert main(["explain", str(out / "wrap_refused.jsonl")]) == 0
    assert "producer 0 sends" in capsys.readouterr().out


@pytest.mark.xdist_group("mutants")
def test_what_is_no_bug_is_not_found(tmp_path, monkeypatch, capsys):
    """What no trace shows: the verb says so, and exits 1."""
    from conformance.verbs import mutants as verb

    name = "overlap_is_duplicate"
    monkeypatch.setattr(verb, "hunt", lambda mutant, prepared: None)
    assert main(["mutants", "--only", name, "--out", str(tmp_path / "out")]) == 1
    assert f"{name} " in capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [row["found"] for row in report["mutants"]] == [False]


def test_a_group_stands_for_its_bugs(tmp_path, monkeypatch):
    from conformance.verbs import mutants as verb

    asked = []
    monkeypatch.setattr(verb, "hunt_all", lambda mutants, out: asked.extend(mutants) or [])
    names = ["--only", "transactions", "--only", "wrap_refused", "--only", "commit_of_nothing"]
    assert main(["mutants", *names, "--out", str(tmp_path / "out")]) == 0
    assert asked == [*GROUPS["transactions"], MUTANTS["wrap_refused"]]


def test_an_unknown_bug_is_bad_use(tmp_path, capsys):
    assert main(["mutants", "--only", "none", "--out", str(tmp_path / "out")]) == 2
    assert "window_smaller_than_in_flight" in capsys.readouterr().err


@pytest.mark.xdist_group("mutants")
def test_what_shows_without_the_bug_shows_no_bug(tmp_path, monkeypatch, capsys):
    """Another difference in the same scope: no row of it counts as found."""
    from conformance.verbs import mutants as verb

    finding = hunt(MUTANTS["sequences_count_batches"], prepared_tiny(tmp_path))
    monkeypatch.setattr(verb, "hunt_unpatched", lambda prepared: finding)
    arguments = ["mutants", "--only", "acks_weakened", "--out", str(tmp_path / "out")]
    assert main(arguments) == 1
    assert "without the bug, too" in capsys.readouterr().out
    [row] = json.loads((tmp_path / "out" / "report.json").read_text())["mutants"]
    assert (row["found"], row["twin_clean"]) == (False, False)


@pytest.mark.xdist_group("mutants")
def test_impl_as_it_is_shows_nothing(tmp_path):
    assert hunt_unpatched(prepared_tiny(tmp_path)) is None


def prepared_tiny(folder: Path) -> Path:
    return prepare(Plan(scope="idempotent-tiny", traces=3), folder / "prepared").directory


def test_a_process_that_fails_is_told_with_its_last_words(tmp_path, monkeypatch):
    def cut_off(_mutant: object, root: Path) -> None:
        (root / "impl").mkdir()
        (root / "impl" / "__init__.py").write_text("raise RuntimeError('no impl here')\n")

    monkeypatch.setattr("conformance.campaigns.mutants.patched_impl.write_patched", cut_off)
    prepared = prepare(Plan(scope="idempotent-restart", traces=3), tmp_path / "prepared")
    with pytest.raises(HuntFailed, match="no impl here"):
        hunt(MUTANTS["wrap_refused"], prepared.directory)
