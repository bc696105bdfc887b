"""Of hypotheses that nothing meets, or of which nobody knows, no proof is worth anything."""

from __future__ import annotations

from proofs.lift import dag
from proofs.lift.dag import ZERO
from proofs.prove.engine.smt import obligation
from proofs.prove.engine.unknowns import bound, function
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.answer_source import AnswerSource
from proofs.prove.run.plan import Duty, ProofPlan, plan
from proofs.prove.run.report import Proof
from proofs.prove.run.vacuity import Vacuity, ask_hypotheses, look_for_vacuity
from proofs.verbs.prove import verdict_of

BY_NAME = {t.name: t for t in THEOREMS}


def test_hypotheses_of_which_nobody_says_whether_they_can_be_met_decide_nothing() -> None:
    duties = [Duty(obligation("on_produce/grows", (((), dag.TRUE),), ((), dag.FALSE)), ("no_gap",))]
    unknown = Vacuity(undecided=frozenset(d.obligation.hypotheses for d in duties))
    done = Proof(ProofPlan(tuple(duties), ()), (), unknown)
    assert done.unsettled == ("on_produce/grows",)
    assert verdict_of(done, ()) == "undecided"
    assert verdict_of(Proof(ProofPlan(tuple(duties), ()), (), Vacuity()), ()) == "holds"


def test_a_state_with_functions_meets_hypotheses_that_are_true_for_all_numbers() -> None:
    """Each is met by simple functions alone: z3 does not find any function for the last."""
    n, m = bound("n"), bound("m")
    begin, count = function("begin"), function("count")
    grows = ((n,), (count(n) >= 1) & begin(n + 1).eq(begin(n) + count(n)))
    orders = ((n, m), (n < m).implies(begin(n) < begin(m)))
    starts = ((), begin(ZERO).eq(0))
    asked = obligation("restart/grows", (grows, orders, starts), ((), dag.FALSE))
    assert ask_hypotheses({asked.hypotheses: asked}, AnswerSource()) == {asked.hypotheses: "failed"}


def test_batches_without_end_have_no_sequences() -> None:
    """What `why_five` assumes can be met: it once asked for sequences of batches without end."""
    duties = plan((BY_NAME["why_five"],), lambda t: t.variant).duties
    vacuity = look_for_vacuity(duties, AnswerSource())
    assert not vacuity.undecided
    assert not vacuity.by
