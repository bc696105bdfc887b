"""Theorems under a change: each is decided by itself, and what is decided is kept."""

from __future__ import annotations

import time

import pytest

from proofs.lift.patch import Patch
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.answer_source import AnswerSource, OutOfTime, SolverQuestion
from proofs.prove.run.target import ProofTarget
from proofs.prove.run.theorems_under_change import TheoremOutcome, TheoremTrial

SMALL = ("sequences_wrap", "duplicate_is_answered", "ids_come_first")
"""Theorems about single rules."""
WIDER = Patch("leader.in_sequence", "following == last + 1", "following > last + 1")
BY_NAME = {t.name: t for t in THEOREMS}


EVEN_WIDER = Patch("leader.in_sequence", "following == last + 1", "following > last + 2")


def theorems_with(patch: Patch, *before: Patch) -> TheoremTrial:
    changed, base = ProofTarget({"idempotent": (patch,)}), ProofTarget({"idempotent": before})
    return TheoremTrial(changed, base, AnswerSource())


def test_each_theorem_is_decided_by_itself() -> None:
    found = theorems_with(WIDER).decide([BY_NAME[name] for name in SMALL])
    assert found == {
        "sequences_wrap": TheoremOutcome.LOST,
        "duplicate_is_answered": TheoremOutcome.HOLDS,
        "ids_come_first": TheoremOutcome.NOT_REACHED,
    }


def test_what_failed_before_the_change_is_not_laid_to_it() -> None:
    found = theorems_with(EVEN_WIDER, WIDER).decide([BY_NAME["sequences_wrap"]])
    assert found == {"sequences_wrap": TheoremOutcome.NEVER_HELD}


def test_what_was_decided_when_the_time_ended_is_kept() -> None:
    asked = theorems_with(WIDER)

    def end(done: int, _: int) -> None:
        if done == 1:
            asked.source.until = time.monotonic() - 1

    found = asked.decide([BY_NAME[name] for name in SMALL], end)
    assert list(found.values()) == [
        TheoremOutcome.LOST,
        TheoremOutcome.NOT_DECIDED,
        TheoremOutcome.NOT_DECIDED,
    ]


def test_a_solver_that_takes_too_long_is_left_alone() -> None:
    with AnswerSource(until=time.monotonic() - 1) as source, pytest.raises(OutOfTime):
        source.answers([SolverQuestion("z3", "(check-sat)")])
