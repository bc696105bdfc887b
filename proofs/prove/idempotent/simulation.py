"""Compares the steps about one producer with the transitions of a scope.

A state of a scope gives the unknowns of the proofs their values; see `Builder.state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from model.idempotent.configuration import SequenceOrder
from proofs.explore.source import SourceGraph
from proofs.lift.source import Model
from proofs.prove.engine.actor_simulation import Simulation, SimulationResult
from proofs.prove.engine.sizes import PREFIX, size_in
from proofs.prove.idempotent.composition import configuration
from proofs.prove.idempotent.scope_state import ScopeState, pasts
from proofs.prove.idempotent.sequence_arithmetic import NO_WRAP, SEQUENCE, wrapping
from proofs.prove.idempotent.steps import IdempotentSteps
from proofs.prove.idempotent.symbolic_state import BEFORE_KIP_360, VARIANT
from proofs.trace.messages import RuleCall


def flat(name: str, value: Any) -> Iterator[tuple[str, int]]:
    """Yield the scalars of a value, named as `Unknowns` names them."""
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


def sized(model: Model, k: Any) -> Any:
    """Return the configuration of the proofs, with the slots of a scope."""
    usual = configuration(model, k.variant.name)
    sizes = {name: getattr(k.bounds, name) for name in ("in_flight", "window", "faults")}
    return replace(usual, bounds=replace(usual.bounds, **sizes))


def simulate_scope(model: Model, k: Any, found: SourceGraph) -> SimulationResult:
    """Compare each transition of a scope with the steps of the proofs."""
    wraps = k.variant.sequence_order == SequenceOrder.WRAPS
    regime = wrapping(k.bounds.max_sequence + 1) if wraps else NO_WRAP
    steps = IdempotentSteps(model, sized(model, k), regime).all

    def view(world: Any, past: Any, now: Mapping[str, Any], call: RuleCall) -> ProducerValues:
        return ProducerValues(ScopeState(model, k, world, past), now, call)

    simulation = Simulation(model, k, steps, actors_of, view)
    return simulation.run(found, pasts(found.worlds, found.edges))


def actors_of(world: Any) -> dict[str, Any]:
    """Return the actors that the theorems are about."""
    return {"client": world.clients[0], "leader": world.leaders[0]}


class ProducerValues:
    """A world, the actors as they are at this point, and the producer whose message arrives."""

    def __init__(self, state: ScopeState, now: Mapping[str, Any], call: RuleCall) -> None:
        self.state, self.k, self.now = state, state.k, now
        self.request = call.inputs[0] if call.inputs else None

    @cached_property
    def values(self) -> dict[str, int]:
        """The values of the unknowns."""
        s, leader = self.state, self.now["leader"]
        batch = getattr(self.request, "batch", None)
        other = batch.producer_id if batch else 0
        nowhere = self.state.model.scopes.fresh_entry(0, 0)  # if a scope has one partition
        return {
            **dict(flat("client.partitions[1]", nowhere)),
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
            **{name: int(getattr(self.k.variant, name)) for name in (*VARIANT, *BEFORE_KIP_360)},
        }

    def value_of(self, name: str, arguments: tuple[int, ...]) -> int:
        """Return the value of an unknown, or of a function of numbers. Raises KeyError."""
        if arguments:
            return int(self.function(name, arguments))
        if name.startswith(PREFIX):
            return size_in(self.k, name)
        if name.startswith(("client.", "known.", "others.", "len(client.", "len(known.")):
            return self.values.get(name, 0)
        if " in client." in name or name.startswith("len(others."):
            return self.values.get(name, 0)
        return self.values[name]

    def function(self, name: str, arguments: tuple[int, ...]) -> int:
        """Return the value of a function."""
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
        if name == "answers":
            return (first, *arguments[1:]) in {
                (a.first, a.base_offset, a.required_offset) for a in s.answers
            }
        if name == SEQUENCE:
            return s.regime.sequence(first)
        functions: dict[str, Callable[..., int]] = {
            "sent": s.is_sent,
            "numbered": s.is_numbered,
            "position": s.position,
            "begins": lambda place: s.log[place].begin,
            "where": s.ends_at,
            "cover": s.covers,
            "place": s.copy_of,
            "previous": s.previous,
        }
        return int(functions[name](*arguments))
