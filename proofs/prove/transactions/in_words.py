"""Proves the guarantees of transactions, as the model's text says them, from the clauses of a
theorem.

Theory of operation. A clause is about any partition, HERE, and any instance, ME. A guarantee is
about all of them. The first partition that its text reads is identified with HERE, and the first
instance with ME. The same clauses are assumed of any other partition, with its own ghosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from proofs.lift.dag import reachable
from proofs.prove.engine.composition import Worlds
from proofs.prove.engine.induction import Clause
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.transactions.steps import Transactions
from proofs.prove.transactions.symbolic_state import HERE, ME, TRANSACTIONS, at_partition


def in_words(said: Mapping[str, Sequence[str]]) -> Callable[[Worlds], Iterator[ProofObligation]]:
    """Return lemmas which prove that each guarantee follows from the named clauses of its
    composition."""

    def lemmas(worlds: Worlds) -> Iterator[ProofObligation]:
        assert isinstance(worlds, Transactions)
        for name, uses in said.items():
            used = [c for c in worlds.of.clauses if c.name in uses]
            assert len(used) == len(uses), f"{name} follows from clauses that nobody proves"
            yield as_said(worlds, name, used)

    return lemmas


def as_said(worlds: Transactions, name: str, clauses: Sequence[Clause]) -> ProofObligation:
    """Return the obligation that a guarantee follows from clauses."""
    model, unknowns = worlds.model, worlds.unknowns
    client = model.client.Client
    sizes = {("Bounds", "transactions"): TRANSACTIONS}
    lifter = replace(worlds.lifter, overrides={**worlds.lifter.overrides, **sizes})
    goal = lifter.goal(getattr(model.guarantees, name), worlds.any_world())
    places = [at for at, record in goal.records if record.cls is model.leader.Leader]
    stored = [record for _, record in goal.records if record.cls is model.leader.Stored]
    instances = [at for at, record in goal.records if record.cls is client]
    named: list[Formula] = [((), here.eq(HERE)) for here in places[:1]]
    named += [((), one.eq(ME)) for one in [*instances, *(s.instance for s in stored)][:1]]
    states = [
        worlds.before,
        *(at_partition(worlds.before, model, unknowns, at) for at in places[1:]),
    ]
    known = [c.formula(worlds.lifter, state) for state in states for c in clauses]
    for _, body in known[len(clauses) :]:
        assert HERE not in reachable([body]), f"{name} needs what is said of HERE alone"
    assumed = [*known, *named, *goal.choices]
    return obligation(f"transactions/always/{name}/in_words", assumed, ((), goal.node))
