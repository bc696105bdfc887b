"""Explains a broken guarantee in one sentence: which record, partition or producer breaks it.

A guarantee is a function that is false for a world. Its own text shows what makes it false: the
loops of its `all` and `any` are run again, and the first element that decides is named.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from proofs.lift.source import Model, assumed_properties_of
from proofs.trace.format import Trace, TraceStep
from proofs.trace.project import project
from proofs.trace.replay import Stepper, configuration_of, model_of

Names = dict[str, Any]

INDICES: Mapping[str, str] = {
    "partition": "partition",
    "instance": "instance",
    "producer": "producer",
    "t": "transaction",
    "transaction": "transaction",
    "i": "offset",
    "offset": "offset",
    "record": "record",
    "r": "record",
}
"""The meaning of a loop's numbers, by the variable's name."""

DEFINED = "{} ="
"""The key under which the expression of a local name is kept, next to the name's value."""


class Breach(NamedTuple):
    """A guarantee that a trace breaks; `is_guaranteed` says whether its scope and variant promise
    it."""

    name: str
    sentence: str
    is_guaranteed: bool


def breach_sentence(
    guarantee: Any, k: Any, world: Any, steps: Sequence[TraceStep] = (), *, brief: bool = False
) -> str:
    """Return which guarantee a world breaks, by which step, and where. With `brief`, leave out the
    guarantee's sentence and whether the configuration gives it."""
    by = f" by step {len(steps)}, {steps[-1].label}" if steps else ""
    says = "" if brief else " " + " ".join((guarantee.check.__doc__ or "").split())
    free = "" if brief or guarantee.guaranteed(k) else " (not guaranteed here)"
    place = ", ".join(dict.fromkeys(describe(deciding_values(guarantee.check, k, world))))
    where = f" Where: {place}." if place else ""
    return f"{guarantee.name} is broken{by}{free}{':' if says or where else '.'}{says}{where}"


def breaches(
    model: Model, k: Any, steps: Sequence[TraceStep], worlds: Sequence[Any]
) -> Iterator[Breach]:
    """Yield each guarantee that is broken at a trace's end; `worlds` are all worlds of the
    trace."""
    for guarantee in model.guarantees.GUARANTEES:
        if not guarantee.check(k, worlds[-1]):
            first = next(i for i, world in enumerate(worlds) if not guarantee.check(k, world))
            told = breach_sentence(guarantee, k, worlds[first], steps[:first])
            yield Breach(guarantee.name, told, guarantee.guaranteed(k))


def breach_of(name: str, trace: Trace, *, brief: bool = False) -> str:
    """Return the sentence for a trace that ends by breaking a guarantee, or an assumed property."""
    model = model_of(trace.header)
    k = configuration_of(model, trace.header.scope, trace.header.variant)
    every = (*model.guarantees.GUARANTEES, *assumed_properties_of(model))
    *_, last = Stepper(model, k).run(trace.steps)
    broken = next(p for p in every if p.name == name)
    return breach_sentence(broken, k, last, trace.steps, brief=brief)


def describe(values: Names) -> Iterator[str]:
    """Yield the deciding values in words. If records know their offsets, a loop's numbers are only
    places in the log, and are left out."""
    records = [text for value in values.values() for text in describe_record(value)]
    placed = any(" at offset " in text for text in records)
    for name, value in values.items():
        kind = INDICES.get(name, "")
        if isinstance(value, int) and kind and not (placed and kind == "offset"):
            yield f"{kind} {int(value)}"
    yield from records


def describe_record(value: Any) -> Iterator[str]:
    """Yield a record or a batch of a log in words; nothing for another value."""
    fields = project(value) if hasattr(value, "__dataclass_fields__") else None
    if not isinstance(fields, dict):
        return
    at = f" at offset {fields['base_offset']}" if "base_offset" in fields else ""
    batch = fields.get("batch", fields)
    if {"transaction", "number", "instance"} <= fields.keys():
        yield describe_stored(fields)
    elif isinstance(batch, dict) and {"first_record", "producer_epoch"} <= batch.keys():
        first, count = batch["first_record"], batch.get("record_count", 1)
        records = f"record {first}" if count == 1 else f"records {first} to {first + count - 1}"
        whose = f"of producer {batch.get('producer', 0)}, epoch {batch['producer_epoch']}"
        yield f"{records} {whose}{at}"


