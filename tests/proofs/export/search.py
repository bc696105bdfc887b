"""Breadth-first search in the model's own functions: what TLC is held against."""

from collections.abc import Callable
from typing import Any

from model.language import Disabled
from proofs.lift.build import choices
from proofs.lift.source import Model
from proofs.lift.values import Shapes


def instances(model: Model, k: Any) -> dict[str, tuple[Callable[..., Any], list[int]]]:
    """Every rule with every choice, by its label."""
    return {
        f"{name}({', '.join(f'{n}={v}' for n, v in choice)})": (rule, [v for _, v in choice])
        for name, rule in model.rules.items()
        for choice in choices(Shapes(k.bounds), rule)
    }


def levels(model: Model, k: Any) -> tuple[int, ...]:
    """How many worlds are reached first after 0, 1, 2, ... events."""
    rules = instances(model, k).values()
    level = [model.scopes.initial(k)]
    seen = set(level)
    counts = []
    while level:
        counts.append(len(level))
        following = []
        for world in level:
            for rule, chosen in rules:
                try:
                    after = rule(k, world, *chosen)
                except Disabled:
                    continue
                if after not in seen:
                    seen.add(after)
                    following.append(after)
        level = following
    return tuple(counts)


def replay(model: Model, k: Any, trace: tuple[str, ...]) -> Any:
    """The world that the events of a trace lead to; each must be possible."""
    rules = instances(model, k)
    world = model.scopes.initial(k)
    for label in trace:
        rule, chosen = rules[label]
        world = rule(k, world, *chosen)
    return world
