"""The statements of impl's protocol that all scopes together execute, and reasons for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from conformance.judging.coverage.marks import numbers_in
from conformance.judging.coverage.statements import places, protocol_places, reasons_in

UNREACHED: Final = reasons_in("unreached.toml")
"""Functions with a statement that no scope executes, each with the reason why none needs to."""


@dataclass(frozen=True, slots=True)
class FunctionCoverage:
    """A function with lines that no scope executes; `why` is "" while nobody has given a reason."""

    name: str
    lines: tuple[int, ...]
    statements: int
    why: str

    def to_json(self) -> dict[str, Any]:
        """The row of a report."""
        return {
            "function": self.name,
            "lines": list(self.lines),
            "statements": self.statements,
            "why": self.why,
        }


def count_statements(bits: bytes) -> tuple[int, int, list[str]]:
    """The numbers of executed and of all statements of the protocol, and the functions with
    statements that are not executed. Empty if `bits` is empty: then impl is not judged."""
    if not bits:
        return 0, 0, []
    executed, total = numbers_in(bits), protocol_places()
    rows = sorted(unreached_functions(executed), key=lambda row: row.name)
    missing = [f"{row.name}: lines {', '.join(map(str, row.lines))}" for row in rows]
    return len(executed & total.keys()), len(total), missing


def unreached_functions(executed: Collection[int]) -> list[FunctionCoverage]:
    """The functions of the protocol with unexecuted lines, those with the most lines first;
    `executed` has numbers of places."""
    all_places, found = places(), dict[str, list[int]]()
    total = Counter[str]()
    for number, function in protocol_places().items():
        name = f"{all_places[number].module}.{function}"
        total[name] += 1
        if number not in executed:
            found.setdefault(name, []).append(all_places[number].line)
    rows = [
        FunctionCoverage(name, tuple(lines), total[name], UNREACHED.get(name, ""))
        for name, lines in found.items()
    ]
    return sorted(rows, key=lambda row: (-len(row.lines), row.name))


def stale_reasons(unreached: Collection[str]) -> list[str]:
    """The functions that have a reason although they are not among the unreached."""
    return sorted(UNREACHED.keys() - set(unreached))
