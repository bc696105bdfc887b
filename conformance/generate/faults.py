"""The events and faults that a test can bring about, derived from the declarations of the model.

Each event names the means (`Wire`) that a test at running brokers needs for it. A fault is what
events `spend`: a test can have the fault if it has the means for one of these events.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FunctionType
from typing import Any, Final

from model.language import Wire, declaration_of
from proofs.lift.source import Model

Means = Collection[Wire | None]
"""The means of a test. None stands for events that name no means: only a run in one process has
them."""

CLIENTS: Final = frozenset({Wire.BROKERS, Wire.REQUESTS, Wire.CONNECTIONS})
"""The means of a test at a broker that merely listens at some address."""

_SPARED: Final = frozenset({Wire.REQUESTS, Wire.STATIC_CONFIGS, None})

FAULT_CHOICES: Final[Mapping[str, Means]] = {
    "nodes": frozenset({*Wire, None}),
    "connections": _SPARED | {Wire.CONNECTIONS, Wire.BROKER_CONNECTIONS, Wire.MARKERS},
    "none": _SPARED,
}
"""The means by which a run may have faults, for each value of `--faults`."""


def events_by(model: Model, means: Means) -> frozenset[str]:
    """The events that a test with these means brings about."""
    return frozenset(n for n, rule in model.rules.items() if declaration_of(rule).wire in means)


def faults_not_had(k: Any, model: Model, means: Means) -> dict[str, str]:
    """The faults of a configuration that a test with these means cannot have, and the reason of
    each."""
    return {
        fault: describe_need(fault, *next(iter(events.items())))
        for fault, events in spent_by(model).items()
        if getattr(k.budgets, fault) > 0 and not means_of(events) & set(means)
    }


def means_of(events: Mapping[str, Wire | None]) -> set[Wire | None]:
    """The means of these events; each is enough for one of them. If some event names its means, the
    events that name none do not count."""
    return set(events.values()) - {None} or {None}


def describe_need(fault: str, event: str, wire: Wire | None) -> str:
    """Describes the means that a fault needs, for a test that lacks them."""
    if wire is None:
        return f"{fault}: nobody brings {event} about at brokers"
    return f"{fault}: {event} needs {wire.value}"


@functools.cache
def spent_by(model: Model) -> Mapping[str, Mapping[str, Wire | None]]:
    """The events that spend each fault, with the means of each event, or of its incident if that
    names its own. An action that a broker takes by itself is not a fault by itself."""
    found: dict[str, dict[str, Wire | None]] = {}
    for name, rule in model.rules.items():
        declared = declaration_of(rule)
        wires = [i.wire for i in declared.incidents if i.wire is not None]
        for fault in _costs(model, rule, set()):
            found.setdefault(fault, {})[name] = wires[0] if wires else declared.wire
    return {name: found[name] for name in model.faults.Faults.__annotations__ if name in found}


def _costs(
    model: Model, function: Callable[..., Any], known: set[Callable[..., Any]]
) -> Iterator[str]:
    """The faults that a function spends, itself or in functions that it calls."""
    known.add(function)
    tree = model.tree_of(function)
    names = vars(model.modules[function.__module__.rpartition(".")[2]])
    for node in ast.walk(tree) if tree else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        called = names.get(node.func.id)
        if called is model.faults.Faults:
            yield from (str(keyword.arg) for keyword in node.keywords)
        elif isinstance(called, FunctionType) and model.tree_of(called) and called not in known:
            yield from _costs(model, called, known)
