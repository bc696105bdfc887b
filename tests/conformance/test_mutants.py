"""Bugs planted in impl: patches fit exactly, and the judge alone finds each of them."""

import json
from pathlib import Path
from statistics import median

import pytest

from conformance.__main__ import main
from conformance.mutants import FOLDER, GROUPS, MUTANTS, Ground
from conformance.mutants.patches import PatchError, apply, read_hunks
from conformance.mutants.plant import HuntFailed, hunt, hunt_unpatched, plant
from conformance.plan import Plan, configuration, prepare
from model.idempotent.variants import parse

TEXT = "one\ntwo\nthree\ntwo and a half\n"
HEAD = "--- a/impl/x.py\n+++ b/impl/x.py\n"


SHOWN = (
    "overlap_is_duplicate",
    "bump_repeated",
    "wrap_refused",
    "plain_batches_deduplicated",
    "commit_of_nothing",
    "batches_leave_as_v1",
    "timeout_without_bump",
    "marker_strictly_greater",
)
"""A few of each kind on six grounds: all of them take the verb's own minutes."""

SHIPPED = (
    "delayed_end_txn",
    "late_produce_hangs",
    "late_produce_adopted",
    "marker_at_equal_epoch",
    "marker_strictly_greater",
    "timeout_without_bump",
    "double_bump_on_fence",
    "failed_fence_burns_epoch",
    "ongoing_not_logged",
    "pending_state_leaks",
    "completion_written_twice",
    "exhausted_epoch_not_rotated",
    "next_producer_id_not_logged",
    "empty_abort_fences_itself",
    "end_txn_epoch_not_compared",
    "produce_during_completion",
    "verification_is_a_boolean",
    "lso_inclusive",
    "lso_ahead_of_applied",
    "late_offset_commit",
    "unstable_offset_read",
    "send_failure_not_poisoning",
    "bump_inside_transaction",
    "commit_of_nothing",
    "end_txn_error_ignored",
    "sequence_used_by_unsent_record",
)
"""Bugs of transactions that were in a release of Kafka, or of a system that speaks its protocol."""


@pytest.fixture(scope="module")
def hunted(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    out = tmp_path_factory.mktemp("hunted") / "out"
    names = [argument for name in SHOWN for argument in ("--only", name)]
    return main(["mutants", *names, "--out", str(out)]), out


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
    assert [row["name"] for row in rows] == list(SHOWN)
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
    _, out = hunted
    assert main(["explain", str(out / "wrap_refused.jsonl")]) == 0
    assert "producer 0 sends" in capsys.readouterr().out


@pytest.mark.xdist_group("mutants")
def test_what_is_no_bug_is_not_found(hunted, tmp_path, monkeypatch, capsys):
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
    """Another difference on the same ground: no row of it counts as found."""
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

    monkeypatch.setattr("conformance.mutants.plant.plant", cut_off)
    prepared = prepare(Plan(scope="idempotent-restart", traces=3), tmp_path / "prepared")
    with pytest.raises(HuntFailed, match="no impl here"):
        hunt(MUTANTS["wrap_refused"], prepared.directory)


# The registry


def test_there_are_so_many_bugs_and_each_is_another_one():
    assert len(GROUPS["idempotent"]) >= 40
    assert len(GROUPS["transactions"]) >= 60
    assert sum(map(len, GROUPS.values())) == len(MUTANTS)
    assert len({mutant.what for mutant in MUTANTS.values()}) == len(MUTANTS)
    changes = [tuple((h.path, h.old, h.new) for h in read_hunks(m.patch)) for m in MUTANTS.values()]
    assert len(set(changes)) == len(MUTANTS)


def test_what_shipped_once_is_planted_under_its_name():
    assert set(SHIPPED) <= {mutant.name for mutant in GROUPS["transactions"]}


def test_a_bug_of_transactions_says_which_rule_it_breaks():
    """A KIP, an issue, a change log or a class of Kafka, in brackets at the end."""
    for mutant in GROUPS["transactions"]:
        assert mutant.what.endswith(")"), mutant.name


@pytest.mark.parametrize("text", ["transactions-tiny", "transactions-small/moves=0 of v1"])
def test_a_ground_is_read_as_it_is_written(text):
    assert str(Ground.parse(text)) == text


def test_every_patch_belongs_to_a_row():
    assert {path.stem for path in FOLDER.glob("*.patch")} == set(MUTANTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_patch_fits_once_and_leaves_python(name, tmp_path):
    originals = {
        hunk.path: (FOLDER.parents[1] / hunk.path).read_text()
        for hunk in read_hunks(MUTANTS[name].patch)
    }
    for path, text in originals.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    apply(MUTANTS[name].patch, tmp_path)
    for path, text in originals.items():
        changed = (tmp_path / path).read_text()
        assert changed != text
        compile(changed, path, "exec")


def test_a_bug_is_planted_in_a_copy_of_all(tmp_path):
    plant(MUTANTS["wrap_refused"], tmp_path)
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.py")}
    there = FOLDER.parents[1]
    assert files == {path.relative_to(there) for path in (there / "impl").rglob("*.py")}


@pytest.mark.parametrize("ground", sorted({m.ground for m in MUTANTS.values()}, key=str), ids=str)
def test_each_ground_is_a_configuration(ground):
    assert configuration(Plan(scope=ground.scope, variant=parse(ground.variant or "v2").name))


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
