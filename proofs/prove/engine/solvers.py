"""Two solvers behind one question: is this SMT-LIB text unsatisfiable?"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from proofs.prove.engine.simple_states import NUMBERS_ONLY

TIMEOUT_S = 10
"""Twice what the slowest obligation may take: what takes longer fails, or needs a lemma."""
NAMED = ":named"
"""In a text whose hypotheses have names: which of them are needed is asked too."""


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """What a solver said: proved (unsat), failed (sat) or unknown; and how much of a processor's
    time it took. The `core` has those of the named hypotheses that it needed."""

    solver: str
    result: str
    seconds: float
    core: tuple[str, ...] = ()


Said = tuple[str, tuple[str, ...]]
"""What a solver printed, and the names of the hypotheses in its core."""


def with_z3(text: str, seed: int, timeout_s: float) -> Said:
    """Z3's answer. Z3 reads the text, so both solvers see the same question. The plain solver, but
    where there are numbers only: the tactics of a logic take three quarters of the time of
    questions as small as these."""
    import z3

    solver = z3.SolverFor("LIA") if NUMBERS_ONLY in text else z3.SimpleSolver()
    solver.set("timeout", int(timeout_s * 1000))
    solver.set("random_seed", seed)
    if NAMED in text:
        solver.set("core.minimize", True)
    solver.from_string(text.replace("(check-sat)", ""))
    said = str(solver.check())
    core = solver.unsat_core() if NAMED in text and said == "unsat" else ()
    return said, tuple(sorted(str(name).strip("|") for name in core))


def with_cvc5(text: str, seed: int, timeout_s: float) -> Said:
    """cvc5's answer."""
    import cvc5

    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("tlimit-per", str(int(timeout_s * 1000)))
    solver.setOption("seed", str(seed))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")
    symbols = parser.getSymbolManager()
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said += command.invoke(solver, symbols)
    return said.strip(), ()


@cache
def version_of(solver: str) -> str:
    """The version of a solver, and of the text here that asks it: others may answer otherwise."""
    asks = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    if solver == "z3":
        import z3

        return f"{z3.get_version_string()} {asks}"
    import cvc5

    return f"{cvc5.__version__} {asks}"


SOLVERS: dict[str, Callable[[str, int, float], Said]] = {"z3": with_z3, "cvc5": with_cvc5}

RESULTS = {"unsat": "proved", "sat": "failed"}


def ask(solver: str, text: str, seed: int = 0, timeout_s: float = TIMEOUT_S) -> SolverAnswer:
    """One solver's answer to one obligation; unknown after `timeout_s` of a processor's time."""
    (said, core), used = ask_patiently(
        lambda patience: SOLVERS[solver](text, seed, patience), timeout_s, time.process_time
    )
    return SolverAnswer(solver, RESULTS.get(said, "unknown"), used, core)


def ask_patiently(
    attempt: Callable[[float], Said], timeout_s: float, clock: Callable[[], float]
) -> tuple[Said, float]:
    """What an attempt of so many seconds says, and how much of a processor's time it took, which
    `clock` reads.

    Solvers look at the clock on the wall: where other work has had the processor, so that less than
    half of the time was the solver's, it is asked again with more patience.
    """
    patience = timeout_s
    while True:
        began, since = clock(), time.monotonic()
        said = attempt(patience)
        used, waited = clock() - began, time.monotonic() - since
        if said[0] in RESULTS or waited < patience or used >= timeout_s / 2:
            return said, used
        patience *= 4
