"""PCT, probabilistic concurrency testing: each bug of a small depth is met with a known chance.

1. Each thread (`threads.py`) has a priority of its own, drawn at random. The highest that has an
   event enabled moves.
2. At depth - 1 steps, drawn from the first `steps`, the thread that would move falls below all that
   have not fallen so: at the i-th of them to the place i from below.
3. A thread that has several events enabled draws one. A thread whose event leads back to a state of
   this trace has got nowhere, and falls below all.
4. A trace ends where nothing is enabled, after MAX_STEPS, or once as many events in a row as there
   are threads have got nowhere. It is a function of seed and trace id.

Theory of operation: a bug has depth d if there are d pairs of events such that every trace in which
each pair comes in its order shows it. With n threads a trace shows such a bug, if it needs no more
than `steps`, with chance 1 / (n * steps ** (d - 1)) or more: one pair comes in order where the
thread of its later event is the lowest of n at the beginning, each other pair where one of the
changes is just before its later event. What threads draw is apart: a bug that wants certain draws
has the chance of its order times that of these. S. Burckhardt, P. Kothari, M. Musuvathi, S.
Nagarakatte: "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010.
There, too, a thread that spins falls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from conformance.generate.hunt import MAX_STEPS, Enabled, HuntWalker

DEPTH: Final = 3
"""Of the bugs that are looked for, if nobody says."""
PROBES: Final = 256
"""Traces of which the longest says among how many steps priorities change."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is drawn before a trace begins: `order` has the threads, the highest first; before the
    steps `changes`, counted from 0, the thread that would move falls."""

    order: tuple[int, ...]
    changes: tuple[int, ...]

    def priorities(self) -> dict[int, int]:
        """Each thread's at the beginning: all above the places for those that fall."""
        highest = len(self.changes) + len(self.order)
        return {thread: highest - place for place, thread in enumerate(self.order)}

    def places(self, step: int) -> list[int]:
        """Where threads fall to before this step."""
        return [place for place, change in enumerate(self.changes, 1) if change == step]


def drawn(threads: int, steps: int, depth: int, draw: Callable[[], float]) -> Schedule:
    """A schedule, each as likely as any other; `draw` gives numbers from 0 to 1."""
    order = sorted(range(threads), key=lambda _: draw())
    return Schedule(tuple(order), tuple(int(draw() * steps) for _ in range(depth - 1)))


def followed(
    walker: HuntWalker, thread_of: Sequence[int], schedule: Schedule, draw: Callable[[], float]
) -> list[tuple[int, int]]:
    """(rule instance, transition) for each step of the trace that a schedule gives."""
    priority = schedule.priorities()
    state = walker.initial
    seen = {state}
    in_vain = 0
    steps: list[tuple[int, int]] = []
    while in_vain < len(priority) and len(steps) < MAX_STEPS:
        if not (enabled := walker.enabled(state)):
            break
        for place in schedule.places(len(steps)):
            priority[highest(enabled, thread_of, priority)] = place
        thread = highest(enabled, thread_of, priority)
        events = [event for event in enabled if thread_of[event[0]] == thread]
        instance, state, edge = events[int(draw() * len(events))]
        steps.append((instance, edge))
        in_vain = in_vain + 1 if state in seen else 0
        if in_vain:
            priority[thread] = min(priority.values()) - 1
        seen.add(state)
    return steps


def highest(enabled: Enabled, thread_of: Sequence[int], priority: Mapping[int, int]) -> int:
    """The thread that moves."""
    return max((thread_of[instance] for instance, _, _ in enabled), key=priority.__getitem__)


def pct(
    walker: HuntWalker, thread_of: Sequence[int], depth: int, steps: int, seed: int, number: int
) -> list[tuple[int, int]]:
    """The trace of an id, as `hunt` gives it. `depth` is that of the bugs that are looked for,
    `steps` how many they need at most; `thread_of` is by rule instance."""
    draw = random.Random(f"pct/{seed}/{number}").random
    schedule = drawn(max(thread_of, default=-1) + 1, steps, depth, draw)
    return followed(walker, thread_of, schedule, draw)


def longest(walker: HuntWalker, thread_of: Sequence[int], seed: int) -> int:
    """The steps of the longest of PROBES traces in which no priority changes."""
    return max(len(pct(walker, thread_of, 1, 0, seed, number)) for number in range(PROBES))
