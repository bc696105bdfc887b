"""Lockstep: a system and the model take the same steps, and must agree after each.

1. Each step is an event of the model, as `model` has it: `conformance.judging.lockstep` makes code
   of its text in which each rule of an actor is taken by both sides.
2. A step compares the actors that move, their whole state, and all that they send. Every
   CHECK_ALL_EVERY steps and at the end of a trace all actors are compared, moved or not, and
   clients get the chance to send where the model's must not.
3. A message on its way is the model's, with what the system made of it.
4. Actors that the system does not have are played by the model.
5. A trace must be one that the model allows; guards of the world are not looked at again.

A first difference ends a trace: what comes after it would only repeat it.
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
        """Which step it is, from 1; 0 if the beginning differs already."""
        return len(self.trace)

    @property
    def instance(self) -> Instance:
        """The rule instance that shows it."""
        return self.trace[-1] if self.trace else ("initial", ())


@dataclass(frozen=True, slots=True)
class TraceResult:
    """`steps` that were executed, the differing one included; `seen` has a bit for each point
    of the model's text that they covered (`ModelTables.points`). `masked`: what is behind masks."""

    steps: int
    divergence: Divergence | None
    seen: int
    masked: MaskedWork = field(default_factory=dict)


class Differs(AssertionError):
    """System and model differ in a step: what was `expected` and `observed`, by field path."""

    def __init__(self, found: Sequence[tuple[str, Json, Json]]) -> None:
        super().__init__("; ".join(f"{path}: {a!r} expected, {b!r} seen" for path, a, b in found))
        self.expected = {path: expected for path, expected, _ in found}
        self.observed = {path: observed for path, _, observed in found}


Item = tuple[InternedMessage, Payload]
"""A message on its way, as the model has it and as the system made it."""
A = TypeVar("A")
Mover = Callable[[A, tuple[Any, ...], tuple[Any, ...]], tuple[A, tuple[Item, ...]]]
"""What an actor becomes with (rule, the model's inputs) and the system's inputs, and sends."""


class JudgeStep(NamedTuple):
    """A rule instance, and what the judge does about it."""

    instance: Instance
    event: Callable[[], None]


class Lockstep(ABC):
    """What judges have in common: traces, step by step."""

    def __init__(self, tables: ModelTables) -> None:
        self.tables: Any = tables
        self.masks = Masks()
        self._masked = MaskedTrace(self.masks)
        self._at = (0, "initial")
        self._seen = 0
        self._memoised = False

    @abstractmethod
    def move(self, instance: Instance) -> JudgeStep:
        """What `follow` needs to know of a step."""

    @abstractmethod
    def begin(self) -> None:
        """Model and system at the beginning of the scope. Raises Differs."""

    @abstractmethod
    def check_all(self) -> None:
        """Compare all actors. Raises Differs."""

    @abstractmethod
    def check_restraint(self) -> None:
        """Each client has the chance to send where it must not. Raises Differs."""

    # ---- traces

    def judge(self, steps: Steps) -> TraceResult:
        """Execute a trace until its end or the first difference. What `check_restraint` shows in
        the middle of a longer trace, it shows at the end of this one. Raises NotAllowed."""
        return self.follow([self.move(instance) for instance in steps], checks=(len(steps),))

    def follow(
        self, moves: Sequence[JudgeStep], memoised: bool = False, checks: Sequence[int] = ()
    ) -> TraceResult:
        """As `judge`, for a trace whose events are looked up. `memoised`: what an actor did after
        the same inputs may be looked up, too; else it does all anew, and `check_restraint` runs
        behind so many steps, in the middle and at the end unless said. Raises NotAllowed."""
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
        """The steps, each noted when it begins: masks are about rules."""
        self._masked, self._at = MaskedTrace(self.masks), (0, "initial")

        def tracked(number: int, move: JudgeStep) -> Callable[[], None]:
            def event() -> None:
                self._at = number, move.instance[0]
                move.event()

            return event

        return [JudgeStep(m.instance, tracked(n, m)) for n, m in enumerate(moves, start=1)]

    def differ(self, found: Iterable[tuple[str, Json, Json]]) -> None:
        """Raises Differs, unless masks hide all of it."""
        rows = list(found)
        if self.masks:
            step, rule = self._at
            rows = self._masked.visible(rule, step, rows)
        if rows:
            raise Differs(rows)

    def step(self, instance: Instance) -> None:
        """One rule instance, on both sides. Raises Differs."""
        self.move(instance).event()

    def _react(self, method: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """What the system's actor does; that it fails is a difference, too."""
        try:
            return method(*given)
        except Exception as error:
            raise failed(error) from error


def failed(error: Exception) -> Differs:
    """What the system's actor did not do: it raised."""
    return Differs([("raised", None, f"{type(error).__name__}: {error}")])
