"""What a run keeps: a journal that survives a kill, and a directory of one question."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proofs.__main__ import main
from proofs.run.directory import Busy, OtherRun, RunDirectory, Stopped
from proofs.run.journal import DamagedRun, Journal

pytestmark = pytest.mark.fast

ASKED = {"scope": "tiny", "seed": 0}
RESULTS = {"first": [1, "é"], "second": {"found": None}, "third": 0.25}


def written(file: Path) -> Journal:
    journal = Journal(file)
    for unit, result in RESULTS.items():
        journal.add(unit, result)
    return journal


# The journal


def test_a_journal_is_read_back_in_its_order(tmp_path: Path) -> None:
    written(tmp_path / "journal.jsonl")
    assert list(Journal(tmp_path / "journal.jsonl").items()) == list(RESULTS.items())


def test_wherever_a_kill_cuts_the_last_line_the_others_stand(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    written(file)
    content = file.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(content)):
        file.write_bytes(content[:end])
        assert list(Journal(file)) == ["first", "second"]
        assert file.read_bytes() == content[:last]
    Journal(file).add("third", RESULTS["third"])
    assert file.read_bytes() == content


@pytest.mark.parametrize("damage", ["{", "[]", '{"unit": "second"}', "\x00\x00"])
def test_a_damaged_line_is_named(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    written(file)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], damage, lines[2], ""]))
    with pytest.raises(DamagedRun, match=r"journal\.jsonl:2 is not what was written; remove"):
        Journal(file)


def test_a_changed_result_is_damage(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    written(file)
    file.write_text(file.read_text().replace("0.25", "0.5"))
    with pytest.raises(DamagedRun, match=r"journal\.jsonl:3"):
        Journal(file)


WRITER = """
import sys
from pathlib import Path
from proofs.run.journal import Journal
journal = Journal(Path(sys.argv[1]))
for number in range(len(journal), 1_000_000):
    journal.add(str(number), "x" * 5_000)
"""


def test_a_journal_survives_sigkill_at_any_moment(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    stood = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(file)])
        deadline = time.monotonic() + 30
        size = file.stat().st_size if file.exists() else 0
        while not file.exists() or file.stat().st_size < size + 200_000:
            assert process.poll() is None
            assert time.monotonic() < deadline
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        units = list(Journal(file))
        assert units == [str(number) for number in range(len(units))]
        assert len(units) > stood
        stood = len(units)


# The directory


def test_the_same_question_continues(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, ASKED, "code") as directory:
        directory.journal.add("unit", 1)
    with RunDirectory(tmp_path, ASKED, "code") as directory:
        assert dict(directory.journal) == {"unit": 1}


def test_another_question_is_refused_by_name(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, ASKED):
        pass
    for other, message in (
        ({**ASKED, "seed": 1}, "seed 0, this one has 1"),
        ({**ASKED, "faults": "none"}, 'faults null, this one has "none"'),
    ):
        with pytest.raises(OtherRun, match=message), RunDirectory(tmp_path, other):
            pass


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    for name in ("report.json", "journal.jsonl"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("{}")
        with pytest.raises(OtherRun, match="no run of ours"), RunDirectory(folder, ASKED):
            pass


@pytest.mark.parametrize("text", ["{", "[]", '{"arguments": 1, "code": ""}'])
def test_damaged_arguments_are_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "arguments.json").write_text(text)
    with pytest.raises(DamagedRun, match=r"arguments\.json"), RunDirectory(tmp_path, ASKED):
        pass


def test_work_of_other_code_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunDirectory(tmp_path, ASKED, "before", ["work"]) as directory:
        directory.journal.add("unit", 1)
    for folder in ("work", "mine"):
        (tmp_path / folder).mkdir()
    with RunDirectory(tmp_path, ASKED, "after", ["work"]) as directory:
        assert dict(directory.journal) == {}
    assert "the code has changed" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["mine"]


def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        RunDirectory(tmp_path, ASKED),
        pytest.raises(Busy, match="another run is at work"),
        RunDirectory(tmp_path, ASKED),
    ):
        pass
    with RunDirectory(tmp_path, ASKED):
        pass


def test_ctrl_c_says_how_to_continue(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, ASKED) as directory:
        directory.journal.add("unit", 1)
    with (
        pytest.raises(Stopped, match="the same command goes on from there"),
        RunDirectory(tmp_path, ASKED),
    ):
        raise KeyboardInterrupt


def test_ctrl_c_says_that_a_checkpoint_is_kept(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with (
        pytest.raises(Stopped, match="the same command goes on from there"),
        RunDirectory(tmp_path, ASKED, made=["work"]),
    ):
        raise KeyboardInterrupt


def test_ctrl_c_says_that_nothing_is_kept(tmp_path: Path) -> None:
    with (
        pytest.raises(Stopped, match="the same command begins again"),
        RunDirectory(tmp_path, ASKED, made=["work"]),
    ):
        raise KeyboardInterrupt


def test_reports_are_written_apart_and_together(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "out", ASKED) as directory:
        directory.write({"verdict": "holds"}, {"seconds": 1}, tmp_path / "both.json")
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == {"verdict": "holds"}
    both = json.loads((tmp_path / "both.json").read_text())
    assert both == {"verdict": "holds", "run": {"seconds": 1}}


def test_without_a_directory_nothing_is_written(tmp_path: Path) -> None:
    with RunDirectory(None, ASKED) as directory:
        directory.journal.add("unit", 1)
        directory.write({}, {}, None)
    assert list(tmp_path.iterdir()) == []


# The command line


@pytest.mark.parametrize("fault", ["another question", "not ours", "a damaged line", "a file"])
def test_a_fault_is_one_sentence_and_no_traceback(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["explore", "idempotent-tiny", "--engine", "ints", "--out", str(out)]
    match fault:
        case "another question":
            with RunDirectory(out, ASKED):
                pass
        case "not ours":
            out.mkdir()
            (out / "report.json").write_text("{}")
        case "a damaged line":
            assert main(command) == 0
            journal = out / "journal.jsonl"
            journal.write_text(journal.read_text().replace('"unit"', '"thing"', 1))
        case _:
            out.write_text("a file")
    capsys.readouterr()
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said.startswith("kafka-eos: ")
    assert str(out) in said
    assert said.count("\n") == 1
