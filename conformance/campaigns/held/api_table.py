"""The table of APIs and their cases, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from conformance.campaigns.held.comparison import ApiComparison, FieldDifference

_COLUMNS: Final = ("cases", "equal", "named", "unnamed")


def lines_of(comparisons: Sequence[ApiComparison], *, with_named: bool = False) -> Iterator[str]:
    """A row for each API, then the differences without a name, and the names without a
    difference."""
    yield _row("API", _COLUMNS)
    rows = [_numbers(comparison) for comparison in comparisons]
    for comparison, numbers in zip(comparisons, rows, strict=True):
        yield _row(comparison.api_key.name, numbers)
    yield _row("all", [sum(column) for column in zip(*rows, strict=True)])
    if with_named:
        yield from _reasons(comparisons)
    for comparison in comparisons:
        yield from _wrong(comparison)


def _numbers(comparison: ApiComparison) -> tuple[int, int, int, int]:
    unnamed = comparison.without_name
    named = comparison.cases - comparison.equal - unnamed
    return comparison.cases, comparison.equal, named, unnamed


def _row(name: str, cells: Iterable[object]) -> str:
    return f"{name:<32}" + "".join(f"{cell:>9}" for cell in cells)


def _reasons(comparisons: Iterable[ApiComparison]) -> Iterator[str]:
    """The number of cases, and the APIs, for each reason."""
    found: dict[str, Counter[str]] = {}
    for comparison in comparisons:
        cases = {(d.case, d.version, name.reason) for d, name in comparison.named}
        for _, _, reason in cases:
            found.setdefault(reason, Counter())[comparison.api_key.name] += 1
    for reason, apis in found.items():
        where = ", ".join(f"{name} {count}" for name, count in apis.items())
        yield f"\n{reason}\n  {where}"


def _wrong(comparison: ApiComparison) -> Iterator[str]:
    """The differences without a name; neighbouring versions share a line."""
    name = comparison.api_key.name
    ordered = sorted(comparison.unnamed, key=_group)
    for _, group in groupby(ordered, key=_group):
        first, *others = group
        more = f" (and {len(others)} more versions)" if others else ""
        yield f"{name}: {first}{more}"
    for unused in comparison.unused:
        yield f"{name}: no difference is named by {unused.cases} {unused.fields}: {unused.reason}"


def _group(difference: FieldDifference) -> tuple[str, ...]:
    return difference.case, difference.path, repr(difference.ours), repr(difference.theirs)
