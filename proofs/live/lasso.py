"""A fair lasso: a run that goes on for ever and breaks a liveness property.

An engine finds it; the model's own functions confirm it here. Each step is enabled, the loop ends
where it begins, what is pending stays pending, and each assumption is kept. A second replay gives
the story, with the epochs and offsets of a real run, which the canonical form hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from proofs.explore.engines import EnginesDisagree
from proofs.explore.source import instances
from proofs.live.graph import Place, is_event
from proofs.trace.format import Choice, Header, Instance, Trace, TraceStep, label
from proofs.trace.replay import ReplayError, Stepper, World, record
from proofs.trace.story import Story, tell

ROOM = 24
"""The number of batches, epochs and records that the run of a story may have."""


@dataclass(frozen=True, slots=True)
class Lasso:
    """`trace` has the path to the loop and then one round of it, which begins after
    `trace.header.loop` steps.

    Without a round, nothing more happens. `story` tells both parts.
    """

    trace: Trace
    story: Story
    place: Place

    @property
    def stem(self) -> int:
        """The number of steps before the loop."""
        loop = self.trace.header.loop
        assert loop is not None
        return loop


# Played on the source


@dataclass(frozen=True, slots=True)
class Round:
    """The worlds of a loop, without the first one repeated at the end, and its steps."""

    stepper: Stepper
    place: Place
    worlds: tuple[World, ...]
    steps: tuple[Instance, ...]

    def is_event(self, event: Any, world: World, instance: Instance) -> bool:
        """Whether a step from a world is the event."""
        if not is_event(event, instance, self.place):
            return False
        return event.when is None or bool(event.when(self.stepper.k, world, *self.place))

    def happens(self, event: Any) -> bool:
        """Whether the event is a step of the loop."""
        pairs = zip(self.worlds, self.steps, strict=False)
        return any(self.is_event(event, world, step) for world, step in pairs)

    def stays_possible(self, event: Any) -> bool:
        """Whether the event can happen in each world of the loop."""
        every = instances(self.stepper.model, self.stepper.k)
        return all(
            any(
                self.is_event(event, world, (rule, choice))
                and self.stepper.after(rule, choice, world) is not None
                for rule, choice in every
            )
            for world in self.worlds
        )

    def keeps(self, fairness: Any) -> bool:
        """Whether the loop keeps an assumption."""
        if hasattr(fairness, "event"):
            return self.happens(fairness.event) or not self.stays_possible(fairness.event)
        return self.happens(fairness.then) or not self.happens(fairness.often)

    def breaks(self, guarantee: Any) -> bool:
        """Whether the loop violates the property."""
        if hasattr(guarantee, "event"):
            return self.happens(guarantee.event)
        k = self.stepper.k
        pending = {guarantee.pending(k, world, *self.place) for world in self.worlds}
        return len(pending) == 1 and 0 not in pending


def checked(
    stepper: Stepper,
    places: Sequence[Place],
    place: Place,
    worlds: Sequence[World],
    steps: Sequence[Instance],
    guarantee: Any,
    assumptions: Sequence[Any],
) -> None:
    """Confirm a loop from a world back to it. Raises EnginesDisagree."""
    if worlds[0] != worlds[-1]:
        raise EnginesDisagree(f"{guarantee.name}: the loop does not close on the source")
    played = Round(stepper, place, tuple(worlds[: max(1, len(steps))]), tuple(steps))
    if not played.breaks(guarantee):
        raise EnginesDisagree(f"{guarantee.name}: the loop does not break it on the source")
    for assumption in assumptions:
        for other in places:
            if not replace(played, place=other).keeps(assumption.fairness):
                raise EnginesDisagree(f"{guarantee.name}: the loop breaks {assumption.name}")


# The story


class RunStepper(Stepper):
    """Steps of a run, whose worlds are not brought into canonical form."""

    def apply(self, rule: str, choice: Choice, world: World) -> World:
        """Return the world after one rule instance. Raises the model's Disabled."""
        return self.model.rules[rule](self.k, world, *(value for _, value in choice))


def with_room(k: Any, room: int = ROOM) -> Any:
    """Return the configuration with room for logs, epochs and a stream's records to grow without
    being renumbered."""
    bounds, budgets = replace(k.bounds, log=room, max_epoch=room), k.budgets
    if getattr(bounds, "streams", False):
        bounds, budgets = replace(bounds, records=room), replace(budgets, records=room)
    return replace(k, bounds=bounds, budgets=budgets)


def unfolded(
    stepper: RunStepper, steps: Sequence[Instance], worlds: Sequence[World]
) -> tuple[tuple[TraceStep, ...], tuple[World, ...]]:
    """Return the steps with the numbers of the real run, and their worlds.

    Each step leads to a world of the same canonical form. Raises EnginesDisagree if no step of the
    rule does; then the canonical form discards too much.
    """
    normal = stepper.model.canonical_form.normal
    every = instances(stepper.model, stepper.k)
    true_worlds, true_steps = [stepper.initial()], []
    for step, after in zip(steps, worlds[1:], strict=True):
        candidates = (step, *(other for other in every if other[0] == step[0]))
        moved = ((c, stepper.after(*c, true_worlds[-1])) for c in candidates)
        like = next(
            ((c, w) for c, w in moved if w is not None and normal(stepper.k, w) == after), None
        )
        if like is None:
            raise EnginesDisagree(f"{label(*step)}: no such step in the run of the story")
        true_steps.append(TraceStep(*like[0]))
        true_worlds.append(like[1])
    return tuple(true_steps), tuple(true_worlds)


def lasso(
    stepper: Stepper,
    header: Header,
    places: Sequence[Place],
    place: Place,
    stem: Sequence[Instance],
    loop: Sequence[Instance],
    guarantee: Any,
    assumptions: Sequence[Any],
) -> Lasso:
    """Return a lasso that some engine found, as trace and story. Raises EnginesDisagree."""
    marked = replace(header, loop=len(stem))
    steps = (*stem, *loop)
    try:
        trace, worlds = record(stepper, marked, steps)
    except ReplayError as error:
        raise EnginesDisagree(f"{guarantee.name}: {error}") from error
    checked(stepper, places, place, worlds[len(stem) :], loop, guarantee, assumptions)
    run = RunStepper(stepper.model, with_room(stepper.k))
    true_steps, true_worlds = unfolded(run, steps, worlds)
    return Lasso(trace, tell(run.model, marked, true_steps, true_worlds, run), place)
