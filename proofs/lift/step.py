"""Evaluates the graph directly, one state at a time: slow, but without packing that could be wrong.

The printed forms are tested against it. It also says what a step wrote when no packed state could
hold the value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

from proofs.lift.dag import ARITHMETIC, Node, reachable
from proofs.lift.machine import Machine

OPERATIONS: Mapping[str, Callable[..., int]] = {
    **ARITHMETIC,
    "not": operator.not_,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "ite": lambda condition, then, otherwise: then if condition else otherwise,
}
"""The operations on Python's own numbers."""


def evaluate(
    roots: Iterable[Node], leaves: Mapping[str, int], inputs: Mapping[str, int]
) -> list[int]:
    """Return the value of each root, for these values of leaves and budgets."""
    wanted = list(roots)
    known: dict[int, int] = {}
    for node in reachable(wanted):
        if node.op == "const":
            known[node.serial] = node.value
        elif node.op in ("leaf", "input"):
            known[node.serial] = (leaves if node.op == "leaf" else inputs)[node.name]
        else:
            args = (known[a.serial] for a in node.args)
            known[node.serial] = int(OPERATIONS[node.op](*args))
    return [known[root.serial] for root in wanted]


def initial_values(machine: Machine) -> dict[str, int]:
    """Return the initial state, by leaf name."""
    names = (leaf.name for leaf in machine.leaves)
    return dict(zip(names, map(int, machine.initial), strict=True))


def written(machine: Machine, values: Mapping[str, int], rule: int) -> dict[str, int] | None:
    """Return what a rule instance writes in a state, by leaf name; None if its guard fails."""
    instance = machine.rules[rule]
    guard, *results = evaluate([instance.guard, *instance.updates.values()], values, machine.inputs)
    return dict(zip(instance.updates, results, strict=True)) if guard else None


def successors(machine: Machine, values: Mapping[str, int]) -> list[tuple[int, dict[str, int]]]:
    """Return (rule instance, state) for each enabled instance, smallest first."""
    found = ((rule, written(machine, values, rule)) for rule in range(len(machine.rules)))
    return [(rule, {**values, **wrote}) for rule, wrote in found if wrote is not None]


def values_after(machine: Machine, steps: Sequence[int]) -> dict[str, int]:
    """Return the state after some steps from the initial one. Raises ValueError if one is
    disabled."""
    values = initial_values(machine)
    for number, rule in enumerate(steps):
        wrote = written(machine, values, rule)
        if wrote is None:
            label = machine.rules[rule].label
            raise ValueError(f"step {number + 1}, {label}, is not enabled")
        values.update(wrote)
    return values


def undefined_at(machine: Machine, steps: Sequence[int]) -> list[str]:
    """Return the places in the text where the last step meets a key that its map does not have."""
    *before, last = steps
    values, broken = values_after(machine, before), machine.rules[last].broken
    found = evaluate((node for _, node in broken), values, machine.inputs)
    return [where for (where, _), is_so in zip(broken, found, strict=True) if is_so]


def out_of_range(machine: Machine, steps: Sequence[int]) -> list[str]:
    """Return the leaves out of their range after some steps, as in `x = 5 (of 0 .. 4)`."""
    values = values_after(machine, steps)
    return [
        f"{leaf.name} = {values[leaf.name]} (of {leaf.lo} .. {leaf.hi})"
        for leaf in machine.leaves
        if not leaf.lo <= values[leaf.name] <= leaf.hi
    ]
