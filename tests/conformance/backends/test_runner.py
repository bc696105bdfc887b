"""The runner: ranges, waves, backends; the same result from each of them."""

import functools
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.__main__ import main
from conformance.backends.by_name import open_backend
from conformance.backends.worker import judge
from conformance.judging.backend import (
    BackendError,
    Options,
    RangeNumbers,
    ResultRow,
    TraceRange,
    WorkerTask,
)
from conformance.judging.findings import Summary
from conformance.judging.rows import (
    Found,
    from_json,
    merge_rows,
    numbers_of,
    row_of,
    to_json,
    unpack,
)
from conformance.judging.runner import (
    MOST_BYTES_OF_A_WAVE,
    MOST_RANGES_OF_A_WAVE,
    Wave,
    Waves,
    WaveSpeed,
    cut,
    range_size,
    run_waves,
    wave_length,
)
from proofs.run.files import REPOSITORY
from proofs.run.journal import DamagedRun, Journal
from tests.sizes import sized

FAKES = Path(__file__).parent / "fakes"
sys.path.insert(0, str(FAKES))
import fake_plan  # noqa: E402

COUNT = 900
DIVERGING = [3, 4, 5, 250, 251, 700, *range(800, 850)]


class Inline:
    """Judges in this process, and stops as told: after so many ranges, as if interrupted."""

    name = "inline"
    executors: Sequence[dict[str, Any]] = ()
    cores: int | None = 2

    def __init__(self, task: WorkerTask, stop_after: int = sys.maxsize) -> None:
        self._task = task
        self._left = stop_after

    def judge(self, ranges: Sequence[TraceRange]) -> Iterator[ResultRow | None]:
        for part in ranges:
            if self._left == 0:
                raise KeyboardInterrupt
            self._left -= 1
            yield None
            yield judge(self._task, part)

    def close(self) -> None:
        pass


@pytest.fixture
def task(tmp_path: Path) -> WorkerTask:
    directory = fake_plan.write(tmp_path / "prepared", COUNT, diverging=DIVERGING)
    return WorkerTask("fake_plan", directory, (REPOSITORY, FAKES))


def open_waves(directory: Path, count: int = COUNT) -> Waves:
    return Waves(Journal(directory / "out" / "journal.jsonl"), count)


def nobody(done: int, total: Found) -> None:
    """Watches nothing."""


class Ticking:
    """A clock that moves a second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@functools.cache
def expected() -> Found:
    return fake_plan.judge({"diverging": DIVERGING}, TraceRange(0, COUNT))


# Cutting


@pytest.mark.parametrize("count", [0, 1, 7, 256, 257, 900, 10_000, 1_000_000])
def test_ranges_are_the_whole_work_once(count):
    ranges = cut(0, count)
    assert [i for part in ranges for i in (part.first, part.last)] == sorted(
        i for part in ranges for i in (part.first, part.last)
    )
    assert sum(last - first for first, last in ranges) == count
    assert cut(ranges[len(ranges) // 2].first, count) == ranges[len(ranges) // 2 :] if count else 1


def test_a_wave_is_never_empty_and_short_work_has_several():
    for count in (1, 2, 5, 300, 100_000):
        assert wave_length(count, None, 2) >= 1
        assert wave_length(count, WaveSpeed(1e-9, 1.0), 2) == 1
    ranges = len(cut(0, 300))
    assert wave_length(300, WaveSpeed(1e9, 1.0), 2) <= -(-ranges // 4)
    assert range_size(300) == 2


# Rows


def test_a_summary_travels_as_rows_and_comes_back():
    found = expected()
    assert from_json(to_json(found)) == found
    assert unpack(row_of(TraceRange(0, COUNT), found).body) == found


@settings(max_examples=25)
@given(order=st.permutations(range(0, COUNT, 100)), cuts=st.lists(st.integers(0, 9), max_size=3))
def test_rows_merge_in_any_order_and_grouping_to_the_same_bytes(order, cuts):
    rows = [row_at(first) for first in order]
    groups = [rows[a:b] for a, b in pairwise([0, *sorted(cuts), len(rows)])]
    merged = merge_rows(merge_rows(group) for group in groups)
    assert merged == merge_rows(row_at(first) for first in range(0, COUNT, 100))
    assert unpack(merged.body) == expected()


@functools.cache
def row_at(first):
    part = TraceRange(first, first + 100)
    return row_of(part, fake_plan.judge({"diverging": DIVERGING}, part))


def test_a_row_is_as_long_as_what_it_says_not_as_all_that_could_be():
    """Of a scope's million transitions a range takes a few."""
    few = sum(1 << n for n in range(0, 1_000_000, 1_000)).to_bytes(125_000, "little")
    found = Found(Summary(traces=1024, transitions=few))
    row = row_of(TraceRange(0, 1024), found)
    assert unpack(row.body) == found
    assert len(row.body) + len(row.ranges) < 5_000


