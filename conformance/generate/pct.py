"""PCT, probabilistic concurrency testing: finds each bug of a small depth with a known probability.

1. Each thread (`threads.py`) has a distinct random priority. The thread with the highest priority
   among those that have an enabled event moves.
2. Priorities change at depth - 1 steps, drawn from the first `steps`. At the i-th of them the
   thread that would move falls below all threads that have not fallen, to the i-th place from
   below.
3. A thread with several enabled events draws one of them. A thread whose event leads back to a
   state of this trace has made no progress, and falls below all others.
4. A trace ends where no event is enabled, after MAX_STEPS, or when as many events in a row as there
   are threads have made no progress. It is a function of seed and trace id.

Theory of operation: a bug has depth d if there are d pairs of events such that every trace that has
each pair in its order shows the bug. With n threads, a trace shows such a bug with probability at
least 1 / (n * steps ** (d - 1)), if the bug needs no more than `steps` steps. One pair is in order
if the thread of its later event starts with the lowest of the n priorities; each other pair is in
order if a priority change falls just before its later event. Choices within threads are drawn
independently: a bug that needs particular choices has the probability of its order times the
probability of those choices. Source: S. Burckhardt, P. Kothari, M. Musuvathi, S. Nagarakatte, "A
Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010. In that paper,
too, the priority of a spinning thread falls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from conformance.generate.hunt import MAX_STEPS, Enabled, HuntWalker

DEPTH: Final = 3
"""The default depth of the bugs to find."""
PROBES: Final = 256
"""The number of probe traces; the longest of them says among how many steps priorities change."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The random choices made before a trace begins. `order` has the threads, the highest first.
    Before each step in `changes`, counted from 0, the thread that would move falls."""

    order: tuple[int, ...]
    changes: tuple[int, ...]

    def priorities(self) -> dict[int, int]:
        """The initial priority of each thread, above the places to which threads fall."""
        highest = len(self.changes) + len(self.order)
        return {thread: highest - place for place, thread in enumerate(self.order)}

    def places(self, step: int) -> list[int]:
        """The places to which threads fall before this step."""
        return [place for place, change in enumerate(self.changes, 1) if change == step]


def drawn(threads: int, steps: int, depth: int, draw: Callable[[], float]) -> Schedule:
    """Draws a schedule, each as likely as any other; `draw` gives numbers from 0 to 1."""
    order = sorted(range(threads), key=lambda _: draw())
    return Schedule(tuple(order), tuple(int(draw() * steps) for _ in range(depth - 1)))


def followed(
    walker: HuntWalker, thread_of: Sequence[int], schedule: Schedule, draw: Callable[[], float]
) -> list[tuple[int, int]]:
    """(rule instance, transition) for each step of the trace that follows a schedule."""
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
    """The trace of an id, in the form that `hunt` gives. `depth` is the depth of the bugs to find,
    `steps` the most steps that they need; `thread_of` has the thread of each rule instance."""
    draw = random.Random(f"pct/{seed}/{number}").random
    schedule = drawn(max(thread_of, default=-1) + 1, steps, depth, draw)
    return followed(walker, thread_of, schedule, draw)


def longest(walker: HuntWalker, thread_of: Sequence[int], seed: int) -> int:
    """The length of the longest of PROBES traces in which no priority changes."""
    return max(len(pct(walker, thread_of, 1, 0, seed, number)) for number in range(PROBES))
