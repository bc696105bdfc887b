"""Lockstep: a system and the model take the same steps, and must agree after each.

1. Each step is an event of the model, as `model` has it. `conformance.judging.lockstep` compiles
   the event's text to code in which both sides execute each rule of an actor.
2. After a step, the actors that moved are compared: their whole state, and all messages that they
   sent. Every CHECK_ALL_EVERY steps, and at the end of a trace, all actors are compared, and
   clients get the chance to send where the model's client must not.
3. A message under way is the model's, together with the system's payload for it.
4. Actors that the system does not have are played by the model.
5. A trace must be one that the model allows; guards of the world are not evaluated again.

A trace ends at its first difference: later differences would only follow from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from conformance.judging.masks import MaskedTrace, MaskedWork, Masks
from conformance.judging.system import (
    EndOfComparison,
    Payload,
)
from conformance.judging.tables import InternedMessage, ModelTables
from model.language import Disabled
from proofs.trace.format import Instance as Instance
from proofs.trace.format import label

Json = Any
Steps = tuple[Instance, ...]
"""A trace: rule instances, in order."""

CHECK_ALL_EVERY = 256


class NotAllowed(ValueError):
    """A trace that the model does not allow; `step` counts from 1."""

    def __init__(self, step: int, instance: Instance) -> None:
        super().__init__(f"step {step}, {label(*instance)}: the model does not allow it here")
        self.step = step


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of a trace. `trace` ends with the step that shows it.

    `expected` and `observed` have the fields that differ, by path.
    """

    trace: Steps
    expected: dict[str, Json]
    observed: dict[str, Json]

    @property
    def step(self) -> int:
        """The number of the step that differs, from 1; 0 if the initial states differ already."""
        return len(self.trace)

    @property
    def instance(self) -> Instance:
        """The rule instance that shows the difference."""
        return self.trace[-1] if self.trace else ("initial", ())


@dataclass(frozen=True, slots=True)
class TraceResult:
    """`steps` counts executed steps, including the differing one. `seen` has a bit for each point
    of the model's text that they covered (`ModelTables.points`). `masked` describes what lies
    behind masks."""

    steps: int
    divergence: Divergence | None
    seen: int
    masked: MaskedWork = field(default_factory=dict)


class Differs(AssertionError):
    """System and model differ in a step: the `expected` and `observed` values, by field path."""

    def __init__(self, found: Sequence[tuple[str, Json, Json]]) -> None:
        super().__init__("; ".join(f"{path}: {a!r} expected, {b!r} seen" for path, a, b in found))
        self.expected = {path: expected for path, expected, _ in found}
        self.observed = {path: observed for path, _, observed in found}


Item = tuple[InternedMessage, Payload]
"""A message under way: the model's value, and the system's payload."""
A = TypeVar("A")
Mover = Callable[[A, tuple[Any, ...], tuple[Any, ...]], tuple[A, tuple[Item, ...]]]
"""Takes (rule, the model's inputs) and the system's inputs; returns an actor's new state and
messages."""


class JudgeStep(NamedTuple):
    """A rule instance, and what the judge does for it."""

    instance: Instance
    event: Callable[[], None]


class Lockstep(ABC):
    """The common part of judges: executes traces step by step."""

    def __init__(self, tables: ModelTables) -> None:
        self.tables: Any = tables
        self.masks = Masks()
        self._masked = MaskedTrace(self.masks)
        self._at = (0, "initial")
        self._seen = 0
        self._memoised = False

    @abstractmethod
    def move(self, instance: Instance) -> JudgeStep:
        """The data that `follow` needs for a step."""

    @abstractmethod
    def begin(self) -> None:
        """Put model and system into the initial state of the scope. Raises Differs."""

    @abstractmethod
    def check_all(self) -> None:
        """Compare all actors. Raises Differs."""

    @abstractmethod
    def check_restraint(self) -> None:
        """Give each client the chance to send where it must not. Raises Differs."""

    # ---- traces

    def judge(self, steps: Steps) -> TraceResult:
        """Execute a trace until its end or the first difference. `check_restraint` runs at the end
        only: what it shows in the middle of a longer trace, it shows at the end of a shorter one.
        Raises NotAllowed."""
        return self.follow([self.move(instance) for instance in steps], checks=(len(steps),))

    def follow(
        self, moves: Sequence[JudgeStep], memoised: bool = False, checks: Sequence[int] = ()
    ) -> TraceResult:
        """As `judge`, for a trace whose events are looked up. If `memoised`, the result of an
        actor's step may be looked up by its inputs, too. Otherwise each actor computes it anew, and
        `check_restraint` runs in the middle and at the end, or after the given numbers of steps.
        Raises NotAllowed."""
        done = 0
        cuts = (0, *(checks or (len(moves) // 2, len(moves))))
        self._memoised = memoised
        if self.masks:
            moves = self._tracked(moves)
        try:
            self.begin()
            for first, last in pairwise(cuts):
                for _, event in moves[first:last]:
                    done += 1
                    event()
                    if not done % CHECK_ALL_EVERY:
                        self.check_all()
                if not memoised:
                    self.check_restraint()
            self.check_all()
        except Differs as differs:
            trace = tuple([move.instance for move in moves[:done]])
            found = Divergence(trace, differs.expected, differs.observed)
            return TraceResult(done, found, self._seen, self._masked.behind(done))
        except EndOfComparison:
            return TraceResult(done - 1, None, self._seen, self._masked.behind(done - 1))
        except (IndexError, Disabled) as error:
            raise NotAllowed(done, moves[done - 1].instance) from error
        return TraceResult(done, None, self._seen, self._masked.behind(done))

    def _tracked(self, moves: Sequence[JudgeStep]) -> list[JudgeStep]:
        """The steps, each noted when it begins, because masks name rules."""
        self._masked, self._at = MaskedTrace(self.masks), (0, "initial")

        def tracked(number: int, move: JudgeStep) -> Callable[[], None]:
            def event() -> None:
                self._at = number, move.instance[0]
                move.event()

            return event

        return [JudgeStep(m.instance, tracked(n, m)) for n, m in enumerate(moves, start=1)]

    def differ(self, found: Iterable[tuple[str, Json, Json]]) -> None:
        """Raises Differs unless masks hide all of the difference."""
        rows = list(found)
        if self.masks:
            step, rule = self._at
            rows = self._masked.visible(rule, step, rows)
        if rows:
            raise Differs(rows)

    def step(self, instance: Instance) -> None:
        """Execute one rule instance on both sides. Raises Differs."""
        self.move(instance).event()

    def _react(self, method: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """The reaction of the system's actor; an exception in it counts as a difference, too."""
        try:
            return method(*given)
        except Exception as error:
            raise failed(error) from error


def failed(error: Exception) -> Differs:
    """The difference that stands for an exception in the system's actor."""
    return Differs([("raised", None, f"{type(error).__name__}: {error}")])
