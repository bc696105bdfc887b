"""What backends give back for jobs: each result counts once; a lost one is asked for again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from conformance.audit import task as audit_task
from conformance.backends.jobs import task as jobs_task
from conformance.backends.worker import run_job
from conformance.judging.backend import Options, WorkerTask
from conformance.verbs import jobs as jobs_verb
from kafka_eos.command_line import main

Plant = Callable[[list[bytes]], list[bytes]]
BUGS: dict[str, Plant] = {
    "never came": lambda bodies: bodies[:-1],
    "came twice": lambda bodies: [*bodies, bodies[0]],
}


class Inline:
    """Does jobs in this process; a planted bug changes what comes back."""

    def __init__(self, task: WorkerTask, bug: Plant) -> None:
        self._task = task
        self._bug = bug

    def run_jobs(self, numbers: Sequence[int]) -> Iterator[bytes | None]:
        yield None
        yield from self._bug([run_job(self._task, number) for number in numbers])

    def close(self) -> None:
        pass


def open_with(bug: Plant) -> Callable[[str, WorkerTask, Options], Inline]:
    return lambda name, task, options: Inline(task, bug)


def job_that_holds(jobs: object, number: int) -> bytes:
    return json.dumps(jobs_task.JobResult(number, 0, 0.1, [], None)._asdict()).encode()


@pytest.mark.parametrize("verb", ["jobs", "audit"])
@pytest.mark.parametrize("says", BUGS)
def test_each_result_counts_once(
    verb: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    user, words, verdict = jobs_verb, ["jobs", "list backends", "list sources"], 0
    monkeypatch.setattr(jobs_task, "run", job_that_holds)
    if verb == "audit":
        logs = str(tmp_path / "logs")
        assert main(["audit", "--generate", logs, "--of-each", "1", "--bytes", "4096"]) == 0
        user, words, verdict = audit_task, ["audit", "--log-dir", logs], 1
    words += ["--partitions", "2", "--out", str(tmp_path / "out")]
    counts: list[int] = []

    def count(bodies: list[bytes]) -> list[bytes]:
        counts.append(len(bodies))
        return bodies

    monkeypatch.setattr(user, "open_job_backend", open_with(BUGS[says]))
    assert main(words) == 3
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out" / "report.json").exists()
    monkeypatch.setattr(user, "open_job_backend", open_with(count))
    assert main(words) == verdict
    assert counts == ([1] if says == "never came" else [])
    assert (tmp_path / "out" / "report.json").exists()
