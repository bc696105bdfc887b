"""Simple states: a question about any functions, asked about functions of a simple form alone.

Whether anything meets hypotheses that are true for all numbers is hard to say as long as functions
may be anything: a solver has to invent them. So each function is given a form: everywhere the same,
or a number more than the sum of some of its arguments, but for one place. Then only numbers are
left to be found. Functions of this form that meet hypotheses do meet them. If none does, nothing is
known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

FUNCTION = re.compile(r"\(declare-fun \|([^|]*)\| \(([^)]*)\) (\w+)\)")
LOGIC = re.compile(r"\(set-logic \w+\)")
NUMBERS_ONLY = "(set-logic LIA)"
"""Of a text without unknown functions. A solver for these decides what is true for all numbers."""


def but_for_one_place(text: str) -> str:
    """The question where each function is everywhere the same, but for one place."""
    return FUNCTION.sub(lambda found: defined(*found.groups(), slopes=False), text)


def with_slopes(text: str) -> str:
    """The question where each function may also grow with its arguments."""
    changed = FUNCTION.sub(lambda found: defined(*found.groups(), slopes=True), text)
    return LOGIC.sub(NUMBERS_ONLY, changed)


def defined(name: str, arguments: str, result: str, *, slopes: bool) -> str:
    """The definition of a function of this form, behind the declarations of its numbers."""
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
    """The numbers that tell one function of this form from others."""
    for what in ("usual", "there"):
        yield f"(declare-const |{name}!{what}| {result})"
    for x in names:
        yield f"(declare-const |{name}!grows {x}| Bool)"
        yield f"(declare-const |{name}!at {x}| Int)"
