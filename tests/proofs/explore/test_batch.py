"""Successors by blocks: a search that knows states by fingerprints alone finds what others find."""

from pathlib import Path

import numpy as np
import pytest

from proofs.explore.batch import Expansion, Fingerprint, LevelCounts, MachineShape
from proofs.explore.explorer import explore, prepare
from proofs.explore.native import build_machine
from proofs.lift.machine import Machine
from tests.proofs.lift.toys import counters, two_phase_commit, window


def opened(machine: Machine) -> tuple[Expansion, np.ndarray]:
    """An expansion, and the words of the initial state."""
    prepared = prepare(machine)
    tests = len(machine.guarantees) + len(machine.witnesses)
    inputs = tuple(prepared.machine.inputs.values())
    shape = MachineShape(prepared.layout.words, len(machine.rules), tests, inputs)
    path = Path(build_machine(prepared.machine, prepared.layout))
    packed = prepared.layout.pack(prepared.machine.initial)
    words = np.frombuffer(packed.to_bytes(8 * shape.words, "little"), np.uint64)
    return Expansion(path, shape, [False] * tests), words


def search(machine: Machine) -> tuple[list[int], LevelCounts]:
    """Levels and tally of a search that keeps nothing but fingerprints and one level."""
    expansion, initial = opened(machine)
    seen: set[Fingerprint] = {expansion.look_at(initial)}
    level, levels = [initial], []
    while level:
        levels.append(len(level))
        found = []
        for high, low, _, words in expansion.expand(np.array(level)):
            for state, row in zip(
                zip(high.tolist(), low.tolist(), strict=True), words, strict=True
            ):
                if state not in seen:
                    seen.add(state)
                    found.append(row.copy())
        level = found
    return levels, expansion.tally


@pytest.mark.parametrize(
    "machine", [two_phase_commit(5), counters(9), window(4, 2)], ids=lambda m: m.name
)
def test_fingerprints_and_blocks_count_what_the_engine_counts(machine: Machine) -> None:
    expected = explore(machine)
    levels, tally = search(machine)
    assert tuple(levels) == expected.levels
    assert (tally.transitions, tally.deadlocks) == (expected.transitions, expected.deadlocks)
    assert tally.firings == list(expected.firings.values())
    noted = [*expected.violations, *expected.witnesses]
    assert sum(state is not None for state in tally.first) == len(noted)


def test_a_block_has_a_successor_once_with_its_least_parent() -> None:
    expansion, initial = opened(two_phase_commit(5))
    blocks = [block.copy() for block in next(iter(expansion.expand(initial[None, :])))]
    level = blocks[3]
    alone: dict[Fingerprint, int] = {}
    for state in level:
        for high, low, parent, _ in expansion.expand(state[None, :]):
            for one, by in zip(zip(high, low, strict=True), parent, strict=True):
                alone[one] = min(alone.get(one, by), by)
    [(high, low, parent, _)] = expansion.expand(level)
    assert dict(zip(zip(high, low, strict=True), parent, strict=True)) == alone
    assert len(set(parent)) > 1
