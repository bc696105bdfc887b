"""Terms over unknowns, evaluated on one state of a scope.

An unknown is found by its name: a place of the world (`w.coordinator.known.metadata.state`), an
attribute of the configuration, or one of the state, which may be a function or a set; `reign[0]` is
a part of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from proofs.lift.dag import Node, reachable
from proofs.lift.step import OPERATIONS


def evaluate(node: Node, s: Any, bound: Mapping[str, int]) -> Any:
    """The value of a term in a state that has a configuration `k` and a `world`; `bound` are the
    numbers that no state knows."""
    values: dict[int, Any] = {}
    for part in reachable([node]):
        arguments = [values[a.serial] for a in part.args]
        if part.op == "const":
            values[part.serial] = part.value
        elif part.op in ("leaf", "apply"):
            name = part.name
            values[part.serial] = bound[name] if name in bound else unknown(s, name, arguments)
        else:
            values[part.serial] = OPERATIONS[part.op](*arguments)
    return values[node.serial]


def unknown(s: Any, name: str, arguments: list[int]) -> Any:
    """The value of an unknown, or of a function of numbers."""
    if name.startswith(("w.", "len(w.")):
        return place(s.world, name, arguments)
    name, _, part = name.removesuffix("]").partition("[")
    owner = next(of for of in (s.k.variant, s.k.bounds, s) if hasattr(of, name))
    value = getattr(owner, name)
    if isinstance(value, AbstractSet):
        return tuple(arguments) in value
    value = value(*arguments) if arguments else value
    return value[int(part)] if part else value


def place(world: Any, name: str, arguments: list[int]) -> int:
    """What stands at a place of a world; 0 outside of a map or a tuple."""
    keys = iter(arguments)
    value = world
    for part in name.removeprefix("len(").removesuffix(")").split(".")[1:]:
        value = getattr(value, part)
        if name.startswith("len(") and isinstance(value, tuple):
            return len(value)
        if hasattr(value, "put") or isinstance(value, tuple):
            key = next(keys)
            if not 0 <= key < len(value if isinstance(value, tuple) else value.values()):
                return 0
            value = value[key]
    return int(value)
