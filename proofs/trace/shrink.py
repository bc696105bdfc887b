"""Shrinking: makes a trace as short as its finding allows, always in the same way.

It uses ddmin (Zeller and Hildebrandt, 2002) over steps. After steps are removed, the rest is played
on the model, and steps that are no longer enabled are left out too, so that each candidate is a run
of the protocol. The caller's predicate says whether a candidate still shows the finding.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from proofs.trace.format import Instance
from proofs.trace.replay import Stepper

Steps = tuple[Instance, ...]
Predicate = Callable[[Steps], bool]


class NothingToShrink(ValueError):
    """The predicate does not hold for the given trace."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The result; `one_minimal` says that no single step can be dropped; `tried` counts
    candidates."""

    steps: Steps
    one_minimal: bool
    tried: int


def enabled_only(stepper: Stepper, steps: Sequence[Instance]) -> Steps:
    """Return the steps that are enabled in their turn, played from the scope's initial world."""
    world = stepper.initial()
    kept: list[Instance] = []
    for rule, choice in steps:
        after = stepper.after(rule, choice, world)
        if after is not None:
            world = after
            kept.append((rule, choice))
    return tuple(kept)


def parts(steps: Steps, count: int) -> list[Steps]:
    """Return the steps in `count` parts of equal length, except that some are one step shorter."""
    bounds = [len(steps) * i // count for i in range(count + 1)]
    return [steps[a:b] for a, b in itertools.pairwise(bounds)]


def candidates(steps: Steps, count: int) -> Iterator[Steps]:
    """Yield each part alone, then all but each part. With two parts both are the same."""
    pieces = parts(steps, count)
    yield from pieces
    if count > 2:
        for left_out in range(count):
            yield tuple(s for i, piece in enumerate(pieces) if i != left_out for s in piece)


class _Shrinker:
    """Remembers what was tried, so that no candidate is tried twice."""

    def __init__(self, stepper: Stepper, predicate: Predicate) -> None:
        self._stepper = stepper
        self._predicate = predicate
        self.known: dict[Steps, bool] = {}

    def shows(self, steps: Steps) -> Steps | None:
        """Return the candidate's enabled steps if they show the finding."""
        runnable = enabled_only(self._stepper, steps)
        if runnable not in self.known:
            self.known[runnable] = self._predicate(runnable)
        return runnable if self.known[runnable] else None

    def first_smaller(self, steps: Steps, tried: Iterator[Steps]) -> Steps | None:
        """Return the first candidate that shows the finding in fewer steps."""
        shown = (self.shows(candidate) for candidate in tried)
        return next(
            (found for found in shown if found is not None and len(found) < len(steps)), None
        )

    def ddmin(self, steps: Steps) -> Steps:
        """Return a shorter sequence that shows the finding; dropping any one part of it does
        not."""
        count = 2
        while len(steps) >= 2:
            smaller = self.first_smaller(steps, candidates(steps, min(count, len(steps))))
            if smaller is not None:
                steps, count = smaller, max(count - 1, 2)
            elif count >= len(steps):
                break
            else:
                count = min(count * 2, len(steps))
        return steps


def without_each(steps: Steps) -> Iterator[Steps]:
    """Yield the steps with each one dropped in turn."""
    return (steps[:i] + steps[i + 1 :] for i in range(len(steps)))


def shrink(stepper: Stepper, steps: Sequence[Instance], predicate: Predicate) -> Shrunk:
    """Return the shortest trace that ddmin finds. Raises NothingToShrink.

    `predicate` must be a function of the steps alone; then the result is one too.
    """
    shrinker = _Shrinker(stepper, predicate)
    begin = shrinker.shows(tuple(steps))
    if begin is None:
        raise NothingToShrink("the trace does not show what it is shrunk for; replay it first")
    found = shrinker.ddmin(begin)
    minimal = shrinker.first_smaller(found, without_each(found)) is None
    return Shrunk(found, minimal, len(shrinker.known))
