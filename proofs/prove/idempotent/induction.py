"""The induction about one producer at one partition, and the guarantees that use it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from proofs.lift.source import Model
from proofs.prove.engine.induction import Clause, Induction, Named
from proofs.prove.engine.smt import Formula, ProofObligation
from proofs.prove.idempotent import clauses
from proofs.prove.idempotent.clause_groups import (
    GUARANTEED,
    HELPERS,
    HELPERS_WITH_RESETS,
    IN_TURN,
    NEIGHBOURS,
    ORDERED,
    UNFENCED,
    WHOLE,
)
from proofs.prove.idempotent.sequence_arithmetic import ARITHMETIC
from proofs.prove.idempotent.steps import IdempotentSteps
from proofs.prove.idempotent.symbolic_state import VARIANT, Seen, resets

OPTIONAL = (*WHOLE, *ORDERED, *IN_TURN, *NEIGHBOURS, *UNFENCED, GUARANTEED["remembers_five"])
"""Clauses of some theorems, under the rules of their variants."""

GROUPS = 5
"""The number of groups into which a goal of many parts is split: one a slot, for goals about
slots."""


class IdempotentInduction(Induction):
    """The induction about one producer at one partition.

    The helpers are inductive by themselves; a guarantee uses them.
    """

    def __init__(
        self,
        steps: IdempotentSteps,
        extra: tuple[Clause, ...] = (),
        rules: tuple[Formula, ...] = (),
    ) -> None:
        helpers = HELPERS_WITH_RESETS if resets(steps.k.variant) else HELPERS
        self.proved = {c.name for c in (*helpers, *extra)}
        self.regime = steps.regime
        super().__init__(
            steps.formulas,
            steps.before,
            steps.initial,
            lambda: steps.all,
            {c.name: c for c in (*helpers, *extra, *GUARANTEED.values())}.values(),
            groups=GROUPS,
            absent=frozenset(c.name for c in OPTIONAL) - self.proved,
        )
        self.builder = steps.builder
        self.helpers = (*self.lemmas(), *self.of_clauses(helpers), *self.of_clauses(extra, rules))

    def of_clauses(self, clauses: Sequence[Clause], rules: Sequence[Formula] = ()) -> Named:
        """Yield the obligations of clauses, and check that no clause uses a guarantee that is not
        proved with it."""
        proved = self.proved.union(c.name for c in clauses)
        for c in clauses:
            unproved = c.uses & GUARANTEED.keys() - proved
            assert c.follows or not unproved, f"{c.name} uses what nothing proves"
        yield from super().of_clauses(clauses, rules)

    def guaranteed(self, clause: Clause, rules: Sequence[Formula]) -> Named:
        """Yield the helpers' obligations, under any rules of the variant, and those of the
        guarantee that uses them, under its variant's rules."""
        yield from self.helpers
        yield from self.of_clauses((clause,), rules)
        if clause.in_words:
            asked = self.in_words(clause)
            yield asked.name, asked

    def meant(self, uses: Collection[str], formulas: Sequence[Formula]) -> list[Formula]:
        """Return the definitions of sequences, for an obligation that is about their arithmetic."""
        if ARITHMETIC not in uses:
            return []
        ground = [body for bound, body in formulas if not bound]
        return [((), node) for node in self.regime.definitions(ground)]

    def below(self, clause: Clause) -> Iterator[Clause]:
        """Yield a clause, and all clauses that it uses, directly or not."""
        found, frontier = {clause.name}, [clause]
        while frontier:
            yield (one := frontier.pop())
            new = [n for n in one.uses if n in self.known and n not in found]
            found.update(new)
            frontier += [self.known[n] for n in new]

    def in_words(self, clause: Clause) -> ProofObligation:
        """Return the obligation that the model's guarantee, as its text says it, follows from the
        clause. If sequences matter, their definitions are given for the places that the text
        reads."""
        uses = {clause.name, *clause.in_words}
        assumed, goal = self.builder.in_words(clause.name, self.state)
        if ARITHMETIC in uses:
            seen, numbered = Seen(self.state), clauses.is_numbered
            places = (*(place for place, _ in goal.records), *goal.kept)
            assumed += [self.lifter.formula(numbered, seen, place) for place in places]
        known = [*self.assumed(uses), *assumed]
        return self.posed(f"always/{clause.name}/in_words", uses, known, ((), goal.node))


def rules_of(model: Model, variant: str) -> tuple[Formula, ...]:
    """Return the variant's values of the rules that are unknown to the helpers."""
    parsed = model.variants.parse(variant)
    return tuple(((), unknown.eq(getattr(parsed, rule))) for rule, unknown in VARIANT.items())
