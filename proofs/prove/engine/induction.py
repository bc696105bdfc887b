"""Induction: a clause holds initially, and each step from a state in which clauses hold keeps it.

A clause names what its induction uses: other clauses, facts, lemmas about a step (each is proved
before it is used) and assumptions. The solvers get nothing else when the clause is proved.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Protocol, TypeVar

from proofs.lift.dag import Node, conjunction
from proofs.lift.values import Rec
from proofs.prove.engine.formulas import Lifter, configured, conjuncts
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.engine.step_evaluator import OwnChange, RuleApplication
from proofs.prove.engine.unknowns import number

LENGTH = number("length")
"""The length of a prefix of a log; any number."""
RULED = "rules_of_variant"
"""The name by which a clause uses what the variant says of rules that are unknown to other
clauses."""

Named = Iterator[tuple[str, ProofObligation | None]]
"""Pairs of (step/clause, obligation); the obligation is None if the step leaves the clause
unchanged."""


def of_state(s: Any) -> tuple[Any, ...]:
    """Return the subject of a clause that is about a state alone."""
    return (s,)


@dataclass(frozen=True, slots=True)
class Clause:
    """A predicate that holds in every state: `holds`, applied to what `subject` makes of the state.

    The induction of a clause uses the clause itself and the clauses named by `uses`. A clause
    `follows` if those clauses imply it. A clause about `prefixes` holds of every prefix of the log,
    and its subject takes a length; it says nothing of lengths that are not `within` the log.
    Together with the clauses of `in_words` it implies the model's guarantee of the same name.
    """

    name: str
    says: str
    holds: Callable[..., bool]
    uses: frozenset[str] = frozenset()
    follows: bool = False
    subject: Callable[..., tuple[Any, ...]] = of_state
    prefixes: bool = False
    within: Callable[..., bool] | None = None
    in_words: tuple[str, ...] = ()

    def also(self, *uses: str) -> Clause:
        """Return the same clause with more clauses to use."""
        return replace(self, uses=self.uses.union(uses))

    def formula(self, lifter: Lifter, state: Any) -> Formula:
        """Return the formula of the clause in a state of unknowns."""
        if not self.prefixes:
            return lifter.formula(self.holds, *self.subject(lifter.view(state)))
        return self.of_prefix(lifter, state, LENGTH)

    def of_prefix(self, lifter: Lifter, state: Any, length: Node) -> Formula:
        """Return the formula of the clause for the prefix of one length."""
        seen = lifter.view(state)
        bound, body = lifter.formula(self.holds, *self.subject(seen, length))
        if self.within is None:
            return bound, body
        is_one = lifter.node(self.within, seen, length)
        return bound, conjunction(is_one.implies(part) for part in conjuncts(body))

    def is_so(self, k: Any, s: Any) -> bool:
        """Whether the clause holds in a concrete state, evaluated by its own text."""
        lengths: Iterable[tuple[int, ...]] = [()]
        if self.prefixes:
            lengths = [(length,) for length in range(len(s.log) + 1)]
        own = configured(self.holds, k)
        return all(self.holds(*own, *self.subject(s, *length)) for length in lengths)


Predicate = TypeVar("Predicate", bound=Callable[..., bool])


class Declarer(Protocol):
    """A decorator that returns a predicate unchanged, and records what it declares."""

    def __call__(self, function: Predicate, /) -> Predicate:
        """Return the predicate."""


def described(function: Callable[..., Any]) -> str:
    """Return a docstring as one line."""
    return " ".join((function.__doc__ or "").split())


def declared(kind: str, *clauses: Callable[[str, str, Any], Clause]) -> Declarer:
    """Return a decorator that makes clauses of a predicate."""

    def declare(function: Predicate) -> Predicate:
        made = (clause(function.__name__, described(function), function) for clause in clauses)
        vars(function)[kind] = tuple(made)
        return function

    return declare


def invariant(*, needs: Iterable[str] = (), follows: bool = False) -> Declarer:
    """Declare a clause that holds in every state: by induction, or because it follows from its
    needs."""
    uses = frozenset(needs)
    return declared("invariants", lambda name, says, f: Clause(name, says, f, uses, follows))


def guarantee(
    *, needs: Iterable[str] = (), follows: bool = False, in_words: Iterable[str] = ()
) -> Declarer:
    """Declare a clause that a theorem is about. With the clauses of `in_words` it implies the
    model's text."""
    uses, words = frozenset(needs), tuple(in_words)
    return declared(
        "guarantees",
        lambda name, says, f: Clause(name, says, f, uses, follows, in_words=words),
    )


