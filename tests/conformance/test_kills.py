"""A handful of the moments of `python -m conformance.kills`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from conformance.kills import Answers, check, main, run, serve_directory
from impl.partition.stored_batch import StoredBatch
from impl.storage.partition_files import PartitionFiles


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
def test_nothing_is_lost_in_eight_kills(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--moments", "8", "--seed", "3"]) == 0
    assert "8 kills" in capsys.readouterr().out


def answer_before_writing(arguments: Sequence[str]) -> None:
    """Serve with a planted defect: a batch is written when the next one comes."""
    write, held = PartitionFiles.append, dict[int, tuple[StoredBatch, int]]()

    def append_late(self: PartitionFiles, stored: StoredBatch, flush_messages: int) -> None:
        late = held.pop(id(self), None)
        if not self.folder.startswith("t-"):
            write(self, stored, flush_messages)
            return
        if late is not None:
            write(self, *late)
        held[id(self)] = (stored, flush_messages)

    PartitionFiles.append = append_late  # type: ignore[method-assign]
    serve_directory(arguments)


@pytest.mark.slow
def test_an_answer_before_the_write_is_noticed(tmp_path: Path) -> None:
    logging.disable(logging.WARNING)
    answers = asyncio.run(run(tmp_path, 6, seed=3, main=answer_before_writing))
    assert check(tmp_path, answers)


@pytest.mark.slow
def test_each_wrong_answer_is_noticed(tmp_path: Path) -> None:
    logging.disable(logging.WARNING)
    answers = asyncio.run(run(tmp_path, 2, seed=5))
    assert not check(tmp_path, answers)
    told = next(iter(answers.plain))
    for changed in (
        Answers(answers.acked | {"own-0": (0, 10**6)}, offsets=answers.offsets),
        Answers(plain={"own-0"}, offsets=answers.offsets),
        Answers(aborted={told}, offsets=answers.offsets),
        Answers(offsets={10**6}),
        Answers(offsets=answers.offsets, producer_ids=[1, 1]),
    ):
        assert len(check(tmp_path, changed)) == 1