def describe_stored(fields: Mapping[str, Any]) -> str:
    """Return an entry of a log of transactions in words: data, or a marker."""
    if fields.get("kind") != "DATA":
        return f"{fields.get('kind')} of epoch {fields['producer_epoch']}"
    own = f"record {fields['number']} of transaction {fields['transaction']}"
    return f"{own} of instance {fields['instance']}"


# The search


def deciding_values(function: Callable[..., bool], *arguments: Any) -> Names:
    """Return the loop values that determine a predicate's result, by the names of their
    variables."""
    found: Names = {}
    follow_call(function, arguments, function(*arguments), found)
    return found


def follow_call(function: Any, arguments: Sequence[Any], outcome: bool, found: Names) -> None:
    """Find what gives a function of the model this outcome."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError):
        return
    if not isinstance(tree, ast.FunctionDef) or len(arguments) != len(tree.args.args):
        return
    own = dict(zip((a.arg for a in tree.args.args), arguments, strict=True))
    names = {**function.__globals__, **own}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            names[statement.targets[0].id] = value_of(statement.value, names)
            names[DEFINED.format(statement.targets[0].id)] = statement.value
        elif isinstance(statement, ast.Return) and statement.value is not None:
            follow(statement.value, names, outcome, found)
        elif not isinstance(statement, ast.Expr):
            return


def value_of(node: ast.expr, names: Names) -> Any:
    """Return the value of an expression for these names."""
    code = compile(ast.Expression(node), "<guarantee>", "eval")
    return eval(code, dict(names))


def follow(node: ast.expr, names: Names, outcome: bool, found: Names) -> None:
    """Find what gives an expression this outcome."""
    match node:
        case ast.Name(id=name) if DEFINED.format(name) in names:
            follow(names[DEFINED.format(name)], names, outcome, found)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            follow(operand, names, not outcome, found)
        case ast.BoolOp(op=op, values=values):
            decides = isinstance(op, ast.Or)
            for part in values:
                if bool(value_of(part, names)) is outcome:
                    follow(part, names, outcome, found)
                    if decides is outcome:
                        return
        case ast.Call(
            func=ast.Name(id="all" | "any" as quantifier), args=[ast.GeneratorExp() as g]
        ):
            if outcome is (quantifier == "any"):
                follow_loop(g, names, outcome, found)
        case ast.Call(func=ast.Name() | ast.Attribute(), args=arguments, keywords=[]):
            function = value_of(node.func, names)
            if inspect.isfunction(function):
                follow_call(function, [value_of(a, names) for a in arguments], outcome, found)


def follow_loop(loop: ast.GeneratorExp, names: Names, outcome: bool, found: Names) -> None:
    """Find the first element of a loop that decides, and continue inside it."""
    for bound in bindings(loop.generators, names):
        inner = {**names, **bound}
        if bool(value_of(loop.elt, inner)) is outcome:
            found.update(bound)
            follow(loop.elt, inner, outcome, found)
            return


def bindings(loops: Sequence[ast.comprehension], names: Names) -> Iterator[Names]:
    """Yield the values of a comprehension's variables, one element after the other."""
    if not loops:
        yield {}
        return
    first, *others = loops
    for element in value_of(first.iter, names):
        bound = bind(first.target, element)
        inner = {**names, **bound}
        if all(value_of(condition, inner) for condition in first.ifs):
            yield from ({**bound, **more} for more in bindings(others, inner))


def bind(target: ast.expr, value: Any) -> Names:
    """Return the names of a loop's target with their values."""
    if isinstance(target, ast.Tuple):
        pairs = zip(target.elts, value, strict=True)
        return dict(itertools.chain.from_iterable(bind(t, v).items() for t, v in pairs))
    return {target.id: value} if isinstance(target, ast.Name) else {}
