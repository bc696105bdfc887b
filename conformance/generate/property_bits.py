"""The properties of each explored state: the guarantees that it breaks, the witnesses that it
is."""

from __future__ import annotations

from proofs import arrays as np
from proofs.coverage.columns import CHUNK_STATES, constants_of, evaluated
from proofs.explore.result import StateGraph
from proofs.lift.machine import Machine
from proofs.lift.specialise import substitute

Numbers = np.Array


def property_bits(machine: Machine, graph: StateGraph) -> Numbers:
    """A number for each state. It has one bit for each guarantee, set if the state breaks the
    guarantee, then one for each witness, set if the state is one. Both are in the machine's order,
    which is the model's."""
    properties = [*machine.guarantees.values(), *machine.witnesses.values()]
    roots = substitute(properties, constants_of(graph.layout))
    packed = np.frombuffer(graph.packed, dtype=np.uint64).reshape(-1, graph.layout.words)
    parts = []
    for first in range(0, len(packed), CHUNK_STATES):
        states = packed[first : first + CHUNK_STATES]
        bits = np.zeros(len(states), dtype=np.uint32)
        for n, holds in enumerate(evaluated(roots, graph.layout, states, machine.inputs)):
            shows = holds if n >= len(machine.guarantees) else np.logical_not(holds)
            bits |= shows.astype(np.uint32) << np.uint32(n)
        parts.append(bits)
    return np.concatenate(parts)
