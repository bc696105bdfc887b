"""A step that breaks a clause, in the model's words: a counterexample to induction.

If a solver does not prove an obligation, it may have a state in which all hypotheses hold and the
clause fails after the step. The state is shown by the fields of the model's records, with small
numbers if possible. Whether a run reaches this state is a separate question, which exploration
answers.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from proofs.lift.dag import BOUND, Node, reachable
from proofs.lift.source import load_model
from proofs.lift.values import Shapes
from proofs.prove.engine.smt import ProofObligation
from proofs.prove.engine.solvers import Said, ask_patiently
from proofs.prove.engine.theorem import Theorem
from proofs.prove.run.all_theorems import THEOREMS
from proofs.prove.run.plan import Duty
from proofs.prove.run.vacuity import step_of

PATIENCE_S = 3.0
"""Processor time for the search of states of each size."""
SMALL = (2, 5, 20)
"""The limits on numbers, in the order in which they are tried: states with small numbers are easier
to read."""


@dataclass(frozen=True, slots=True)
class BrokenStep:
    """A state, a step, and the clause that fails after it. `state` and `choices` are values by
    name; `bound` has the numbers for which the clause is false."""

    obligation: str
    step: str
    clause: str
    says: str
    state: Mapping[str, str]
    choices: Mapping[str, str]
    bound: Mapping[str, str]


def broken_step(duty: Duty, theorem: Theorem) -> BrokenStep | None:
    """Return a state that a solver finds; None if it finds no state in time."""
    values = values_of(duty.obligation, theorem.home)
    if values is None:
        return None
    parts: dict[str, dict[str, str]] = {"state": {}, "choices": {}, "bound": {}}
    for name, text in values.items():
        if not is_unused(name, values):
            parts[part_of(name)][field_of(name)] = text
    clause = clause_of(duty, theorem.home)
    says = sentences().get(clause, "")
    return BrokenStep(duty.obligation.name, step_of(duty), clause, says, **parts)


MESSAGES = frozenset({"answer", "batch", "other"})
"""The records that a step receives as inputs."""


def field_of(name: str) -> str:
    """Return a name as a field of a record: without the prefix of the world, and with `.length` for
    a length."""
    length = re.fullmatch(r"len\((.*)\)", name)
    return f"{length[1]}.length" if length else name.removeprefix("w.").removeprefix(BOUND)


def is_bound(name: str) -> bool:
    """Whether a formula binds the name."""
    return name.startswith(BOUND)


def part_of(name: str) -> str:
    """Return the group of a name: a field of a record of the state, a number that the clause binds,
    or a choice of the step or its variant."""
    if is_bound(name):
        return "bound"
    root, is_field, _ = name.removeprefix("len(").partition(".")
    return "state" if is_field and root not in MESSAGES and "/" not in name else "choices"


def is_unused(name: str, values: Mapping[str, str]) -> bool:
    """Whether a name belongs to a slot beyond its tuple's end, or stands for a place in the
    text."""
    slots = re.findall(r"(.*?)\[(\d+)\]", name)
    lengths = (values.get(f"len({holder})") for holder, _ in slots)
    pairs = zip(slots, lengths, strict=True)
    behind = (length is not None and int(slot) >= int(length) for (_, slot), length in pairs)
    return "/" in name or any(behind)


def clause_of(duty: Duty, home: str) -> str:
    """Return the name of the clause that an obligation is about."""
    named = duty.obligation.name.removeprefix(f"{home}/").split("/")[1:]
    parts = [part for part in named if not part.isdecimal()]
    known = [part for part in parts if part in sentences()]
    return known[-1] if known else "/".join(parts)


@functools.cache
def sentences() -> Mapping[str, str]:
    """Return the sentence of each clause, by name."""
    found: dict[str, str] = {}
    for theorem in THEOREMS:
        own = (theorem.clause,) if theorem.clause else ()
        found |= {clause.name: clause.says for clause in (*theorem.composition.clauses, *own)}
    return found


# Values


def values_of(obligation: ProofObligation, home: str) -> dict[str, str] | None:
    """Return the values of the first state found, tried with small numbers first: each unknown, and
    each value of a function that the clause reads."""
    import z3

    enums = enums_of(home)

    solver = z3.SolverFor("UFLIA")
    solver.from_string(obligation.text.replace("(check-sat)", ""))
    leaves, applied = read_by(obligation)
    for limit in (*SMALL, None):
        solver.push()
        if limit is not None:
            solver.add(_ranges(z3, leaves, enums, limit))
        if is_met(solver):
            found = _read(z3, solver.model(), leaves, applied)
            return {n: format_value(n, value, is_bool, enums) for n, value, is_bool in found}
        solver.pop()
    return None


def is_met(solver: Any) -> bool:
    """Whether Z3 finds a state within its processor time, however busy the machine is."""

    def attempt(patience_s: float) -> Said:
        solver.set("timeout", int(patience_s * 1000))
        return str(solver.check()), ()

    (said, _), _ = ask_patiently(attempt, PATIENCE_S, time.process_time)
    return said == "sat"


def _ranges(z3: Any, leaves: list[Node], enums: Enums, limit: int) -> Iterator[Any]:
    """Yield limits: each number is small, or a member of its enumeration if it has one."""
    for leaf in leaves:
        if not leaf.is_bool:
            enum = enum_of(leaf.name, enums)
            lo, hi = (min(enum), max(enum)) if enum else (-1, limit)
            yield z3.And(int(lo) <= z3.Int(leaf.name), z3.Int(leaf.name) <= int(hi))


def read_by(obligation: ProofObligation) -> tuple[list[Node], list[Node]]:
    """Return the unknowns in the step's own conditions and in the goal, and the applications in the
    goal."""
    own = [f[1] for f, name in zip(obligation.assumed, obligation.names, strict=True) if not name]
    ground = [node for node in own if not any(is_bound(n.name) for n in reachable([node]))]
    nodes = list(reachable([*ground, obligation.goal[1]]))
    leaves = {node.name: node for node in nodes if node.op == "leaf"}
    goal = reachable([obligation.goal[1]])
    return list(leaves.values()), [node for node in goal if node.op == "apply"]


def _read(
    z3: Any, model: Any, leaves: list[Node], applied: list[Node]
) -> Iterator[tuple[str, int, bool]]:
    """Yield (name, value, whether the value is a bool)."""
    for leaf in leaves:
        term = z3.Bool(leaf.name) if leaf.is_bool else z3.Int(leaf.name)
        yield leaf.name, _number(z3, model.eval(term, model_completion=True)), leaf.is_bool
    known = {leaf.name: leaf for leaf in leaves}
    for node in applied:
        if all(a.op == "const" or a.name in known for a in node.args):
            arguments = [_argument(z3, model, a) for a in node.args]
            sorts = [z3.IntSort()] * len(arguments)
            result = z3.BoolSort() if node.is_bool else z3.IntSort()
            value = model.eval(z3.Function(node.name, *sorts, result)(*arguments), True)
            name = f"{node.name}({', '.join(map(str, arguments))})"
            yield name, _number(z3, value), node.is_bool


def _argument(z3: Any, model: Any, node: Node) -> int:
    if node.op == "const":
        return node.value
    return _number(z3, model.eval(z3.Int(node.name), model_completion=True))


def _number(z3: Any, value: Any) -> int:
    return int(z3.is_true(value)) if z3.is_bool(value) else int(value.as_long())


# Names of values


Enums = Mapping[tuple[str, str], type[IntEnum]]


@functools.cache
def enums_of(home: str) -> Enums:
    """Return the enumerations of fields, keyed by the field that holds their record and by their
    own name. The key ("", field) stands for a field that has the same enumeration in every
    record."""
    shapes = Shapes(None)
    model = load_model(home)
    world = set(records_in(shapes, model.world.World))
    records = world.union(*(records_in(shapes, c) for c in vars(model.messages).values()))
    found: dict[tuple[str, str], type[IntEnum]] = {}
    alike: dict[str, set[type[IntEnum]]] = {}
    for record in records:
        for name, hint in shapes.hints(record).items():
            inner = innermost(shapes, hint)
            if isinstance(inner, type) and issubclass(inner, IntEnum):
                alike.setdefault(name, set()).add(inner)
            elif is_record(inner):
                found |= {
                    (name, field): e
                    for field, kind in shapes.hints(inner).items()
                    if isinstance(e := innermost(shapes, kind), type) and issubclass(e, IntEnum)
                }
    return found | {("", name): e.pop() for name, e in alike.items() if len(e) == 1}


def records_in(shapes: Shapes, record: Any) -> Iterator[type]:
    """Yield a record and the records in its fields; nothing if it is not a record."""
    if is_record(record):
        yield record
        for hint in shapes.hints(record).values():
            yield from records_in(shapes, innermost(shapes, hint))


def is_record(thing: Any) -> bool:
    """Whether something is a class of the model's records."""
    return isinstance(thing, type) and hasattr(thing, "__dataclass_fields__")


