"""The same proof with other seeds: how much the solvers' time depends on luck.

Each answer is a unit of work in the journal of the run, named by seed, solver and obligation.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Mapping, Sequence

from proofs.prove.solvers import SolverAnswer
from proofs.run.journal import Journal

UNSTABLE = 5
"""How many times its median a query may take with another seed."""
NOTICED_S = 1.0
"""Queries that are always faster than this are not looked at."""


def kept_answer(journal: Journal, seed: int, solver: str, text: str) -> SolverAnswer | None:
    """The answer that a solver gave to an obligation's text before, with this seed."""
    row = journal.get(key(seed, solver, text))
    if row is None:
        return None
    return SolverAnswer(row["solver"], row["result"], row["seconds"], tuple(row["core"]))


def keep_answer(journal: Journal, seed: int, text: str, answer: SolverAnswer) -> None:
    """Enter an answer."""
    row = {
        "solver": answer.solver,
        "result": answer.result,
        "seconds": round(answer.seconds, 4),
        "core": list(answer.core),
    }
    journal.add(key(seed, answer.solver, text), row)


def key(seed: int, solver: str, text: str) -> str:
    """What an answer is the answer to."""
    return f"{seed} {solver} {hashlib.sha256(text.encode()).hexdigest()[:32]}"


def ratio(seconds: Sequence[float]) -> float:
    """The worst by the median."""
    return max(seconds) / max(statistics.median(seconds), 1e-9)


def unstable(times: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, float]]:
    """Queries whose time depends on the seed: median and worst, in seconds, by name."""
    return {
        name: (round(statistics.median(seconds), 3), round(max(seconds), 3))
        for name, seconds in times.items()
        if max(seconds) >= NOTICED_S and ratio(seconds) > UNSTABLE
    }
