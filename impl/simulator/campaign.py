"""Many worlds, one seed after the other, each with a crash of its client at another step.

1. World `r` has seed `seed + r`, and its first client crashes before step `r mod steps`, so that
   each step of a client without faults is covered.
2. The first violating world is run again with its log.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TextIO

from impl.simulator.consume_transform_produce import Program, WorldOutcome, simulate
from impl.simulator.faults import Faults

KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "zombies": {"is_zombie": True},
    "connections": {"break_rate": 0.02},
    "nodes": {"stop_every_ms": 300, "coordinator_lag_ms": 100, "coordinator_load_ms": 100},
}
"""What each kind of fault adds; the step of a crash differs by world."""

REPORT_EVERY_S: Final = 10.0
TERMINAL_EVERY_S: Final = 0.2


def faults_for(kinds: Collection[str]) -> Faults:
    """The faults of all worlds, without the step of the crash."""
    faults = Faults()
    for kind, changes in KINDS.items():
        if kind in kinds:
            faults = replace(faults, **changes)
    return faults


def count_steps(seed: int, program: Program) -> int:
    """The number of steps of a client without faults."""
    return simulate(seed, Faults(), program).steps


class CampaignProgress:
    """Prints progress: in place on a terminal, else a line every ten seconds."""

    def __init__(self, stream: TextIO, runs: int) -> None:
        self._stream = stream
        self._runs = runs
        self._is_terminal = stream.isatty()
        self._began_s = self._printed_s = time.monotonic()

    def update(self, runs: int) -> None:
        """Report the number of finished worlds."""
        now_s = time.monotonic()
        every_s = TERMINAL_EVERY_S if self._is_terminal else REPORT_EVERY_S
        if now_s - self._printed_s < every_s and not (self._is_terminal and runs == self._runs):
            return
        self._printed_s = now_s
        rate = runs / max(now_s - self._began_s, 1e-9)
        left_s = (self._runs - runs) / rate
        line = f"{runs}/{self._runs} worlds, {rate:.1f}/s, {left_s:.0f} s left"
        end = "\n" if not self._is_terminal or runs == self._runs else "\r"
        print(line, end=end, file=self._stream, flush=True)


@dataclass(slots=True)
class Results:
    """The results of all worlds. `crash_steps` are those at which a client crashed."""

    totals: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    crash_steps: set[int] = field(default_factory=set)
    wrong: WorldOutcome | None = None
    unfinished: WorldOutcome | None = None

    def add(self, outcome: WorldOutcome) -> None:
        """Add a world."""
        for name in ("crashed", "clients", "out_of_order", "aborted"):
            self.totals[name] += int(getattr(outcome, name))
        self.totals["lost"] += len(outcome.lost)
        self.totals["duplicated"] += len(outcome.duplicated)
        self.totals["wrong_worlds"] += outcome.is_at_rest and not outcome.is_exactly_once
        self.totals["restless_worlds"] += not outcome.is_at_rest
        self.failures.update(failure.split(":")[0] for failure in outcome.failures)
        if outcome.crashed:
            self.crash_steps.add(outcome.crash_step)
        if not outcome.is_at_rest:
            self.unfinished = self.unfinished or outcome
        elif not outcome.is_exactly_once:
            self.wrong = self.wrong or outcome


@dataclass(frozen=True, slots=True)
class Campaign:
    """`runs` worlds from `seed` on."""

    program: Program
    faults: Faults
    crashes: bool
    seed: int
    runs: int
    steps: int

    def run(self, progress: CampaignProgress) -> Results:
        """Run all worlds, and the first violating one again with its log."""
        results = Results()
        for number in range(self.runs):
            results.add(self._world(number))
            progress.update(number + 1)
        if results.wrong is not None:
            results.wrong = self._world(results.wrong.seed - self.seed, keeps_log=True)
        elif results.unfinished is not None:
            results.unfinished = self._world(results.unfinished.seed - self.seed, keeps_log=True)
        return results

    def _world(self, number: int, *, keeps_log: bool = False) -> WorldOutcome:
        crash_step = number % self.steps if self.crashes else -1
        faults = replace(self.faults, crash_step=crash_step)
        return simulate(self.seed + number, faults, self.program, keeps_log=keeps_log)