def of_nothing(_s: Any) -> tuple[Any, ...]:
    """Return the subject of a clause that is about the configuration alone."""
    return ()


def axiom(function: Callable[..., bool]) -> Clause:
    """Declare what no rule changes: a property of ghosts, or of the configuration alone."""
    subject = of_nothing if [*inspect.signature(function).parameters] == ["k"] else of_state
    return Clause(function.__name__, described(function), function, subject=subject)


def lemma(*, needs: Iterable[str] = ()) -> Declarer:
    """Declare a lemma: a property that holds where a step is taken, with the clauses that it
    needs."""
    uses = tuple(needs)

    def declare(function: Predicate) -> Predicate:
        vars(function)["needs"] = uses
        return function

    return declare


def collected(module: ModuleType, kind: str = "invariants") -> tuple[Clause, ...]:
    """Return the clauses that a module declares, in its order."""
    own = (f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__)
    return tuple(clause for f in own for clause in vars(f).get(kind, ()) if callable(f))


def clause_of(function: Callable[..., bool]) -> Clause:
    """Return the clause that a function declares."""
    (found,) = (c for kind in ("invariants", "guarantees") for c in vars(function).get(kind, ()))
    assert isinstance(found, Clause)
    return found


def clauses_of(*functions: Callable[..., bool]) -> tuple[Clause, ...]:
    """Return the clauses that functions declare."""
    return tuple(map(clause_of, functions))


