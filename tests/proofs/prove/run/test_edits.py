"""An edit is proved again: what it can reach is asked anew, and a theorem that fails only once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofs.lift import dag
from proofs.lift.evaluate import Evaluator
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.prove.engine import smt, solvers
from proofs.prove.engine.composition import CompositionInduction
from proofs.prove.engine.smt import obligation
from proofs.prove.engine.solvers import SOLVERS, TIMEOUT_S, SolverAnswer, ask
from proofs.prove.engine.unknowns import number
from proofs.prove.run.answer_cache import AnswerCache
from proofs.prove.run.answer_source import AnswerSource, SolverQuestion, unseen
from proofs.prove.run.plan import Duty, ProofPlan
from proofs.prove.run.verdicts import QUICK_S, solve
from proofs.prove.transactions import ghosts
from proofs.prove.transactions.compositions import DECISIONS
from proofs.run.journal import Journal

FEW_STEPS = replace(DECISIONS, steps=("end", "time_out", "marker_is_sent"))


def questions(*patches: Patch) -> list[str]:
    """What is asked of a few steps of the coordinator, with patches of the model."""
    induction = CompositionInduction(FEW_STEPS, load_model("transactions", patches), "v2")
    asked = [found for _, found in induction.obligations() if found is not None]
    return [found.question for found in asked if not found.is_trivial]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> AnswerCache:
    """A cache that says of all that is asked of the model as it stands that it is proved."""
    cache = AnswerCache(tmp_path_factory.mktemp("answers"))
    for text in questions():
        cache.add(text, SolverAnswer("z3", "proved", 0.1))
    return cache


def unanswered(cache: AnswerCache, texts: list[str]) -> int:
    """How many questions the cache does not answer."""
    return sum(cache.get("z3", text) is None for text in texts)


def test_what_has_not_changed_is_answered_by_the_cache(answered: AnswerCache) -> None:
    unused = Patch("client.begin_transaction", "client.state == ClientState.READY", "True")
    for texts in (questions(), questions(unused)):
        assert len(texts) > 20
        assert unanswered(answered, texts) == 0


COORDINATOR, MESSAGES = (f"model/transactions/{name}.py" for name in ("coordinator", "messages"))
EDITS = {
    "a rule": Patch("coordinator.time_out", "TransactionState.ONGOING", "TransactionState.EMPTY"),
    "a callee": Patch("coordinator.next_epoch", "epoch + 1", "epoch + 2"),
    "a constant": Patch(MESSAGES, "NO_PRODUCER_EPOCH = -1", "NO_PRODUCER_EPOCH = -2"),
    "an enumeration": Patch(
        COORDINATOR, "    PREPARE_ABORT = 3", "    PREPARE_ABORT = 3\n    PAUSED = 9"
    ),
    "a table": Patch("end_txn.ends_v2", "(I, P, F, F, I, I, U)", "(P, P, F, F, I, I, U)"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_the_model_is_asked_anew(answered: AnswerCache, edit: str) -> None:
    assert unanswered(answered, questions(EDITS[edit])) > 0


def at_most(evaluator: Evaluator, *_: Any) -> Any:
    """A comparison that a lifter of another version reads as true."""
    return dag.TRUE


def forget_decision(state: Any, *_: Any) -> Any:
    """A ghost that remembers nothing."""
    return state


PLANTED: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "a ghost": (ghosts, "with_decision", forget_decision),
    "the lifter": (Evaluator, "_Compare", at_most),
    "the writer of texts": (smt, "literal", lambda node: f"{node.value}".lower()),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_an_edit_of_the_proofs_is_asked_anew(
    answered: AnswerCache, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smt, "_MADE", {})  # another run has written nothing yet
    monkeypatch.setattr(*PLANTED[planted])
    assert unanswered(answered, questions()) > 0


def test_another_version_of_a_solver_is_asked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = AnswerCache(tmp_path)
    cache.add("(check-sat)", SolverAnswer("z3", "proved", 0.1))
    assert cache.get("z3", "(check-sat)") is not None
    monkeypatch.setattr(
        "proofs.prove.run.answer_cache.version_of", lambda solver: f"{solver} of tomorrow"
    )
    assert cache.get("z3", "(check-sat)") is None


def test_a_theorem_that_has_failed_is_confirmed_no_further() -> None:
    """What another theorem needs too is: its verdict rests on both solvers."""
    length = number("length")
    below = ((), dag.lt(length, dag.const(0)))
    falls, holds, shared = (
        Duty(obligation(f"restart/{name}", assumed, below), needed_by)
        for name, assumed, needed_by in (
            ("falls", [], ("no_gap",)),
            ("holds", [((), dag.lt(length, dag.const(-5)))], ("no_gap",)),
            ("shared", [((), dag.lt(length, dag.const(-9)))], ("no_gap", "fenced")),
        )
    )
    found = solve(ProofPlan((falls, holds, shared), ()), AnswerSource())
    said = [(v.duty.obligation.name, v.answer.solver, v.answer.result) for v in found]
    assert said == [
        ("restart/falls", "z3", "failed"),
        ("restart/holds", "z3", "proved"),
        ("restart/shared", "cvc5", "proved"),
        ("restart/shared", "z3", "proved"),
    ]


class Slow(AnswerSource):
    """z3 needs the usual time for everything; what has `never` in it no solver decides."""

    def __init__(self, never: str) -> None:
        super().__init__()
        self.never = never
        self.patience: list[float] = []

    def answers(
        self, questions: Sequence[SolverQuestion], seen: Callable[[int, int], None] = unseen
    ) -> dict[SolverQuestion, SolverAnswer]:
        """Without any solver."""
        self.patience += {q.timeout_s for q in questions}
        return {q: self.answer(q) for q in questions}

    def answer(self, question: SolverQuestion) -> SolverAnswer:
        """What each solver says; cvc5 at once."""
        if question.solver == "cvc5":
            unknown = self.never in question.text
            return SolverAnswer("cvc5", "unknown" if unknown else "proved", 0.1)
        is_cut = question.timeout_s < TIMEOUT_S or self.never in question.text
        return SolverAnswer("z3", "unknown" if is_cut else "proved", question.timeout_s)


def test_a_solver_gets_its_full_time_for_theorems_that_have_not_failed() -> None:
    goals = [((), dag.lt(number(name), dag.const(0))) for name in ("broken", "whole")]
    duties = tuple(
        Duty(obligation(f"restart/{name}", [], goal), (theorem,))
        for name, theorem, goal in zip(("a", "b"), ("no_gap", "fenced"), goals, strict=True)
    )
    source = Slow("broken")
    said = {
        (v.duty.obligation.name, v.answer.solver): (v.answer.result, v.answer.seconds)
        for v in solve(ProofPlan(duties, ()), source)
    }
    assert said == {
        ("restart/a", "z3"): ("unknown", QUICK_S),
        ("restart/a", "cvc5"): ("unknown", 0.1),
        ("restart/b", "z3"): ("proved", TIMEOUT_S),
        ("restart/b", "cvc5"): ("proved", 0.1),
    }
    assert source.patience == [QUICK_S, QUICK_S, TIMEOUT_S]


def test_an_answer_in_less_time_is_none_to_the_usual_question() -> None:
    quick, usual = SolverQuestion("z3", "a", 0, QUICK_S), SolverQuestion("z3", "a")
    source = AnswerSource(journal=Journal())
    source.journal.add(quick.unit, {"solver": "z3", "result": "unknown", "seconds": 1, "core": []})
    assert quick.unit != usual.unit
    assert source.journal.get(usual.unit) is None


def test_processes_answer_as_this_one_does_and_end_with_the_source() -> None:
    length = number("length")
    asked = ProofPlan(
        tuple(
            Duty(
                obligation("restart/grows", [((), dag.lt(dag.const(n), length))], goal), ("no_gap",)
            )
            for n, goal in ((n, ((), dag.lt(dag.const(-1), length))) for n in range(6))
        ),
        (),
    )
    with AnswerSource(processes=2) as source:
        found = solve(asked, source)
        assert source.asked == len(SOLVERS) * 6
    assert [v.answer.result for v in found] == [
        v.answer.result for v in solve(asked, AnswerSource())
    ]


def test_the_plain_solver_of_z3_knows_quantifiers() -> None:
    """No logic is named to it; what is proved of any number is."""
    text = (
        "(declare-fun f (Int) Int)(assert (forall ((n Int)) (< (f n) (f (+ n 1)))))"
        "(assert (< (f 1) (f 0)))(check-sat)"
    )
    assert ask("z3", text).result == "proved"
    assert solvers.version_of("z3")