def test_the_journal_keeps_each_transition_once(tmp_path):
    """Else its waves would be as long as the scope, however little was new in them."""
    waves = open_waves(tmp_path, 300)
    bits = random.Random(0).randbytes(50_000)
    for first in range(0, 300, 100):
        wave = Wave(first, first + 100, 1.0, 500, "inline", 2)
        numbers = RangeNumbers(first, first + 100, 100, 500, 0, bits.count(1))
        waves.add(wave, Found(Summary(traces=100, transitions=bits)), [numbers])
    sizes = [len(line) for line in (tmp_path / "out/journal.jsonl").read_text().splitlines()]
    assert sizes[0] > 50_000
    assert max(sizes[1:]) < 1_000
    assert open_waves(tmp_path, 300).total == waves.total


def test_a_wave_brings_no_more_bytes_than_memory_holds():
    long_rows = WaveSpeed(ranges_a_second=1e6, bytes_a_range=1e6)
    assert wave_length(10**9, long_rows, 2) <= MOST_BYTES_OF_A_WAVE / 1e6
    assert wave_length(10**9, WaveSpeed(1e6, 1.0), 2) == MOST_RANGES_OF_A_WAVE


# Waves


def test_a_run_gives_the_sum_of_its_traces(task, tmp_path):
    waves = open_waves(tmp_path)
    assert run_waves(waves, Inline(task), nobody, Ticking()) == expected()
    assert len(waves.done) >= 4
    assert len(waves.total.summary.findings) == 2
    assert waves.total.summary.divergences == len(DIVERGING)


def test_the_size_of_waves_changes_nothing(task, tmp_path):
    slow, fast = open_waves(tmp_path / "slow"), open_waves(tmp_path / "fast")
    clock = iter(i * 100.0 for i in range(100_000))
    run_waves(slow, Inline(task), nobody, lambda: next(clock))
    run_waves(fast, Inline(task), nobody, Ticking())
    assert len(slow.done) > len(fast.done)
    assert slow.total == fast.total


