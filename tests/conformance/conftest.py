"""One whole run of a small scope, for all tests that look at what a run leaves; a Spark session;
whether there is what real brokers and clients need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.judging.backend import BackendError, Options
from proofs.java import MissingTool, find_java, find_maven

SMALL = (
    *("run", "--scope", "idempotent-restart", "--traces-from", "cover,pct,hunts"),
    *("--backend", "processes", "--partitions", "2"),
)


@dataclass(frozen=True)
class WholeRun:
    out: Path
    code: int

    @property
    def report(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.out / "report.json").read_text())
        return value

    @property
    def run(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.out / "run.json").read_text())
        return value


@pytest.fixture
def java() -> None:
    """Skips where what a real broker or client needs is missing."""
    try:
        find_java()
        find_maven()
    except MissingTool as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def small() -> tuple[str, ...]:
    """The arguments of the whole run, but for --out."""
    return SMALL


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> WholeRun:
    """`impl` over a small scope."""
    out = tmp_path_factory.mktemp("whole") / "out"
    return WholeRun(out, main([*SMALL, "--out", str(out), "--json", str(out / "both.json")]))


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests of the group `spark`: a start takes seconds."""
    pytest.importorskip("pyspark")
    from conformance.backends.spark_session import open_session, require_java

    try:
        require_java()
    except BackendError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("spark")
    opened = open_session(Options(folder / "spark.log", master="local[2]"), folder)
    yield opened
    opened.session.stop()
