"""The layout of TLA+ text: precedence, line breaks, names, and the words it is written in.

Three rules keep the text well formed. A term that binds less tightly than its place requires gets
parentheses. A term that does not fit on a line is broken, and all its lines are indented to where
it begins, since TLA+ ends a list of conjuncts at the first token left of its bullets. No name is
declared again inside the scope of another declaration of it, which TLA+ forbids.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

WIDTH = 70
"""A term up to this long, and without a line break, stays on one line."""

DEEP = 12
"""The length of an opening up to which its arguments are indented behind it; after a longer one
they begin on a new line."""


class Level(IntEnum):
    """How tightly a term binds."""

    OPEN = 0
    """Extends as far as it can: IF, LET, quantifiers."""
    LOGIC = 1
    COMPARISON = 2
    SUM = 3
    ATOM = 4


@dataclass(frozen=True, slots=True)
class Term:
    """TLA+ text, how tightly it binds, and the type of its value (None: not known).

    If the text is `changed_from` with some places replaced, `changes` has each place with its
    value.
    """

    text: str
    level: Level = Level.ATOM
    hint: Any = None
    changed_from: str = ""
    changes: tuple[tuple[str, str], ...] = ()


TRUE = Term("TRUE", hint=bool)


def inside(term: Term, least: Level) -> str:
    """Return the term's text for a place that requires a term to bind at least this tightly."""
    return term.text if term.level >= least else hang("(", term.text) + ")"


def hang(prefix: str, text: str) -> str:
    """Return `text` after `prefix`, with its further lines aligned with its first."""
    return prefix + text.replace("\n", "\n" + " " * len(prefix))


def fits(text: str) -> bool:
    """Whether the text is one line, and not a long one."""
    return "\n" not in text and len(text) <= WIDTH


def delimited(opening: str, items: Sequence[str], closing: str) -> str:
    """Return `opening item, item closing`, broken after commas when it is long."""
    line = opening + ", ".join(items) + closing
    if fits(line) or not items:
        return line
    if len(opening) <= DEEP:
        return hang(opening, ",\n".join(items)) + closing
    return opening + "\n" + textwrap.indent(",\n".join(items), "    ") + closing


def applied(operator: str, arguments: Sequence[str], hint: Any = None) -> Term:
    """Return an operator applied, or its name alone if it takes nothing."""
    text = delimited(f"{operator}(", arguments, ")") if arguments else operator
    return Term(text, hint=hint)


def infix(left: str, operator: str, right: str) -> str:
    """Return `left operator right`."""
    line = f"{left} {operator} {right}"
    if fits(line) or "\n" not in left:
        return line if fits(line) else hang(f"{left} {operator} ", right)
    return left + "\n" + hang(f"{operator} ", right)


def compared(left: Term, operator: str, right: Term) -> Term:
    """Return a comparison."""
    text = infix(inside(left, Level.SUM), operator, inside(right, Level.SUM))
    return Term(text, Level.COMPARISON, bool)


def negated(term: Term) -> Term:
    """Return `~term`."""
    return Term(hang("~", inside(term, Level.ATOM)), Level.COMPARISON, bool)


def junction(operator: str, parts: Sequence[Term]) -> Term:
    r"""Return a conjunction (`/\`) or disjunction (`\/`): on one line, or as a bulleted list."""
    if len(parts) == 1:
        return parts[0]
    line = f" {operator} ".join(inside(part, Level.COMPARISON) for part in parts)
    return Term(line, Level.LOGIC, bool) if fits(line) else bulleted(operator, parts)


def bulleted(operator: str, parts: Sequence[Term]) -> Term:
    """Return a conjunction or disjunction as a list, whatever its length."""
    items = []
    for part in parts:
        on_one_line = part.level == Level.LOGIC and "\n" not in part.text
        items.append(hang(f"{operator} ", f"({part.text})" if on_one_line else part.text))
    return Term("\n".join(items), Level.LOGIC, bool)


def implication(condition: Term, consequence: Term) -> Term:
    """Return `condition => consequence`."""
    left, right = inside(condition, Level.COMPARISON), inside(consequence, Level.COMPARISON)
    return Term(infix(left, "=>", right), Level.LOGIC, bool)


def conditional(condition: Term, then: Term, otherwise: Term) -> Term:
    """Return `IF condition THEN then ELSE otherwise`."""
    hint = then.hint if then.hint is not None else otherwise.hint
    line = f"IF {condition.text} THEN {then.text} ELSE {otherwise.text}"
    if not fits(line):
        parts = (hang("IF ", condition.text), hang("THEN ", then.text))
        line = "\n".join((*parts, hang("ELSE ", otherwise.text)))
    return Term(line, Level.OPEN, hint)


@dataclass(frozen=True, slots=True)
class Definition:
    """A name defined in a LET."""

    name: str
    value: Term


def let(definitions: Sequence[Definition], body: Term) -> Term:
    """Return `LET definitions IN body`."""
    if not definitions:
        return body
    lines = [hang(f"{d.name} == ", d.value.text) for d in definitions]
    line = f"LET {lines[0]} IN {body.text}"
    if len(definitions) > 1 or not fits(line):
        line = hang("LET ", "\n".join(lines)) + "\n" + hang("IN  ", body.text)
    return Term(line, Level.OPEN, body.hint)


