"""Prints a scope of the model as a TLA+ module, for TLC and for readers.

Theory of operation. The module is printed from the model's syntax trees, so functions, names and
docstrings are those of the model. The state is one variable, `world`. A second variable, `event`,
holds the rule that led to the state, with its choices; the configuration's VIEW excludes it from
the state, so it changes no count. The initial world is printed as a value. Configurations are
definitions at the top.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from proofs.export.tla_expressions import ExportError
from proofs.export.tla_functions import Functions
from proofs.export.tla_globals import Globals, module_of
from proofs.export.tla_text import (
    HELPERS,
    Level,
    comment,
    delimited,
    hang,
    heading,
    inside,
    prefixed,
    with_needs,
)
from proofs.lift.source import Model

RULER = 98

LEVEL_COUNTER = r"""
\* Always true. TLC with one worker prints how many worlds it knew when it came to a level.
new_level ==
    LET level == TLCGet("level")
    IN  \/ level = TLCGet(1)
        \/ TLCSet(1, level) /\ PrintT(<<"level", level, TLCGet("distinct")>>)

ASSUME TLCSet(1, -1)
""".strip()


@dataclass(frozen=True, slots=True)
class TlaModule:
    """A module with its configuration.

    `checked` are the guarantees that the configuration checks, `unchecked` those that the text only
    defines; `rules` gives the names of each rule's choices, in the order of its operator.
    """

    name: str
    text: str
    cfg: str
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    rules: Mapping[str, tuple[str, ...]]

    def write(self, directory: Path) -> Path:
        """Write NAME.tla and NAME.cfg; return the path of the first."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{self.name}.cfg").write_text(self.cfg, encoding="utf-8")
        path = directory / f"{self.name}.tla"
        path.write_text(self.text, encoding="utf-8")
        return path


def export_tla(
    model: Model,
    k: Any,
    name: str,
    *,
    check: Collection[str] | None = None,
    levels: bool = False,
) -> TlaModule:
    """Return the model in the configuration `k` as a module called after `name`.

    The guarantees of this configuration are checked, or those named by `check` instead. With
    `levels` the module counts worlds per level under TLC. Raises ExportError, with the place, for
    text that TLA+ cannot express, and ValueError for a guarantee that does not exist.
    """
    guarantees = {p.name: p for p in model.guarantees.GUARANTEES}
    asked = [p.name for p in guarantees.values() if p.guaranteed(k)] if check is None else check
    unknown = sorted(set(asked) - set(guarantees))
    if unknown:
        raise ValueError(
            f"no guarantee is called {unknown[0]!r}; there are {', '.join(guarantees)}"
        )
    checked = tuple(p for p in guarantees if p in asked)
    unchecked = tuple(p for p in guarantees if p not in asked)
    printer = _Printer(model, k, re.sub(r"\W", "_", name))
    text = printer.module(levels=levels)
    cfg = configuration(checked, unchecked, levels)
    return TlaModule(printer.name, text, cfg, checked, unchecked, printer.choices)


def configuration(checked: Sequence[str], unchecked: Sequence[str], levels: bool) -> str:
    """Return the configuration for TLC."""
    invariants = (*(("new_level",) if levels else ()), *checked)
    lines = ["INIT Init", "NEXT Next", "VIEW view", "CHECK_DEADLOCK FALSE"]
    lines += ["INVARIANTS", *(f"    {name}" for name in invariants)] if invariants else []
    if unchecked:
        lines += ["\\* Defined, and not checked:", *(f"\\*  {name}" for name in unchecked)]
    return "\n".join(lines) + "\n"


