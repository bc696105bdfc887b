"""Spark against processes: how pairs are taken and compared. Nothing is timed here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import spark
from conformance.backends import processes
from conformance.judging.backend import Options, ResultRow, TraceRange, WorkerTask
from conformance.judging.findings import Summary
from conformance.judging.rows import Found, row_of
from conformance.judging.runner import cut

RANGES = (TraceRange(0, 2), TraceRange(2, 4))


class Fake:
    """A backend whose rounds take so many ticks of a clock that it moves itself."""

    cores: int | None = 2

    def __init__(self, name: str, ticks: Sequence[int], steps: int = 1) -> None:
        self.name = name
        self.ticks = iter(ticks)
        self.found = Found(Summary(traces=2, steps=steps))

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        Clock.now += next(self.ticks)
        Clock.order.append(self.name)
        yield None
        for part in reversed(ranges):
            yield row_of(part, self.found)

    def close(self) -> None:
        """Nothing is held."""


class Clock:
    """Time that passes only in rounds."""

    now = 0.0
    order: list[str] = []  # noqa: RUF012

    @classmethod
    def read(cls) -> float:
        return cls.now


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Clock.now, Clock.order = 0.0, []


def test_pairs_alternate_and_the_ratio_is_the_median_of_each() -> None:
    backends = {"spark": Fake("spark", (10, 10, 20)), "processes": Fake("processes", (9, 5, 19))}
    found = spark.time_rounds(backends, RANGES, 3, Clock.read)
    assert Clock.order == ["spark", "processes", "processes", "spark", "spark", "processes"]
    fixed = {"spark": [0.5, 0.3, 0.9], "processes": [0.1, 0.1, 0.1]}
    report = spark.summarise(RANGES, 2, {"spark": 3.0, "processes": 1.0}, fixed, found, 72)
    assert report["ratio_of_each_pair"] == [0.9, 0.5, 0.95]
    assert (report["ratio"], report["spark_seconds"], report["processes_seconds"]) == (0.9, 10, 9)
    assert report["microseconds_a_trace"] == 9 * 2 * 1e6 / 4
    assert report["fixed_seconds"] == {"spark": 0.5, "processes": 0.1}
    assert report["idle"] == 0.1
    assert "ratio 0.900" in spark.format_report({"scope": "s", **report})


def test_backends_that_disagree_are_refused() -> None:
    backends = {"spark": Fake("spark", (1,)), "processes": Fake("processes", (1,), steps=2)}
    with pytest.raises(spark.Disagreement, match="processes gives another result"):
        spark.time_rounds(backends, RANGES, 1, Clock.read)


def test_the_command_judges_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With processes in the place of Spark, which takes too long to begin here."""
    masters: list[str | None] = []
    monkeypatch.setattr(spark, "busy_seconds", lambda backend: 0.0)

    def opened(_name: str, task: WorkerTask, options: Options) -> processes.Processes:
        masters.append(options.master)
        return processes.open_backend(task, Options(options.log, partitions=1))

    monkeypatch.setattr(spark, "open_backend", opened)
    file = tmp_path / "new" / "out.json"
    words = ["idempotent-restart", "--traces", "8", "--pairs", "2", "--json", str(file)]
    assert spark.main(words) == 0
    assert masters == ["local[2]", None]
    assert capsys.readouterr().out.startswith("idempotent-restart: 8 traces in ")
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["benchmark"] == "spark"
    assert written["ranges"] == len(cut(0, 8))
    assert len(written["ratio_of_each_pair"]) == 2
    assert written["begin_seconds"].keys() == {"spark", "processes"}


def test_an_unknown_scope_is_bad_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        spark.main(["none"])
    assert stop.value.code == 2
    assert "choose one of" in capsys.readouterr().err
