"""Clauses of transactions have one text, lifted and evaluated; what they need is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice, product
from typing import Any

import pytest

from proofs.lift.source import load_model
from proofs.prove.engine.composition import Composition, CompositionInduction
from proofs.prove.engine.induction import Clause
from proofs.prove.engine.scope_check import ScopeOfProof
from proofs.prove.engine.valuation import evaluate
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.transactions import scope_states
from proofs.prove.transactions.epochs import given_is_past
from proofs.prove.transactions.scope_states import TransactionsScopeState, left_in
from proofs.trace.replay import configuration_of

OF = {t.name: (t.composition, t.variant) for t in THEOREMS if t.home == "transactions"}
SCOPE = "transactions-tiny"
EVERY = 31
"""Of the states of the scope, one in so many is looked at."""


@cache
def states(variant: str) -> tuple[TransactionsScopeState, ...]:
    """States of a small scope."""
    model = load_model("transactions")
    k = configuration_of(model, SCOPE, variant)
    scope = ScopeOfProof(model, k, SCOPE)
    places = list(product(range(k.bounds.partitions), range(k.bounds.instances)))
    every = (
        TransactionsScopeState(k, world, *left, here, me)
        for world, left in zip(scope.graph.worlds, left_in(scope), strict=True)
        for here, me in places
    )
    return tuple(islice(every, 0, None, EVERY))


def lifted_is_so(clause: Clause, induction: CompositionInduction, s: Any) -> bool:
    """Whether a clause holds in a state, by its term: for all values of its bound numbers."""
    bound, body = clause.formula(induction.lifter, induction.state)
    values = (sizes(s, v.name.rpartition(".")[2].partition("'")[0].strip("?")) for v in bound)
    rows = product(*values)
    return all(
        evaluate(body, s, dict(zip((v.name for v in bound), row, strict=True))) for row in rows
    )


def sizes(s: Any, name: str) -> range:
    """The values of a bound number, by the name that it has in the text."""
    bounds = s.k.bounds
    return {
        "p": s.producer_ids,
        "e": range(bounds.max_epoch + 1),
        "outcome": range(2),
        "term": range(bounds.faults.moves + 1),
        "at": range(max(bounds.partitions, len(s.log))),
        "n": s.turns,
        "t": s.transactions,
        "u": s.transactions,
        "number": s.numbers,
        "sequence": s.sequences,
    }.get(name, range(len(s.log)))


@pytest.mark.parametrize("theorem", OF)
def test_what_is_lifted_is_what_is_evaluated(theorem: str) -> None:
    of, variant = OF[theorem]
    assert of is not None
    induction = CompositionInduction(of, load_model("transactions"), variant)
    sole = theorem == "no_false_fencing"
    for s in states(variant):
        if sole and s.me != 0:
            continue
        for clause in (*of.clauses, *of.axioms):
            assert clause.is_so(s.k, s) == lifted_is_so(clause, induction, s), clause.name


def test_a_clause_that_is_wrong_is_wrong_in_both_forms() -> None:
    of, variant = OF["transaction_epochs"]
    assert of is not None
    induction = CompositionInduction(of, load_model("transactions"), variant)
    clause = next(c for c in of.clauses if c.name == given_is_past.__name__)
    s = next(s for s in states(variant) if s.given)
    s.given = frozenset({*s.given, (0, s.known.producer_epoch + 1)})
    assert not clause.is_so(s.k, s)
    assert not lifted_is_so(clause, induction, s)


def known(of: Composition) -> set[str]:
    """The names of what a composition's clauses may need."""
    return {c.name for c in (*of.clauses, *of.axioms)}


def test_each_need_is_a_clause_or_an_axiom_of_some_composition() -> None:
    compositions = [of for of, _ in OF.values() if of is not None]
    named = set().union(*map(known, compositions))
    needed = {need for of in compositions for c in of.clauses for need in c.uses}
    assert needed - named == set()


def test_without_what_a_clause_needs_less_is_assumed() -> None:
    of, variant = OF["fenced"]
    assert of is not None
    lean = replace(of, clauses=tuple(c for c in of.clauses if c.name != "reign_is_past"))
    induction = CompositionInduction(lean, load_model("transactions"), variant)
    assert "reign_is_past" not in induction.before


SENDING = {
    scope_states.sends_marker: "marker_is_written marker_is_delayed",
    scope_states.initializes: "producer_id_is_asked late_init_arrives",
    scope_states.changes_transaction: (
        "partitions_are_added offsets_are_added late_addition_arrives"
        " transaction_is_ended late_end_arrives"
    ),
    scope_states.sends_end: "transaction_is_ended end_is_delayed",
    scope_states.sends_records: "batch_is_produced batch_is_rejected batch_is_delayed",
    scope_states.sends_batch: (
        "batch_is_produced batch_is_rejected batch_is_delayed"
        " offsets_are_committed offsets_are_delayed"
    ),
}
"""The events that were listed by hand, by what is now read from their text."""


@pytest.mark.parametrize("happens", SENDING, ids=lambda happens: happens.__name__)
def test_what_an_event_sends_is_read_from_its_text(happens: Callable[[str], bool]) -> None:
    assert {event for event in load_model("transactions").rules if happens(event)} == {
        *SENDING[happens].split()
    }
