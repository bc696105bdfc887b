"""Evaluates terms over unknowns on one state of a scope.

The name of an unknown tells what it is: a place in the world
(`w.coordinator.known.metadata.state`), an attribute of the configuration, or an attribute of the
state, which may be a function or a set. `reign[0]` is a part of a pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from proofs.lift.dag import Node, reachable
from proofs.lift.step import OPERATIONS
from proofs.prove.engine.sizes import PREFIX, size_in

Values = Callable[..., int]
"""Returns the value of an unknown by name, or of a function of numbers by name and arguments."""


@lru_cache(maxsize=1024)
def compiled(terms: tuple[Node, ...]) -> Callable[[Values], tuple[int, ...]]:
    """Compile terms to a function of the values of unknowns, since the same terms are evaluated in
    many states."""
    lines, names = ["def evaluate(value):"], dict[int, str]()
    for node in reachable(terms):
        names[node.serial] = f"n{node.serial}"
        arguments = [names[a.serial] for a in node.args]
        lines.append(f"    n{node.serial} = {in_python(node, arguments)}")
    lines.append(f"    return ({''.join(f'{names[n.serial]}, ' for n in terms)})")
    scope: dict[str, Any] = {f"{name}_": function for name, function in OPERATIONS.items()}
    exec("\n".join(lines), scope)
    made: Callable[[Values], tuple[int, ...]] = scope["evaluate"]
    return made


def in_python(node: Node, arguments: Sequence[str]) -> str:
    """Return one operation as Python text."""
    if node.op == "const":
        return repr(node.value)
    if node.op in ("leaf", "apply"):
        return f"value({', '.join([repr(node.name), *arguments])})"
    return f"{node.op}_({', '.join(arguments)})"


def evaluate(node: Node, s: Any, bound: Mapping[str, int]) -> Any:
    """Return the value of a term in a state that has a configuration `k` and a `world`; `bound`
    gives the numbers that no state knows."""

    def value(name: str, *arguments: int) -> Any:
        return bound[name] if name in bound else unknown(s, name, list(arguments))

    return compiled((node,))(value)[0]


def unknown(s: Any, name: str, arguments: list[int]) -> Any:
    """Return the value of an unknown, or of a function of numbers."""
    if name.startswith(("w.", "len(w.", "size(w.")):
        return place(s.world, name, arguments)
    if name.startswith(PREFIX):
        return size_in(s.k, name)
    name, _, part = name.removesuffix("]").partition("[")
    owner = next(of for of in (s.k.variant, s.k.bounds, s) if hasattr(of, name))
    value = getattr(owner, name)
    if isinstance(value, AbstractSet):
        return tuple(arguments) in value
    value = value(*arguments) if arguments else value
    return value[int(part)] if part else value


def place(world: Any, name: str, arguments: list[int]) -> int:
    """Return the value at a place of a world; 0 outside of a map or a tuple."""
    keys = iter(arguments)
    value = world
    for part in name.removeprefix("len(").removeprefix("size(").removesuffix(")").split(".")[1:]:
        value = getattr(value, part)
        if name.startswith("len(") and isinstance(value, tuple):
            return len(value)
        if name.startswith("size(") and hasattr(value, "put"):
            return len(value.values())
        if hasattr(value, "put") or isinstance(value, tuple):
            key = next(keys)
            if not 0 <= key < len(value if isinstance(value, tuple) else value.values()):
                return 0
            value = value[key]
    return int(next(keys) in value if hasattr(value, "plus") else value)
