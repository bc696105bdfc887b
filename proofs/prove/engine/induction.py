"""Induction: a clause holds at first, and each step that begins where clauses hold keeps it.

A clause names what its induction stands on: other clauses, facts, lemmas about a step (each proved
before it is used) and assumptions. Nothing else is given to the solvers when it is proved.
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
"""The length of a prefix of a log, any."""
RULED = "rules_of_variant"
"""What the variant says of the rules that are unknown to all other clauses."""

Named = Iterator[tuple[str, ProofObligation | None]]
"""(step/clause, obligation); None where the step leaves the clause unchanged."""


def of_state(s: Any) -> tuple[Any, ...]:
    """A clause that is about a state alone."""
    return (s,)


@dataclass(frozen=True, slots=True)
class Clause:
    """A predicate that holds in every state: `holds`, of what `subject` makes of the state.

    Its induction stands on itself and on what it `uses`; it `follows` if that implies it. A clause
    that is about `prefixes` holds of every prefix of the log, and its subject takes a length; of
    other lengths than those that are `within` the log it says nothing. With what is `in_words` it
    implies the model's guarantee of its name, as that one's text says it.
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
        """The same clause, standing on more."""
        return replace(self, uses=self.uses.union(uses))

    def formula(self, lifter: Lifter, state: Any) -> Formula:
        """What it says of a state of unknowns."""
        if not self.prefixes:
            return lifter.formula(self.holds, *self.subject(lifter.view(state)))
        return self.of_prefix(lifter, state, LENGTH)

    def of_prefix(self, lifter: Lifter, state: Any, length: Node) -> Formula:
        """What it says of the prefix of one length."""
        seen = lifter.view(state)
        bound, body = lifter.formula(self.holds, *self.subject(seen, length))
        if self.within is None:
            return bound, body
        is_one = lifter.node(self.within, seen, length)
        return bound, conjunction(is_one.implies(part) for part in conjuncts(body))

    def is_so(self, k: Any, s: Any) -> bool:
        """Whether it holds in a concrete state, by its own text."""
        lengths: Iterable[tuple[int, ...]] = [()]
        if self.prefixes:
            lengths = [(length,) for length in range(len(s.log) + 1)]
        own = configured(self.holds, k)
        return all(self.holds(*own, *self.subject(s, *length)) for length in lengths)


Predicate = TypeVar("Predicate", bound=Callable[..., bool])


class Declarer(Protocol):
    """A decorator that leaves a predicate as it is, and notes what it declares."""

    def __call__(self, function: Predicate, /) -> Predicate:
        """The predicate."""


def described(function: Callable[..., Any]) -> str:
    """A docstring in one line."""
    return " ".join((function.__doc__ or "").split())


def declared(kind: str, *clauses: Callable[[str, str, Any], Clause]) -> Declarer:
    """A decorator that makes clauses of a predicate."""

    def declare(function: Predicate) -> Predicate:
        made = (clause(function.__name__, described(function), function) for clause in clauses)
        vars(function)[kind] = tuple(made)
        return function

    return declare


def invariant(*, needs: Iterable[str] = (), follows: bool = False) -> Declarer:
    """A clause: it holds in every state, by induction unless it follows from what it needs."""
    uses = frozenset(needs)
    return declared("invariants", lambda name, says, f: Clause(name, says, f, uses, follows))


def guarantee(
    *, needs: Iterable[str] = (), follows: bool = False, in_words: Iterable[str] = ()
) -> Declarer:
    """A clause that a theorem is about; with what is `in_words` it implies the model's text."""
    uses, words = frozenset(needs), tuple(in_words)
    return declared(
        "guarantees",
        lambda name, says, f: Clause(name, says, f, uses, follows, in_words=words),
    )


def of_nothing(_s: Any) -> tuple[Any, ...]:
    """A clause about the configuration alone."""
    return ()


def axiom(function: Callable[..., bool]) -> Clause:
    """What no rule changes: what is so of ghosts, or of the configuration alone."""
    subject = of_nothing if [*inspect.signature(function).parameters] == ["k"] else of_state
    return Clause(function.__name__, described(function), function, subject=subject)


def lemma(*, needs: Iterable[str] = ()) -> Declarer:
    """What is so where a step is taken, and what that stands on."""
    uses = tuple(needs)

    def declare(function: Predicate) -> Predicate:
        vars(function)["needs"] = uses
        return function

    return declare


def collected(module: ModuleType, kind: str = "invariants") -> tuple[Clause, ...]:
    """The clauses that a module declares, in its order."""
    own = (f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__)
    return tuple(clause for f in own for clause in vars(f).get(kind, ()) if callable(f))


def clause_of(function: Callable[..., bool]) -> Clause:
    """The clause that a function is."""
    (found,) = (c for kind in ("invariants", "guarantees") for c in vars(function).get(kind, ()))
    assert isinstance(found, Clause)
    return found


def clauses_of(*functions: Callable[..., bool]) -> tuple[Clause, ...]:
    """The clauses that functions are."""
    return tuple(map(clause_of, functions))


