"""A state of a scope as the unknowns of the proofs about one producer: see `Builder.state`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from proofs.lift.source import Model
from proofs.prove.in_scope import ScopeState
from proofs.trace.messages import RuleCall


def flat(name: str, value: Any) -> Iterator[tuple[str, int]]:
    """The scalars of a value, named as `Unknowns` names them."""
    if isinstance(value, tuple):
        yield f"len({name})", len(value)
        for i, inner in enumerate(value):
            yield from flat(f"{name}[{i}]", inner)
    elif hasattr(value, "items"):
        for i, inner in value.items():
            yield from flat(f"{name}[{i}]", inner)
    elif hasattr(value, "plus"):
        yield from ((f"{i} in {name}", 1) for i in range(value._bits.bit_length()) if i in value)
    elif hasattr(value, "__dataclass_fields__"):
        for field in value.__dataclass_fields__:
            yield from flat(f"{name}.{field}", getattr(value, field))
    elif isinstance(value, int):
        yield name, int(value)


class ScopeValues:
    """A world, with the actors as they are by now, and the producer whose message arrives."""

    def __init__(
        self,
        model: Model,
        k: Any,
        world: Any,
        past: frozenset[Any],
        now: Mapping[str, Any],
        call: RuleCall,
    ) -> None:
        self.state = ScopeState(model, k, world, past)
        self.k, self.now = k, now
        self.request = call.inputs[0] if call.inputs else None

    @cached_property
    def values(self) -> dict[str, int]:
        """The numbers."""
        s, leader = self.state, self.now["leader"]
        batch = getattr(self.request, "batch", None)
        other = batch.producer_id if batch else 0
        return {
            **dict(flat("client", self.now["client"])),
            **dict(flat("known", leader.producers[0])),
            **dict(flat("others", leader.producers[max(other, 0)])),
            "p": 0,
            "producer": 0,
            "log_length": len(leader.log),
            "high_watermark": leader.high_watermark,
            "replicas": self.k.bounds.replicas,
            "max_sequence": self.k.bounds.max_sequence,
            "next_position": s.next_position,
            "handled": s.handled,
            "refused": int(s.refused),
            "fenced": int(s.fenced),
            "epoch_in_turn": s.epoch_in_turn,
            "first_sequence": int(self.k.variant.first_sequence),
            "restart_window": int(self.k.variant.restart_window),
            "recovery": int(self.k.variant.recovery),
            "head_truncation": int(self.k.variant.head_truncation),
            "expiry": int(self.k.variant.expiry),
        }

    def value_of(self, name: str, arguments: tuple[int, ...]) -> int:
        """The value of an unknown, or of a function of numbers. Raises KeyError."""
        if arguments:
            return int(self.function(name, arguments))
        if name.startswith(("client.", "known.", "others.", "len(client.", "len(known.")):
            return self.values.get(name, 0)
        if " in client." in name or name.startswith("len(others."):
            return self.values.get(name, 0)
        return self.values[name]

    def function(self, name: str, arguments: tuple[int, ...]) -> int:
        """The value of a function."""
        first, s = arguments[0], self.state
        if name.startswith("log."):
            log = self.now["leader"].log
            return dict(flat("log", log[first])).get(name, 0) if 0 <= first < len(log) else 0
        if name.startswith("client."):
            entry = self.now["client"].partitions[int(name[len("client.partitions[")])]
            return first in getattr(entry, name.rpartition(".")[2])
        if name.startswith(("history.", "len(history.")):
            inside = 0 <= first <= len(s.log)
            return dict(flat("history", s.history(first))).get(name, 0) if inside else 0
        known = {"sent": s.is_sent, "numbered": s.is_numbered, "position": s.position}
        if name == "answers":
            return (first, *arguments[1:]) in {
                (a.first, a.base_offset, a.required_offset) for a in s.answers
            }
        if name == "begins":
            return s.log[first].begin
        return int(known[name](*arguments))
