"""The message about a place outside the subset of Python that the model is written in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """One place outside the subset, and the cure. `function` is "" outside of functions."""

    file: str
    line: int
    column: int
    function: str
    problem: str
    cure: str

    def __str__(self) -> str:
        where = f"in {self.function}: " if self.function else ""
        return f"{self.file}:{self.line}:{self.column}: {where}{self.problem}; {self.cure}"