@dataclass(frozen=True, slots=True)
class Lemma:
    """A property that holds where a step is taken, and the clauses that prove it."""

    name: str
    formula: Formula
    uses: tuple[str, ...]

    @staticmethod
    def of(lifter: Lifter, function: Callable[..., bool], *arguments: Any) -> Lemma:
        """Return the lemma that a function declares, of these arguments."""
        needs: tuple[str, ...] = vars(function)["needs"]
        return Lemma(function.__name__, lifter.formula(function, *arguments), needs)


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A rule applied to any state. `assumed` is what the rule requires of the state before.

    `prefixes` are the lengths of the log's prefixes that the step is about. `lemmas` hold where the
    step is taken: each is proved first, then assumed by the clauses that use it. `given` are
    assumptions by name, for the clauses that use them. Each clause also uses the clauses that the
    step `recalls`. `elsewhere` is another state in which the clauses hold before the step. `taken`
    are the rules of actors that the step evaluates; `edits` are the changes that it makes outside
    those rules. `grows` says that the log may have one batch more after the step.
    """

    rule: str
    before: Any
    after: Any
    assumed: tuple[Formula, ...]
    choices: Mapping[str, Node] = field(default_factory=dict)
    prefixes: tuple[Node, ...] = ()
    recalls: tuple[str, ...] = ()
    lemmas: tuple[Lemma, ...] = ()
    given: tuple[tuple[str, Formula], ...] = ()
    elsewhere: Any = None
    taken: tuple[RuleApplication, ...] = ()
    edits: frozenset[OwnChange] = frozenset()
    grows: bool = False


def split(goal: Formula, groups: int) -> Iterator[tuple[str, Formula]]:
    """Split a goal of many parts into numbered goals, `groups` at most; 0 leaves it whole."""
    bound, body = goal
    parts = conjuncts(body) if groups else ()
    if not groups or len(parts) < groups:
        yield "", goal
        return
    size = -(-len(parts) // groups)
    for count, start in enumerate(range(0, len(parts), size), 1):
        yield f"/{count}", (bound, conjunction(parts[start : start + size]))


class ClauseFormulas:
    """The formulas of clauses in states, each evaluated once.

    Evaluation notes which parts of a state it reads. In another state with these very parts the
    formula is the same, because evaluation reads nothing else. Clauses that differ only in what
    they use have the same formula, so inductions over the same states share this cache.
    """

    def __init__(self, lifter: Lifter) -> None:
        self.lifter = lifter
        self._made: dict[tuple[Any, ...], list[tuple[dict[str, Any], Formula]]] = {}

    def of(self, clause: Clause, state: Any, length: Node | None = None) -> Formula:
        """Return the formula of a clause in a state, or for the prefix of its log that has this
        length."""
        key = (clause.holds, clause.subject, clause.prefixes, length)
        known = self._made.setdefault(key, [])
        for read, formula in known:
            if all(getattr(state, name) is part for name, part in read.items()):
                return formula
        noting, read = noting_reads(state)
        made = (
            clause.formula(self.lifter, noting)
            if length is None
            else clause.of_prefix(self.lifter, noting, length)
        )
        known.append((read, made))
        return made


def noting_reads(state: Any) -> tuple[Any, dict[str, Any]]:
    """Return a state that notes which of its parts are read, and the dictionary of these parts. (A
    record counts as one part.)"""
    if isinstance(state, Rec):
        return state, {"fields": state.fields}
    read: dict[str, Any] = {}
    own = frozenset(vars(state))

    class Noting(type(state)):  # type: ignore[misc]
        """Notes each part of the state that is read."""

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name in own:
                read[name] = value
            return value

    noting = object.__new__(Noting)
    object.__getattribute__(noting, "__dict__").update(vars(state))
    return noting, read


class Induction:
    """The obligations which show that clauses hold in every state.

    `formulas` reads clauses; `before` is any state, `initial` the first state. `facts` are true of
    functions that no rule changes, by name. Names of obligations begin with `prefix`; a goal of
    many parts is split into `groups`. Lemmas that use a clause which is `absent` are left out.
    """

    def __init__(
        self,
        formulas: ClauseFormulas,
        before: Any,
        initial: Any,
        steps: Callable[[], Iterable[ProofStep]],
        clauses: Iterable[Clause],
        *,
        facts: Mapping[str, Formula] | None = None,
        prefix: str = "",
        groups: int = 0,
        absent: frozenset[str] = frozenset(),
    ) -> None:
        self.formulas, self.lifter = formulas, formulas.lifter
        self.state, self.first, self._steps = before, initial, steps
        self.known = {c.name: c for c in clauses}
        self.before = {c.name: formulas.of(c, before) for c in self.known.values()}
        self.facts = facts or {}
        self.names: dict[Formula, str] = {}
        self.prefix, self.groups = prefix, groups
        self.absent = absent

    @cached_property
    def steps(self) -> tuple[ProofStep, ...]:
        """All steps, evaluated when they are first asked for. Checks that this induction proves
        what each step recalls."""
        found = tuple(self._steps())
        for step in found:
            known = self.known.keys() | {lemma.name for lemma in self.lemmas_of(step)}
            assert known.issuperset(step.recalls), f"{step.rule} recalls what nothing proves"
        return found

    def assumed(self, uses: Collection[str], step: ProofStep | None = None) -> list[Formula]:
        """Return clauses, facts, lemmas and assumptions by name. A clause about prefixes is assumed
        of the prefix in question and of those that the step is about."""
        lengths = (LENGTH, *(step.prefixes if step else ()))
        found: list[tuple[str, Formula]] = []
        for c in self.known.values():
            if c.name in uses and c.prefixes:
                found += [(c.name, self.formulas.of(c, self.state, length)) for length in lengths]
            elif c.name in uses:
                found.append((c.name, self.before[c.name]))
        found += [(name, fact) for name, fact in self.facts.items() if name in uses]
        if step:
            found += [(x.name, x.formula) for x in self.lemmas_of(step) if x.name in uses]
            found += [(name, formula) for name, formula in step.given if name in uses]
            found += [("", formula) for formula in step.assumed]
            found += self.assumed_elsewhere(uses, step.elsewhere) if step.elsewhere else []
        self.names.update((formula, name) for name, formula in found)
        return [formula for _, formula in found]

    def assumed_elsewhere(self, uses: Collection[str], state: Any) -> list[tuple[str, Formula]]:
        """Return the formulas of the used clauses in another state, without those about
        prefixes."""
        used = (c for c in self.known.values() if c.name in uses and not c.prefixes)
        return [(f"{c.name}, elsewhere", self.formulas.of(c, state)) for c in used]

    def posed(
        self, name: str, uses: Collection[str], assumed: Sequence[Formula], goal: Formula
    ) -> ProofObligation:
        """Return an obligation with the definitions of the functions that occur in it."""
        meant = self.meant(uses, (*assumed, goal))
        names = [*(self.names.get(formula, "") for formula in assumed), *("" for _ in meant)]
        return obligation(f"{self.prefix}{name}", [*assumed, *meant], goal, names)

    def meant(self, uses: Collection[str], formulas: Sequence[Formula]) -> list[Formula]:
        """Return the definitions of functions in the formulas, for an obligation that uses their
        meaning."""
        return []

    def posed_in_parts(
        self, name: str, uses: Collection[str], assumed: Sequence[Formula], goal: Formula
    ) -> Named:
        """Yield the obligations of a goal's parts, each with its name."""
        for part, formula in split(goal, self.groups):
            asked = self.posed(f"{name}{part}", uses, assumed, formula)
            yield asked.name, asked

    def of_clauses(self, clauses: Sequence[Clause], rules: Sequence[Formula] = ()) -> Named:
        """Yield the obligations of all clauses: those that follow, then those that each step keeps.
        `rules` are assumed in steps by the clauses that use RULED."""
        for c in clauses:
            if c.follows:
                name, uses = f"always/{c.name}", c.uses - {c.name}
                yield from self.posed_in_parts(name, uses, self.assumed(uses), self.before[c.name])
        inductive = [c for c in clauses if not c.follows]
        for c in inductive:
            facts = [fact for name, fact in self.facts.items() if name in c.uses]
            asked = self.posed(f"initial/{c.name}", c.uses, facts, self.formulas.of(c, self.first))
            yield asked.name, asked
        for step in self.steps:
            for c in inductive:
                yield from self.kept(c, step, rules)

    def kept(self, clause: Clause, step: ProofStep, rules: Sequence[Formula] = ()) -> Named:
        """Yield the obligations which show that a step keeps a clause."""
        goal = self.formulas.of(clause, step.after)
        if goal == self.before[clause.name]:
            yield f"{self.prefix}{step.rule}/{clause.name}", None
            return
        for name, asked, uses in self.goals(clause, step, goal):
            assumed = [*self.assumed(uses, step), *(rules if RULED in uses else ())]
            yield from self.posed_in_parts(f"{step.rule}/{name}", uses, assumed, asked)

    def goals(
        self, clause: Clause, step: ProofStep, goal: Formula
    ) -> Iterator[tuple[str, Formula, frozenset[str]]]:
        """Yield (name, clause after the step, clauses to use). For a clause about prefixes and a
        log that may grow, the goal for the old prefixes comes first."""
        uses = clause.uses | {clause.name}
        if not clause.prefixes or not step.grows:
            yield clause.name, goal, uses.union(step.recalls)
            return
        longer = self.state.log.length + 1
        bound, body = self.formulas.of(clause, step.after, LENGTH)
        parts = conjunction((longer > LENGTH).implies(part) for part in conjuncts(body))
        yield f"{clause.name}/old", (bound, parts), uses
        yield f"{clause.name}/new", self.formulas.of(clause, step.after, longer), uses

    def lemmas_of(self, step: ProofStep) -> list[Lemma]:
        """Return the lemmas of a step that use no absent clause."""
        return [lemma for lemma in step.lemmas if not self.absent.intersection(lemma.uses)]

    def lemmas(self) -> Named:
        """Yield the obligations of the lemmas of all steps."""
        for step in self.steps:
            for lemma in self.lemmas_of(step):
                assumed = self.assumed(lemma.uses, step)
                name = f"{step.rule}/{lemma.name}"
                yield from self.posed_in_parts(name, lemma.uses, assumed, lemma.formula)
