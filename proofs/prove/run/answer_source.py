"""Puts questions to solvers in worker processes; a question that has an answer is not asked again.

Each answer is a unit of work in the journal of the run, named by seed, solver and text.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.pool import IMapIterator, Pool
from types import TracebackType
from typing import Self

from proofs.prove.engine.solvers import TIMEOUT_S, SolverAnswer, ask, version_of
from proofs.prove.run.answer_cache import AnswerCache
from proofs.run.interrupts import without_interrupts
from proofs.run.journal import Journal


@dataclass(frozen=True, slots=True)
class SolverQuestion:
    """A text to put to a solver, with a seed and a time limit."""

    solver: str
    text: str
    seed: int = 0
    timeout_s: float = TIMEOUT_S

    @property
    def unit(self) -> str:
        """Its name in a journal. With a shorter time limit the name differs, since such an answer
        does not settle the usual question."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:32]
        quick = "" if self.timeout_s >= TIMEOUT_S else f" {self.timeout_s} s"
        solver = f"{self.solver} {version_of(self.solver)}"
        return f"{self.seed} {solver} {digest}{quick}"


Answered = tuple[SolverQuestion, SolverAnswer]


def unseen(_done: int, _total: int) -> None:
    """Ignore progress."""


class OutOfTime(Exception):
    """The time of a source has ended; the source keeps the answers that it has."""


class AnswerSource:
    """Answers of solvers: from the journal of the run, from the cache, or from worker processes,
    which end with the context. `until` is a reading of the monotonic clock: after it, callers that
    ask or wait get OutOfTime."""

    def __init__(
        self,
        processes: int = 1,
        journal: Journal | None = None,
        cache: AnswerCache | None = None,
        *,
        until: float = math.inf,
    ) -> None:
        self.processes = processes
        self.journal = Journal() if journal is None else journal
        self.cache = AnswerCache(None) if cache is None else cache
        self.until = until
        self.asked = 0
        self._pool: Pool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None

    def answers(
        self, questions: Sequence[SolverQuestion], seen: Callable[[int, int], None] = unseen
    ) -> dict[SolverQuestion, SolverAnswer]:
        """Return an answer to each question. Calls `seen(done, total)` after each answer of a
        solver. Raises OutOfTime."""
        known = {q: self._known(q) for q in questions}
        found = {q: answer for q, answer in known.items() if answer is not None}
        for question, answer in self._ask([q for q in known if q not in found]):
            found[question] = answer
            self.asked += 1
            self._keep(question, answer)
            seen(len(found), len(known))
        return found

    def _known(self, question: SolverQuestion) -> SolverAnswer | None:
        row = self.journal.get(question.unit)
        if row is None:
            return self.cache.get(question.solver, question.text, question.timeout_s)
        return SolverAnswer(row["solver"], row["result"], row["seconds"], tuple(row["core"]))

    def _ask(self, questions: Sequence[SolverQuestion]) -> Iterator[Answered]:
        has_end = self.until < math.inf  # a solver in this process could not be interrupted
        is_here = self.processes == 1 or (len(questions) <= FEW and self._pool is None)
        if is_here and not has_end:
            return map(_answer, questions)
        if self._pool is None:
            with without_interrupts():
                self._pool = multiprocessing.get_context("spawn").Pool(self.processes)
        answers = self._pool.imap_unordered(_answer, questions, chunksize=1 if has_end else 4)
        return self._in_time(answers) if has_end else answers

    def _in_time(self, answers: IMapIterator[Answered]) -> Iterator[Answered]:
        while True:
            try:
                yield answers.next(max(self.until - time.monotonic(), 0))
            except StopIteration:
                return
            except multiprocessing.TimeoutError:
                raise OutOfTime from None

    def demand_time(self) -> None:
        """Raise OutOfTime if no time is left."""
        if time.monotonic() > self.until:
            raise OutOfTime

    def _keep(self, question: SolverQuestion, answer: SolverAnswer) -> None:
        row = {
            "solver": answer.solver,
            "result": answer.result,
            "seconds": round(answer.seconds, 4),
            "core": list(answer.core),
        }
        self.journal.add(question.unit, row)
        self.cache.add(question.text, answer, question.timeout_s)


def _answer(question: SolverQuestion) -> Answered:
    asked = (question.solver, question.text, question.seed, question.timeout_s)
    return question, ask(*asked)


FEW = 4
"""The number of questions up to which starting a process is not worthwhile."""
