"""The same proof with other seeds: how much the solvers' time depends on luck.

Each answer is kept as a line of a file as it comes, so that a long run which was interrupted goes
on where it stood. A row begins with its line break: one that was cut short spoils no other.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from proofs.prove.solvers import SolverAnswer

UNSTABLE = 5
"""How many times its median a query may take with another seed."""
NOTICED_S = 1.0
"""Queries that are always faster than this are not looked at."""


class Answers:
    """Answers by seed, solver and the obligation's text; kept in a file, if there is one."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.known: dict[str, SolverAnswer] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                if line.endswith("}"):
                    row = json.loads(line)
                    answer = SolverAnswer(row["solver"], row["result"], row["seconds"])
                    self.known[row["key"]] = answer

    def find(self, seed: int, solver: str, text: str) -> SolverAnswer | None:
        """The answer, if it is known."""
        return self.known.get(key(seed, solver, text))

    def keep(self, seed: int, text: str, answer: SolverAnswer) -> None:
        """One more answer."""
        name = key(seed, answer.solver, text)
        self.known[name] = answer
        if self.file is None:
            return
        row = {
            "key": name,
            "solver": answer.solver,
            "result": answer.result,
            "seconds": round(answer.seconds, 4),
        }
        with self.file.open("a", encoding="utf-8") as lines:
            lines.write(f"\n{json.dumps(row)}")


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
