"""The result of an exploration, the same from every engine."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from proofs.lift.layout import WORD_BITS, Layout

Steps = tuple[int, ...]
"""Rule instances, by their index in the machine, from the initial state on."""


class EndReason(Enum):
    """The reason why an exploration ended."""

    COMPLETE = "complete"
    VIOLATION = "violation"
    DEPTH = "depth"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class StateGraph:
    """All transitions between the states found, by source and then by rule instance.

    Transition number i is `rules[i]` from state `sources[i]` to state `targets[i]`; a state is its
    index in the order of a breadth-first search, the initial one being 0. `packed` has
    `layout.words` 64-bit words a state.
    """

    layout: Layout
    packed: array[int]
    sources: array[int]
    rules: array[int]
    targets: array[int]

    @property
    def distinct(self) -> int:
        """The number of states."""
        return len(self.packed) // self.layout.words

    def state(self, index: int) -> tuple[int, ...]:
        """Return the leaf values of a state, in the order of the machine's leaves."""
        words = self.layout.words
        at = index * words
        packed = sum(word << WORD_BITS * n for n, word in enumerate(self.packed[at : at + words]))
        return self.layout.unpack(packed)


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of a breadth-first search.

    `levels[d]` is the number of states first met at depth d; `depth` is the last level's number.
    `transitions` counts pairs (state, enabled rule instance), self-loops included; `firings` counts
    the same by the instance's label. `violations` has a shortest path to each broken guarantee,
    `witnesses` to each witness that was met; of several shortest paths it is the one that a
    sequential search meets first. `deadlocks` counts states without successors; `deadlock` leads to
    the first. `collision_bound` bounds the probability that a state was missed. `peak_bytes` is the
    most memory that the process ever held. `graph` is present if edges were requested.

    `orbits` is the number of states explored, if each stood for all that differ by an exchange of
    elements. All other numbers count all states; `firings` is then by rule, because its instances
    share a count.

    If `ended` is VIOLATION or DEPTH, the last level was found but not expanded; if it is
    INTERRUPTED, only a part of it may be found.
    """

    machine: str
    engine: str
    ended: EndReason
    distinct: int
    orbits: int | None
    transitions: int
    depth: int
    levels: tuple[int, ...]
    firings: Mapping[str, int]
    violations: Mapping[str, Steps]
    witnesses: Mapping[str, Steps]
    deadlocks: int
    deadlock: Steps | None
    collision_bound: float
    seconds: float
    peak_bytes: int
    graph: StateGraph | None

    @property
    def complete(self) -> bool:
        """Whether every reachable state was found."""
        return self.ended is EndReason.COMPLETE


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The progress of an exploration: `done` of `frontier` states of level `depth` are expanded.

    With `is_restoring`, `done` counts states of an earlier run that are in the engine again.
    """

    depth: int
    done: int
    frontier: int
    distinct: int
    transitions: int
    seconds: float
    is_restoring: bool = False


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during an exploration; `so_far` is what was found until then."""

    def __init__(self, so_far: Exploration) -> None:
        super().__init__(f"stopped after {so_far.distinct} states")
        self.so_far = so_far


class RangeBroken(RuntimeError):
    """A step writes a value that its leaf cannot hold, or reads a key that its map does not have:
    the ranges that the model declares are wrong.

    `steps` lead from the initial state to that step, which is the last of them.
    """

    exit_code = 3

    def __init__(self, message: str, steps: Steps) -> None:
        super().__init__(f"the model declares a range that is too narrow: {message}")
        self.steps = steps


class LimitReached(RuntimeError):
    """The engine cannot continue: too many states for its indexes, or no memory."""

    exit_code = 3