@dataclass(frozen=True, slots=True)
class Lemma:
    """What holds where a step is taken, and the clauses that it stands on."""

    name: str
    formula: Formula
    uses: tuple[str, ...]

    @staticmethod
    def of(lifter: Lifter, function: Callable[..., bool], *arguments: Any) -> Lemma:
        """The lemma that a function is, of its arguments."""
        needs: tuple[str, ...] = vars(function)["needs"]
        return Lemma(function.__name__, lifter.formula(function, *arguments), needs)


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A rule applied to any state. `assumed` is what it requires of the state before.

    `prefixes` are the lengths of the prefixes of the log that the step is about. `lemmas` hold too
    where it is taken: each is proved first, then assumed by the clauses that use it. `given` are
    assumptions by name, for the clauses that use them. Each clause also uses what it `recalls`.
    `elsewhere` is another state in which the clauses hold before the step. `taken` are the rules of
    actors whose text it evaluates, `edits` what it makes besides. The log that has prefixes `grows`
    if it may have one batch more after the step.
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
    """A goal of many parts as so many goals, each with its number; 0 leaves it whole."""
    bound, body = goal
    parts = conjuncts(body) if groups else ()
    if not groups or len(parts) < groups:
        yield "", goal
        return
    size = -(-len(parts) // groups)
    for count, start in enumerate(range(0, len(parts), size), 1):
        yield f"/{count}", (bound, conjunction(parts[start : start + size]))


class ClauseFormulas:
    """What clauses say of states, each evaluated once.

    The parts of a state that an evaluation reads are noted. What it says of another state in which
    these very parts stand is the same: evaluating reads nothing else that differs. Clauses that
    differ in what they use say the same, so inductions over the same states share this.
    """

    def __init__(self, lifter: Lifter) -> None:
        self.lifter = lifter
        self._made: dict[tuple[Any, ...], list[tuple[dict[str, Any], Formula]]] = {}

    def of(self, clause: Clause, state: Any, length: Node | None = None) -> Formula:
        """What a clause says of a state; or of the prefix of its log that has this length."""
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
    """The same state, and its parts that have been read since. (A record is a part by itself.)"""
    if isinstance(state, Rec):
        return state, {"fields": state.fields}
    read: dict[str, Any] = {}
    own = frozenset(vars(state))

    class Noting(type(state)):  # type: ignore[misc]
        """Notes what is read of the state."""

        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name in own:
                read[name] = value
            return value

    noting = object.__new__(Noting)
    object.__getattribute__(noting, "__dict__").update(vars(state))
    return noting, read


class Induction:
    """The obligations by which clauses hold in every state.

    `formulas` reads clauses; `before` is any state, `initial` the first one. `facts` are true of
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
        """All steps; evaluated where they are first asked for. What one recalls is proved here."""
        found = tuple(self._steps())
        for step in found:
            known = self.known.keys() | {lemma.name for lemma in self.lemmas_of(step)}
            assert known.issuperset(step.recalls), f"{step.rule} recalls what nothing proves"
        return found

    def assumed(self, uses: Collection[str], step: ProofStep | None = None) -> list[Formula]:
        """Clauses, facts, lemmas and assumptions by name: of clauses about prefixes, what they say
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
        """The same clauses of another state, but for those about prefixes."""
        used = (c for c in self.known.values() if c.name in uses and not c.prefixes)
        return [(f"{c.name}, elsewhere", self.formulas.of(c, state)) for c in used]

    def posed(
        self, name: str, uses: Collection[str], assumed: Sequence[Formula], goal: Formula
    ) -> ProofObligation:
        """The obligation, with what functions in it mean."""
        meant = self.meant(uses, (*assumed, goal))
        names = [*(self.names.get(formula, "") for formula in assumed), *("" for _ in meant)]
        return obligation(f"{self.prefix}{name}", [*assumed, *meant], goal, names)

    def meant(self, uses: Collection[str], formulas: Sequence[Formula]) -> list[Formula]:
        """What functions in the formulas mean, for an obligation that uses their meaning."""
        return []

    def posed_in_parts(
        self, name: str, uses: Collection[str], assumed: Sequence[Formula], goal: Formula
    ) -> Named:
        """The obligations of a goal, each with its name."""
        for part, formula in split(goal, self.groups):
            asked = self.posed(f"{name}{part}", uses, assumed, formula)
            yield asked.name, asked

    def of_clauses(self, clauses: Sequence[Clause], rules: Sequence[Formula] = ()) -> Named:
        """Of all clauses: those that follow, then those that are kept by each step. `rules` are
        assumed in steps by the clauses that use RULED."""
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
        """That a step leaves a clause true."""
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
        """(name, clause after the step, clauses to use): the `goal`; of a clause about prefixes, if
        the log may grow, first of the old ones."""
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
        """The lemmas of a step whose clauses are known here."""
        return [lemma for lemma in step.lemmas if not self.absent.intersection(lemma.uses)]

    def lemmas(self) -> Named:
        """The obligations of the lemmas of all steps."""
        for step in self.steps:
            for lemma in self.lemmas_of(step):
                assumed = self.assumed(lemma.uses, step)
                name = f"{step.rule}/{lemma.name}"
                yield from self.posed_in_parts(name, lemma.uses, assumed, lemma.formula)