class _Printer:
    """Assembles one module."""

    def __init__(self, model: Model, k: Any, name: str) -> None:
        self.model, self.k, self.name = model, k, name
        self.guarantees = tuple(model.guarantees.GUARANTEES)
        self.rules = tuple(cast(FunctionType, rule) for rule in model.rules.values())
        self.globals = Globals(model, k)
        self.functions = Functions(self.globals, self.rules, [p.check for p in self.guarantees])
        self.aliases = dict(self.aliased())

    @property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """Return the names of each rule's choices."""
        return {rule.__name__: tuple(self.functions.free_parameters(rule)) for rule in self.rules}

    def aliased(self) -> Iterator[tuple[str, str]]:
        """Yield the guarantees whose names differ from their functions', with these functions."""
        for guarantee in self.guarantees:
            operator = self.globals.operator(guarantee.check)
            if guarantee.name == operator:
                continue
            if self.globals.names.claim(guarantee.name) != guarantee.name:
                raise ExportError(f"the guarantee {guarantee.name!r} needs a name of its own")
            yield guarantee.name, operator

    def module(self, *, levels: bool) -> str:
        """Return the whole text."""
        self.body(levels=levels)  # the first printing declares all names, so
        body = self.body(levels=levels)  # no operator of the second binds one of them
        title = f" MODULE {self.name} ".center(RULER, "-")
        return "\n\n".join((title, *self.opening(), *body, "=" * RULER)) + "\n"

    def body(self, *, levels: bool) -> list[str]:
        """Return everything except the declarations that its text needs."""
        body = [*self.by_module(), heading("The system"), self.start(), self.steps()]
        if self.aliases:
            body.append("\n".join(f"{name} == {check}" for name, check in self.aliases.items()))
        return [*body, LEVEL_COUNTER] if levels else body

    def opening(self) -> Iterator[str]:
        """Yield the declarations before the operators."""
        yield comment(
            f"Printed from the Python text of the model; the variant is {self.k.variant.name}.\n"
            "A tuple is a sequence, a map a function whose domain begins at 0, a set a set."
        )
        yield "EXTENDS Integers, Sequences, FiniteSets, TLC"
        yield "VARIABLES world, event"
        yield heading("The configuration, and enums")
        yield from self.globals.declarations()
        if self.globals.helpers:
            yield heading("What the model's language has and TLA+ lacks")
            yield "\n".join(HELPERS[name] for name in with_needs(self.globals.helpers))

    def by_module(self) -> Iterator[str]:
        """Yield the constants and operators, with a heading for each module of the model."""
        operators = [(module_of(f), self.functions.operators(f)) for f in self.functions.order]
        for module in self.model.modules:
            texts = [text for home, text in operators if home == module]
            constants = self.globals.constants(module)
            if texts or constants:
                yield heading(self.model.files[module])
            if texts:
                yield comment(inspect.cleandoc(self.model.modules[module].__doc__ or ""))
            yield from filter(None, (constants, *texts))

    def start(self) -> str:
        """Return the initial world, as a value."""
        first = self.globals.value(self.model.scopes.initial(self.k)).text
        return (
            "Init ==\n    "
            + hang("/\\ world = ", first).replace("\n", "\n    ")
            + ('\n    /\\ event = <<"Init">>')
        )

    def steps(self) -> str:
        """Return every event that can happen."""
        lines = [hang("    \\/ ", self.step(rule)) for rule in self.rules]
        return "\n".join(
            ("Next ==", *lines, "\nSpec == Init /\\ [][Next]_<<world, event>>\n\nview == world")
        )

    def step(self, rule: FunctionType) -> str:
        """Return one rule with any of its choices."""
        _, spelled = self.functions.opened_scope(rule)
        name = self.globals.operator(rule)
        if not spelled:
            return name
        hints = self.functions.free_parameters(rule)
        tree = self.functions.tree(rule)
        notes = {a.arg: a.annotation for a in tree.args.args}
        domains = [
            f"{variable} \\in {self.domain(hint, notes[choice])}"
            for variable, (choice, hint) in zip(spelled, hints.items(), strict=True)
        ]
        return prefixed(f"\\E {', '.join(domains)} :", f"{name}({', '.join(spelled)})")

    def domain(self, hint: Any, note: ast.expr | None) -> str:
        """Return the set that a choice is made from, under the name that its type has in the
        text."""
        text = self.range_text(hint)
        return self.globals.named_range(note.id, text) if isinstance(note, ast.Name) else text

    def range_text(self, hint: Any) -> str:
        """Return the set of all values that a choice of a type may have."""
        if hint is bool:
            return "BOOLEAN"
        if isinstance(hint, type) and issubclass(hint, IntEnum):
            return delimited("{", [self.globals.member(m).text for m in hint], "}")
        mark = hint.__metadata__[0]
        if hasattr(mark, "size"):
            return f"0..({self.size(mark.size)} - 1)"
        return f"{self.size(mark.lo)}..{self.size(mark.hi)}"

    def size(self, bound: int | str) -> str:
        """Return a bound of a type."""
        if isinstance(bound, str):
            return self.globals.configuration_value(self.k.bounds, bound).text
        return inside(self.globals.value(bound), Level.ATOM)