def innermost(shapes: Shapes, hint: Any) -> Any:
    """Return the type of a container's elements, through nested containers."""
    kind = shapes.kind(hint)
    if kind == "tuple":
        return innermost(shapes, shapes.element(hint))
    return innermost(shapes, hint.__args__[1]) if kind == "map" else hint


def enum_of(name: str, enums: Enums) -> type[IntEnum] | None:
    """Return the enumeration of a field; None if the field has none."""
    path = re.sub(r"\[\d+\]|\(.*\)$", "", name).split(".")
    holder = path[-2] if len(path) > 1 else ""
    return enums.get((holder, path[-1])) or enums.get(("", path[-1]))


def format_value(name: str, value: int, is_bool: bool, enums: Enums) -> str:
    """Return a value as the model's text writes it."""
    enum = enum_of(name, enums)
    if is_bool:
        return str(bool(value))
    return enum(value).name if enum is not None and value in list(enum) else str(value)


def tell_step(found: BrokenStep) -> Iterator[str]:
    """Yield the counterexample as lines, with the fields of each record together."""
    yield f"{found.step} breaks {found.clause}" + (f": {found.says}" if found.says else "")
    if found.choices:
        yield f"  where {format_pairs(found.choices)}"
    records: dict[str, dict[str, str]] = {}
    for name, text in sorted(found.state.items()):
        record, _, field = name.rpartition(".")
        records.setdefault(record, {})[field] = text
    yield from (f"  {record}: {format_pairs(fields)}" for record, fields in records.items())
    if found.bound:
        yield f"  it is not so of {format_pairs(found.bound)}"


def format_pairs(values: Mapping[str, str]) -> str:
    """Return names with their values as one text."""
    return ", ".join(f"{name} = {text}" for name, text in values.items())
