"""Commands as jobs: what a table makes of templates, and what becomes of the jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.backends.jobs.table import jobs_of, values_of
from kafka_eos.command_line import main
from proofs.run import BadUse

NAMES = {"colours": ["red", "green", "dark green"]}
BREAKING = '[("leader.is_duplicate", "batch.producer_epoch == entry.producer_epoch", "False")]'
"""A patch that breaks a guarantee of BEST in the smallest scope."""
BEST = "first_sequence=strict/restart_window=full"


def commands(*templates: str, each: tuple[str, ...] = ()) -> list[str]:
    return [job.command for job in jobs_of(templates, values_of(each, NAMES.__getitem__))]


@pytest.mark.fast
def test_a_template_is_filled_with_each_combination() -> None:
    assert commands("a {x} --b {y}", "kafka-eos c", each=("x=1,2", "y=p=q,r")) == [
        "a 1 --b p=q",
        "a 1 --b r",
        "a 2 --b p=q",
        "a 2 --b r",
        "c",
    ]
    assert commands("a {x}-{x}", each=("x=1,2",)) == ["a 1-1", "a 2-2"]


@pytest.mark.fast
def test_names_of_a_kind_stay_one_word() -> None:
    assert commands("a {c}", each=("c=@colours:.*green",)) == ["a green", "a 'dark green'"]
    assert len(commands("a {c}", each=("c=@colours",))) == 3


@pytest.mark.fast
@pytest.mark.parametrize(
    ("templates", "each", "says"),
    [
        (["a {x}"], [], "give --each x="),
        (["a"], ["x=1"], r"no command names \{x\}"),
        (["a {}"], [], "is no name"),
        (["a {x"], ["x=1"], "for a brace"),
        (["a 'b"], [], "No closing quotation"),
        (["a {x}"], ["x=1,1"], "there twice"),
        (["a {x}"], ["x=1", "x=2"], "each NAME once"),
        (["a {x}"], ["x"], "write NAME=A,B"),
        (["a {x}"], ["x=@colours:blue"], "no name of colours matches"),
        (["a {x}"], ["x=@colours:("], "invalid REGEX"),
        ([], [], "there is no job"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(
    templates: list[str], each: list[str], says: str
) -> None:
    with pytest.raises(BadUse, match=says):
        jobs_of(templates, values_of(each, NAMES.__getitem__))


def read(out: Path) -> dict[str, tuple[int, str]]:
    report = json.loads((out / "report.json").read_text("utf-8"))
    return {row["command"]: (row["exit_code"], row["verdict"]) for row in report["jobs"]}


def test_jobs_are_done_once_but_for_those_without_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patch, out = tmp_path / "idea.py", tmp_path / "out"
    patch.write_text(BREAKING)
    broken = f"explore idempotent-tiny --engine ints --variant {BEST} --patch {patch} --stop"
    bad = "explore idempotent-tiny --engine nosuch"
    words = ["jobs", "list {kind}", broken, bad, "--each", "kind=backends,sources"]
    words += ["--partitions", "2", "--out", str(out)]
    assert main(words) == 1
    assert read(out) == {
        "list backends": (0, "holds"),
        "list sources": (0, "holds"),
        broken: (1, "violated"),
        bad: (2, "bad use"),
    }
    said = capsys.readouterr()
    assert f"bad use: {bad}: kafka-eos explore: error: " in said.out
    first, found = (
        json.loads((out / "reports" / f"0000{n}.json").read_text("utf-8")) for n in (0, 2)
    )
    assert [row["name"] for row in first["report"]["backends"]] == ["spark", "processes"]
    assert found["report"]["violations"]
    assert main(words) == 1
    done_again = [line for line in capsys.readouterr().err.splitlines() if " s  " in line]
    assert [line.rpartition(" s  ")[2] for line in done_again] == [bad]


@pytest.mark.full
@pytest.mark.xdist_group("spark")
def test_spark_does_the_same_jobs(tmp_path: Path) -> None:
    """In executors that have nothing but what was shipped."""
    words = ["jobs", "list {kind}", "explore nosuch", "--each", "kind=backends,sources"]
    there, here = tmp_path / "spark", tmp_path / "processes"
    cluster = ["--backend", "spark", "--master", "local-cluster[2,1,1024]"]
    assert main([*words, *cluster, "--out", str(there)]) == 2
    assert main([*words, "--out", str(here)]) == 2
    assert read(there) == read(here)
    assert (there / "report.json").read_bytes() == (here / "report.json").read_bytes()
