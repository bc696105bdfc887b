"""Bugs planted in impl: patches fit exactly, and the judge alone finds each of them."""

import json
from pathlib import Path
from statistics import median

import pytest

from conformance.__main__ import main
from conformance.mutants import FOLDER, MUTANTS
from conformance.mutants.patches import PatchError, apply, read_hunks
from conformance.mutants.plant import HuntFailed, hunt, plant
from conformance.plan import Plan, prepare

TEXT = "one\ntwo\nthree\ntwo and a half\n"
HEAD = "--- a/impl/x.py\n+++ b/impl/x.py\n"


@pytest.fixture(scope="module")
def hunted(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    out = tmp_path_factory.mktemp("hunted") / "out"
    return main(["mutants", "--out", str(out)]), out


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "impl").mkdir()
    (tmp_path / "impl" / "x.py").write_text(TEXT)
    return tmp_path


def patch_of(folder: Path, text: str) -> Path:
    path = folder / "x.patch"
    path.write_text(text)
    return path


# Finding them


@pytest.mark.xdist_group("mutants")
def test_each_bug_is_found_shrunk_and_drawn(hunted):
    code, out = hunted
    report = json.loads((out / "report.json").read_text())
    rows = report["mutants"]
    assert code == 0
    assert report["verdict"] == "holds"
    assert [row["name"] for row in rows] == list(MUTANTS)
    for row in rows:
        assert row["found"]
        assert row["one_minimal"]
        assert row["twin_clean"]
        assert (out / row["trace"]).is_file()
        page = (out / row["trace"]).with_suffix(".html").read_text()
        assert row["rule"] in page
    assert median(row["steps"] for row in rows) <= 15


@pytest.mark.xdist_group("mutants")
def test_a_found_bug_can_be_explained(hunted, capsys):
    _, out = hunted
    assert main(["explain", str(out / "wrap_refused.jsonl")]) == 0
    assert "producer 0 sends" in capsys.readouterr().out


@pytest.mark.xdist_group("mutants")
def test_what_is_no_bug_is_not_found(hunted, tmp_path, monkeypatch, capsys):
    """A patch that changes nothing: the verb says so, and exits 1."""
    from conformance.verbs import mutants as verb

    name = "high_watermark_ignored"
    monkeypatch.setattr(verb, "hunt", lambda mutant, prepared: None)
    assert main(["mutants", "--only", name, "--out", str(tmp_path / "out")]) == 1
    assert f"{name} " in capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [row["found"] for row in report["mutants"]] == [False]


def test_an_unknown_bug_is_bad_use(tmp_path, capsys):
    assert main(["mutants", "--only", "none", "--out", str(tmp_path / "out")]) == 2
    assert "window_of_four" in capsys.readouterr().err


def test_a_process_that_fails_is_told_with_its_last_words(tmp_path, monkeypatch):
    def cut_off(_mutant: object, root: Path) -> None:
        (root / "impl").mkdir()
        (root / "impl" / "__init__.py").write_text("raise RuntimeError('no impl here')\n")

    monkeypatch.setattr("conformance.mutants.plant.plant", cut_off)
    prepared = prepare(Plan(scope="idempotent-restart", traces=3), tmp_path / "prepared")
    with pytest.raises(HuntFailed, match="no impl here"):
        hunt(MUTANTS["wrap_refused"], prepared.directory)


# The registry


def test_every_patch_belongs_to_a_row_and_fits(tmp_path):
    assert {path.stem for path in FOLDER.glob("*.patch")} == set(MUTANTS)
    for mutant in MUTANTS.values():
        plant(mutant, tmp_path / mutant.name)
        changed = {hunk.path for hunk in read_hunks(mutant.patch)}
        for path in changed:
            original = Path(FOLDER).parents[1] / path
            assert (tmp_path / mutant.name / path).read_text() != original.read_text()


# Patches


def test_a_hunk_replaces_its_lines(tree):
    apply(patch_of(tree, HEAD + "@@ -2,2 +2,3 @@\n-two\n+2\n+2.1\n three\n"), tree)
    assert (tree / "impl" / "x.py").read_text() == "one\n2\n2.1\nthree\ntwo and a half\n"


def test_a_hunk_may_stand_elsewhere_than_its_head_says(tree):
    apply(patch_of(tree, HEAD + "@@ -70 +70 @@\n-three\n+3\n"), tree)
    assert "3\n" in (tree / "impl" / "x.py").read_text()


def test_words_before_the_hunks_are_not_read(tree):
    apply(patch_of(tree, "Why this bug.\n" + HEAD + "@@ -1 +1 @@\n-one\n+1\n"), tree)
    assert (tree / "impl" / "x.py").read_text().startswith("1\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no hunk"),
        (HEAD, "no hunk"),
        ("@@ -1 +1 @@\n-one\n+1\n", "not as long"),
        (HEAD + "@@ -1,3 +1 @@\n-one\n+1\n", "not as long"),
        (HEAD + "@@ -1 +1 @@\n-one\n!1\n", "not as long"),
        (HEAD + "@@ -1 +1 @@\n-four\n+4\n", "stand 0 times"),
        (HEAD + "@@ -1 +1 @@\n-wo\n+4\n", "stand 0 times"),
        (HEAD.replace("x.py", "y.py") + "@@ -1 +1 @@\n-one\n+1\n", "no file impl/y.py"),
    ],
)
def test_a_patch_that_does_not_fit_is_an_error_and_changes_nothing(text, message, tree):
    with pytest.raises(PatchError, match=message):
        apply(patch_of(tree, text), tree)
    assert (tree / "impl" / "x.py").read_text() == TEXT


def test_a_hunk_that_fits_twice_is_an_error(tree):
    (tree / "impl" / "x.py").write_text("a\nb\na\n")
    with pytest.raises(PatchError, match="stand 2 times"):
        apply(patch_of(tree, HEAD + "@@ -1 +1 @@\n-a\n+c\n"), tree)


def test_a_missing_patch_is_an_error(tree):
    with pytest.raises(PatchError, match="name a readable patch"):
        apply(tree / "none.patch", tree)
