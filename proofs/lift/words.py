"""The words of the model's language, each with the one object that it stands for.

Code that reads the model's text may rely on these names, because `names.refusals` lets no module of
the model give one of them another meaning, or one of these objects another name.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from model import faults, language

REDUCTIONS = ("all", "any", "sum", "tuple")
"""Words that take a comprehension."""
ITERATIONS = ("enumerate", "range")
"""Words that a comprehension runs over."""
BUILTINS = ("len", "max", "min", *ITERATIONS, *REDUCTIONS)
"""The words that the language takes from Python."""

STATEMENTS = ("require", "within_scope")
"""Words that are statements by themselves."""
FUNCTIONS = ("fold", "map_values", "span")


def _declared() -> dict[str, object]:
    """Return what `model.language` declares for modules of the model to import."""
    return {
        name: found
        for name, found in vars(language).items()
        if getattr(found, "__module__", None) == language.__name__
        and not isinstance(found, TypeVar)
        and not name.startswith("_")
    }


READ: Mapping[str, object] = {
    **{name: getattr(builtins, name) for name in BUILTINS},
    **{name: getattr(language, name) for name in (*STATEMENTS, *FUNCTIONS, "Map", "Set")},
    "EMPTY_SET": language.EMPTY_SET,
    "filled": language.Map.filled,
    "replace": dataclasses.replace,
    "spend": faults.spend,
}
"""The words of a function's body."""

WORDS: Mapping[str, object] = {**_declared(), "fault_table": faults.fault_table, **READ}
"""All words: those of bodies, and those of declarations."""

HOMES = (builtins, dataclasses, faults, language)
"""Modules that have words; a module of the model imports the words themselves."""

_BY_IDENTITY = {id(found): name for name, found in WORDS.items()}


def word_of(found: Any) -> str:
    """Return the word that an object stands for; "" if it stands for none."""
    return _BY_IDENTITY.get(id(found), "")
