"""A scope explored on Spark: the counts of the C engine, through a driver that dies on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.backends.exploration.successors import merge_counts
from kafka_eos.command_line import main
from proofs.explore.batch import MachineShape

BREAKING = '[("leader.is_duplicate", "batch.producer_epoch == entry.producer_epoch", "False")]'
"""A patch that breaks a guarantee of BEST."""
BEST = "first_sequence=strict/restart_window=full"
COUNTED = ("distinct", "transitions", "depth", "levels", "firings", "deadlocks", "verdict")
SHAPE = MachineShape(words=1, rules=2, tests=2, inputs=())


def explore(out: Path, *words: str) -> int:
    return main(["explore", *words, "--out", str(out)])


def found(out: Path) -> dict[str, Any]:
    """What the report says, but for which of several traces of one length it shows."""
    report = json.loads((out / "report.json").read_text("utf-8"))
    broken = {one["property"]: one["steps"] for one in report["violations"]}
    happened = {name: len(trace) for name, trace in report["witnesses"].items()}
    return {name: report[name] for name in COUNTED} | {"broken": broken, "happened": happened}


@pytest.mark.xdist_group("spark")
def test_a_planted_bug_is_found_though_the_driver_dies_on_the_way(
    spark_session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies behind the states of a level, before their counts: they are found again."""
    from conformance.backends.exploration.state_table import StateTable

    patch = tmp_path / "patch.py"
    patch.write_text(BREAKING)
    words = ("idempotent-producers", "--variant", BEST, "--patch", str(patch), "--stop")
    on_spark = (*words, "--backend", "spark", "--partitions", "2")

    def die_at_three(self: StateTable, level: int, counts: dict[str, Any]) -> None:
        if level == 3:
            raise KeyboardInterrupt
        write_counts(self, level, counts)

    write_counts = StateTable.write_counts
    with monkeypatch.context() as dying:
        dying.setattr(StateTable, "write_counts", die_at_three)
        assert explore(tmp_path / "spark", *on_spark) == 3
    states = tmp_path / "spark" / "levels" / "idempotent-producers" / "states"
    assert any((states / "level=3").glob("*.parquet"))
    assert explore(tmp_path / "spark", *on_spark) == 1
    assert explore(tmp_path / "ints", *words, "--engine", "ints") == 1
    assert found(tmp_path / "spark") == found(tmp_path / "ints")
    assert found(tmp_path / "spark")["broken"] == {"no_false_error": 5}


@pytest.mark.full
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("scope", ["producer-ids", "processing", "transactions-late-batch"])
def test_a_cluster_counts_what_the_c_engine_counts(tmp_path: Path, scope: str) -> None:
    """States of one word, whose fingerprints are exact, and of more."""
    cluster = ("--backend", "spark", "--master", "local-cluster[2,1,1024]")
    assert explore(tmp_path / "spark", scope, *cluster) == 0
    assert explore(tmp_path / "c", scope) == 0
    assert found(tmp_path / "spark") == found(tmp_path / "c")


# Tallies


def tally(partition: int, **more: Any) -> str:
    counted = {"transitions": 3, "deadlocks": 1, "firings": [1, 2], "first": [None, [5, 7]]}
    return json.dumps([partition, {**counted, "broken": None, **more}])


def test_a_task_that_was_tried_again_counts_once() -> None:
    merged = merge_counts([tally(0), tally(1), tally(0)], SHAPE)
    assert (merged.transitions, merged.deadlocks, merged.firings) == (6, 2, [2, 4])


def test_the_least_state_is_noted_whatever_the_order() -> None:
    parts = [tally(0), tally(1, first=[[1, 2], [-9, 4]]), tally(2, first=[None, [-9, 3]])]
    for order in (parts, parts[::-1]):
        assert merge_counts(order, SHAPE).first == [(1, 2), (-9, 3)]


def test_a_value_out_of_range_is_told_by_state_and_rule() -> None:
    parts = [tally(0), tally(1, broken=[[3, 4], 1]), tally(2, broken=[[3, 2], 0])]
    assert merge_counts(parts, SHAPE).broken == ((3, 2), 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--master", "local[1]"], "belong to --backend spark"),
        (["--out", "file:///tmp/nowhere"], "a URI as --out belongs to --backend spark"),
        (["--backend", "spark", "--engine", "c"], "belong to --backend threads"),
        (["--backend", "processes"], "invalid --backend"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", "idempotent-tiny", *words]) == 2
    assert says in capsys.readouterr().err
