"""A run whose folder is at a URI: another driver goes on with it."""

import json
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.judging.file_systems import find_folder
from conformance.judging.remote import RemoteDirectory
from proofs.run.directory import OtherRun, RunDirectory, Stopped

ASKED = {"seed": 0, "traces": 4}


@pytest.fixture
def remote(tmp_path: Path) -> RemoteDirectory:
    uri = (tmp_path / "bucket" / "run").as_uri()
    return RemoteDirectory(uri, *find_folder("--out", uri))


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_units_are_kept_before_the_run_ends(remote: RemoteDirectory, tmp_path: Path) -> None:
    there = tmp_path / "bucket" / "run"
    with RunDirectory(remote, ASKED, "code") as directory:
        directory.journal.add("first", 1)
        directory.journal.add("second", 2)
        kept = ["arguments.json", "journal/00000000.jsonl", "journal/00000001.jsonl"]
        assert names(there) == kept
        left = directory.path
    assert left is not None
    assert not left.exists()
    with RunDirectory(remote, ASKED, "code") as directory:
        assert dict(directory.journal) == {"first": 1, "second": 2}
        directory.journal.add("third", 3)
    with RunDirectory(remote, ASKED, "code") as directory:
        assert list(directory.journal) == ["first", "second", "third"]


def test_other_code_begins_again(
    remote: RemoteDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunDirectory(remote, ASKED, "before") as directory:
        directory.journal.add("unit", 1)
    for _ in range(2):
        with RunDirectory(remote, ASKED, "after") as directory:
            assert not directory.journal
    assert f"the code has changed since the run in {remote.uri}" in capsys.readouterr().err


def test_another_question_is_refused_with_the_uri(remote: RemoteDirectory) -> None:
    with RunDirectory(remote, ASKED):
        pass
    message = f"{remote.uri} holds a run with seed 0, this one has 1"
    with pytest.raises(OtherRun, match=message), RunDirectory(remote, {**ASKED, "seed": 1}):
        pass


def test_ctrl_c_names_the_uri(remote: RemoteDirectory) -> None:
    with RunDirectory(remote, ASKED) as directory:
        directory.journal.add("unit", 1)
    with (
        pytest.raises(Stopped, match=f"what is done is in {remote.uri}"),
        RunDirectory(remote, ASKED),
    ):
        raise KeyboardInterrupt


@pytest.mark.full  # two runs; in the suite units are kept and begun with by themselves
def test_another_driver_goes_on_with_a_run(
    small: list[str], whole_run, remote: RemoteDirectory, tmp_path: Path, capsys
) -> None:
    """The first driver dies behind some waves: its folder is gone, its units are at the URI."""
    there = tmp_path / "bucket" / "run"
    assert main([*small, "--out", remote.uri]) == 0
    whole = (there / "report.json").read_bytes()
    assert json.loads(whole) == whole_run.report
    assert f"{remote.uri}/report.json" in capsys.readouterr().out
    parts = sorted((there / "journal").iterdir())
    for name in [*parts[1:], there / "report.json"]:
        name.unlink()
    assert main([*small, "--out", remote.uri]) == 0
    assert "traces are judged" in capsys.readouterr().err
    assert (there / "report.json").read_bytes() == whole


@pytest.mark.parametrize("uri", ["nosuch://there/x", "s3:/x://"])
def test_a_place_that_nobody_knows_is_told(uri: str, small: list[str], capsys) -> None:
    assert main([*small, "--out", uri]) == 2
    assert "--out" in capsys.readouterr().err