def changed(owner: Term, places: Iterable[tuple[str, Term]]) -> Term:
    """Return `[owner EXCEPT !place = value, ...]`; a change within a place becomes one of a longer
    place."""
    changes: list[tuple[str, str]] = []
    for place, value in places:
        if value.changes and value.changed_from == f"{owner.text}{place}":
            changes += [(place + inner, text) for inner, text in value.changes]
        else:
            changes.append((place, value.text))
    lines = [hang(f"!{place} = ", text) for place, text in changes]
    opening = f"[{owner.text} EXCEPT"
    line = f"{opening} {', '.join(lines)}]"
    if not fits(line):
        line = opening + "\n" + textwrap.indent(",\n".join(lines), "    ") + "]"
    return Term(line, Level.ATOM, owner.hint, owner.text, tuple(changes))


def prefixed(prefix: str, body: str) -> str:
    """Return a quantifier, a function or a LAMBDA with its body on the same line, or indented
    below."""
    line = f"{prefix} {body}"
    return line if fits(line) else prefix + "\n" + textwrap.indent(body, "    ")


def comment(text: str) -> str:
    r"""Return `text` as comment lines."""
    return "\n".join(f"\\* {line}".rstrip() for line in text.splitlines())


def heading(text: str) -> str:
    """Return a line that begins a part of the module."""
    return f"\\* ---- {text} " + "-" * max(4, 90 - len(text))


HELPERS: dict[str, str] = {
    "Range": "Range(f) == {f[x] : x \\in DOMAIN f}",
    "Mapped": "Mapped(Op(_), f) == [x \\in DOMAIN f |-> Op(f[x])]",
    "Indices": "Indices(n) == [i \\in 1..n |-> i - 1]",
    "Take": "Take(s, n) == SubSeq(s, 1, IF n < Len(s) THEN n ELSE Len(s))",
    "Drop": "Drop(s, n) == SubSeq(s, n + 1, Len(s))",
    "Final": "Final(s, n) == SubSeq(s, IF n < Len(s) THEN Len(s) - n + 1 ELSE 1, Len(s))",
    "FoldSeq": (
        "FoldSeq(Op(_, _), s, start) ==\n"
        "    LET after[i \\in 0..Len(s)] == IF i = 0 THEN start ELSE Op(after[i - 1], s[i])\n"
        "    IN  after[Len(s)]"
    ),
    "SumSeq": "SumSeq(s) == FoldSeq(LAMBDA a, b : a + b, s, 0)",
    "MaxSeq": "MaxSeq(s) == CHOOSE a \\in Range(s) : \\A b \\in Range(s) : a >= b",
    "MinSeq": "MinSeq(s) == CHOOSE a \\in Range(s) : \\A b \\in Range(s) : a <= b",
    "Max": "Max(a, b) == IF a >= b THEN a ELSE b",
    "Min": "Min(a, b) == IF a <= b THEN a ELSE b",
    "Span": "Span(first, count) == first..(first + count - 1)",
    "Filled": "Filled(n, v) == [i \\in 0..(n - 1) |-> v]",
    "Values": "Values(m) == [i \\in 1..Cardinality(DOMAIN m) |-> m[i - 1]]",
    "MapOf": "MapOf(s) == [i \\in 0..(Len(s) - 1) |-> s[i + 1]]",
}
"""The words of the model's language that TLA+ lacks, each after those it needs. A tuple is a
sequence (from 1); a map is a function whose domain begins at 0."""

NEEDS = {"SumSeq": ("FoldSeq",), "MaxSeq": ("Range",), "MinSeq": ("Range",)}
"""Helpers that use other helpers."""

BOUND_IN_HELPERS = frozenset(
    ("a", "after", "b", "count", "f", "first", "i", "m", "n", "Op", "s", "start", "v", "x")
)
"""Names that no operator may have, since the helpers bind them."""

WORDS = """
    ACTION ASSUME ASSUMPTION AXIOM BY BOOLEAN CASE CHOOSE CONSTANT CONSTANTS COROLLARY DEF DEFINE
    DEFS DOMAIN ELSE ENABLED EXCEPT EXTENDS FALSE HAVE HIDE IF IN INSTANCE LAMBDA LEMMA LET LOCAL
    MODULE NEW OBVIOUS OMITTED ONLY OTHER PICK PROOF PROPOSITION PROVE QED RECURSIVE STATE STRING
    SUBSET SUFFICES TAKE TEMPORAL THEN THEOREM TRUE UNCHANGED UNION USE VARIABLE VARIABLES WITH
    WITNESS
    Nat Int Real Infinity Append BoundedSeq Head Len SelectSeq Seq SubSeq Tail Cardinality
    IsFiniteSet Any Assert JavaTime Permutations Print PrintT RandomElement SortSeq TLCEval TLCGet
    TLCSet ToString
    Init Next Spec event level new_level view world
"""
RESERVED = frozenset((*WORDS.split(), *HELPERS))
"""Keywords, names that the standard modules declare, and names that every exported module
declares."""


def with_needs(helpers: Iterable[str]) -> tuple[str, ...]:
    """Return the helpers with those that they use, in an order in which they can be declared."""
    wanted = set(helpers)
    wanted.update(needed for helper in tuple(wanted) for needed in NEEDS.get(helper, ()))
    return tuple(name for name in HELPERS if name in wanted)


class Names:
    """The names declared at the top of one module."""

    def __init__(self) -> None:
        self._declared: set[str] = set(RESERVED)

    def claim(self, *wishes: str) -> str:
        """Return a name that is not in use: the first wish that is free, else the last with a
        mark."""
        forbidden = self._declared | BOUND_IN_HELPERS
        name = next((wish for wish in wishes if wish not in forbidden), "")
        if not name:
            name = wishes[-1]
            while name in forbidden:
                name += "_"
        self._declared.add(name)
        return name

    def local(self, wish: str, taken: Iterable[str]) -> str:
        """Return a name for something bound inside an operator, where `taken` is already bound."""
        forbidden = self._declared.union(taken)
        while wish in forbidden:
            wish += "_"
        return wish