@pytest.mark.parametrize("stop_after", [0, 1, 5, 60, 150])
def test_an_interrupted_run_goes_on_where_it_stood(stop_after, task, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_waves(open_waves(tmp_path), Inline(task, stop_after), nobody, Ticking())
    again = open_waves(tmp_path)
    stood = again.next_id
    seen: list[int] = []
    total = run_waves(again, Inline(task), lambda done, total: seen.append(done), Ticking())
    assert total == expected()
    assert min(seen) >= stood
    assert stood <= stop_after * range_size(COUNT)


def test_a_finished_run_judges_nothing_again(task, tmp_path):
    run_waves(open_waves(tmp_path), Inline(task), nobody, Ticking())
    assert run_waves(open_waves(tmp_path), Inline(task, 0), nobody, Ticking()) == expected()


def test_a_run_of_another_length_is_damaged(task, tmp_path):
    run_waves(open_waves(tmp_path), Inline(task), nobody, Ticking())
    with pytest.raises(DamagedRun, match="900 traces of 899"):
        open_waves(tmp_path, 899)


@pytest.mark.parametrize("lost", [0, 2])
def test_a_journal_that_lost_a_wave_is_damaged(lost, task, tmp_path):
    """Else its traces would count as judged, and be in no sum."""
    whole = run_waves(open_waves(tmp_path), Inline(task), nobody, Ticking())
    journal = tmp_path / "out/journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([*lines[:lost], *lines[lost + 1 :]]))
    with pytest.raises(DamagedRun, match="no wave from trace"):
        open_waves(tmp_path)
    journal.write_text("".join(lines[:-1]))
    assert run_waves(open_waves(tmp_path), Inline(task), nobody, Ticking()) == whole


# Backends


@pytest.mark.parametrize("partitions", [1, 3])
def test_processes_find_the_same(partitions, task, tmp_path):
    backend = open_backend("processes", task, Options(tmp_path / "log", partitions=partitions))
    try:
        assert run_waves(open_waves(tmp_path), backend, nobody, Ticking()) == expected()
        assert backend.cores == partitions
    finally:
        backend.close()


def test_a_lost_process_is_an_error_and_loses_nothing_else(tmp_path):
    directory = fake_plan.write(tmp_path / "prepared", 100, die_at=97)
    task = WorkerTask("fake_plan", directory, (REPOSITORY, FAKES))
    backend = open_backend("processes", task, Options(tmp_path / "log", partitions=1))
    waves = open_waves(tmp_path, 100)
    try:
        with pytest.raises(BackendError, match="ended unexpectedly"):
            run_waves(waves, backend, nobody, Ticking())
    finally:
        backend.close()
    assert waves.next_id > 0


def test_processes_refuse_what_belongs_to_spark(task, tmp_path):
    with pytest.raises(BackendError, match="--backend spark"):
        open_backend("processes", task, Options(tmp_path / "log", master="local[1]"))


@pytest.mark.parametrize(
    ("java", "message"),
    [(None, "no java"), ("echo 'openjdk version \"11.0.2\" 2019' >&2", "is 11"), ("exit 1", "run")],
)
def test_spark_without_a_new_enough_java_says_which(java, message, tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    from conformance.backends.spark_session import require_java

    if java is not None:
        (tmp_path / "java").write_text(f"#!/bin/sh\n{java}\n")
        (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if java is None else f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(BackendError, match=f"Java 17.*{message}"):
        require_java()


# Spark


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("partitions", sized([1, 7, 20], [20]))
def test_spark_finds_the_same_in_any_number_of_partitions(
    partitions, spark_session, task, tmp_path
):
    from conformance.backends.spark import Spark

    options = Options(tmp_path / "log", partitions=partitions)
    backend = Spark(spark_session, task, options, tmp_path / "scratch")
    assert run_waves(open_waves(tmp_path), backend, nobody, Ticking()) == expected()
    assert backend.cores == 2


@pytest.mark.xdist_group("spark")
def test_the_driver_gets_few_rows_however_many_tasks_there_were(spark_session, task, tmp_path):
    from conformance.backends.spark import MERGED, Spark

    ranges = cut(0, COUNT)
    backend = Spark(
        spark_session, task, Options(tmp_path / "log", partitions=20), tmp_path / "scratch"
    )
    rows = [row for row in backend.judge(ranges) if row is not None]
    assert len(rows) <= MERGED < 20
    jobs = spark_session.session.sparkContext.statusTracker().getJobIdsForGroup(backend.group)
    assert jobs, "the jobs of a run have a name of their own"
    assert sum(len(numbers_of(row)) for row in rows) == len(ranges)


@pytest.mark.xdist_group("spark")
def test_workers_load_before_the_first_wave_is_timed(spark_session, task, tmp_path):
    """Else its speed is that of loading, and says nothing of the next."""
    from conformance.backends.spark import Spark

    Spark(spark_session, task, Options(tmp_path / "log"), tmp_path / "scratch").prepare()
    assert list(task.directory.glob("loaded-*"))


@pytest.mark.xdist_group("spark")
def test_a_defect_in_a_task_is_told_with_its_cause(spark_session, tmp_path):
    from conformance.backends.spark import Spark

    directory = fake_plan.write(tmp_path / "prepared", 10, raise_at=0)
    task = WorkerTask("fake_plan", directory, (REPOSITORY, FAKES))
    backend = Spark(spark_session, task, Options(tmp_path / "log"), tmp_path / "scratch")
    waves = open_waves(tmp_path, 10)
    with pytest.raises(BackendError, match="no such trace: 0"):
        run_waves(waves, backend, nobody, Ticking())
    assert waves.next_id == 0


def test_what_travels_to_other_machines_is_complete(task, tmp_path):
    """A worker that has nothing but the archive judges the same."""
    pytest.importorskip("pyspark")
    from conformance.backends.spark import archive_packages

    shutil.unpack_archive(archive_packages(tmp_path, (REPOSITORY,)), tmp_path / "there")
    shutil.copy(FAKES / "fake_plan.py", tmp_path / "there")
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
        "from conformance.judging.backend import TraceRange, WorkerTask;"
        "from conformance.backends.worker import judge;"
        "task = WorkerTask('fake_plan', Path(sys.argv[2]), (Path(sys.argv[1]),));"
        "print(judge(task, TraceRange(0, 9)).body.hex());"
        "import model, proofs, impl; print(model.__file__, proofs.__file__, impl.__file__)"
    )
    there = [sys.executable, "-I", "-c", program, str(tmp_path / "there"), str(task.directory)]
    said = subprocess.run(there, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    body, files = said.splitlines()
    assert body == judge(task, TraceRange(0, 9)).body.hex()
    assert files.count(str(tmp_path / "there")) == 3


@pytest.mark.xdist_group("spark")
def test_a_run_on_spark_reports_the_same_bytes_as_one_on_processes(
    spark_session, small, whole_run, tmp_path, capsys
):
    """In the session that is there, which it leaves alone."""
    out = tmp_path / "out"
    spark = ["--backend", "spark", "--partitions", "7"]
    assert main([*small, *spark, "--out", str(out)]) == 0
    assert spark_session.session.range(3).count() == 3
    other = ["--master", "spark://other:7077", "--out", str(tmp_path / "other")]
    assert main([*small, "--backend", "spark", *other]) == 2
    assert "a Spark session exists, on local[2]" in capsys.readouterr().err
    for name in ("report.json", "junit.xml"):
        assert (out / name).read_bytes() == (whole_run.out / name).read_bytes()
    run = json.loads((out / "run.json").read_text())
    assert (run["backend"], run["cores"]) == (["spark"], 2)
    assert len(run["waves"]) >= 4


def test_each_task_of_spark_gets_ranges_of_everywhere():
    pytest.importorskip("pyspark")
    from conformance.backends.spark import deal

    ranges = cut(0, 100)
    order = deal(ranges, 4)
    assert sorted(order) == ranges
    assert order[:25] == ranges[::4]
