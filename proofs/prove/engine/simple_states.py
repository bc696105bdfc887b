"""Simple states: asks whether functions of a simple form, instead of any functions, meet
hypotheses.

Hypotheses that hold for all numbers are hard to satisfy as long as functions may be anything,
because a solver has to invent the functions. Each function is therefore given a form: it is
constant, or a constant plus the sum of some of its arguments, except at one place. Only numbers are
then left to be found. If functions of this form meet the hypotheses, the hypotheses can be met. If
no function of this form does, nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

FUNCTION = re.compile(r"\(declare-fun \|([^|]*)\| \(([^)]*)\) (\w+)\)")
LOGIC = re.compile(r"\(set-logic \w+\)")
NUMBERS_ONLY = "(set-logic LIA)"
"""The logic of a text without unknown functions. A solver for this logic decides quantified
formulas."""


def but_for_one_place(text: str) -> str:
    """Return the question with each function constant except at one place."""
    return FUNCTION.sub(lambda found: defined(*found.groups(), slopes=False), text)


def with_slopes(text: str) -> str:
    """Return the question with functions that may also grow with their arguments."""
    changed = FUNCTION.sub(lambda found: defined(*found.groups(), slopes=True), text)
    return LOGIC.sub(NUMBERS_ONLY, changed)


def defined(name: str, arguments: str, result: str, *, slopes: bool) -> str:
    """Return the definition of a function of this form, after the declarations of its numbers."""
    names = [f"x{i}" for i in range(len(arguments.split()))]
    body = f"|{name}!usual|"
    if slopes and result == "Int":
        grown = (f"(ite |{name}!grows {x}| {x} 0)" for x in names)
        body = f"(+ {body} {' '.join(grown)})"
    at_place = " ".join(f"(= {x} |{name}!at {x}|)" for x in names)
    body = f"(ite (and {at_place}) |{name}!there| {body})"
    parameters = " ".join(f"({x} Int)" for x in names)
    made = f"(define-fun |{name}| ({parameters}) {result} {body})"
    return "\n".join([*declarations(name, names, result), made])


def declarations(name: str, names: list[str], result: str) -> Iterator[str]:
    """Yield declarations of the numbers that determine a function of this form."""
    for what in ("usual", "there"):
        yield f"(declare-const |{name}!{what}| {result})"
    for x in names:
        yield f"(declare-const |{name}!grows {x}| Bool)"
        yield f"(declare-const |{name}!at {x}| Int)"
