"""Findings grouped by signature: the rule that shows a difference, the fields, and their values.

All diverging traces are counted; of each signature the shortest ones are kept. If one rule differs
in the same fields with very many values, some of these signatures are kept, and the others are
counted together.

The kept findings are a function of the set of findings alone: VALUES and KEPT select by an order of
the findings that does not depend on which worker found them. Therefore `merge_findings` is
associative and commutative, and any grouping of the traces gives the same result.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from proofs.run.files import line

Finding = dict[str, Any]
"""A divergence as plain data: see `conformance.judging.findings.finding_of`."""

KEPT: Final = 3
"""The number of findings kept of each signature: those of the shortest traces."""
VALUES: Final = 8
"""The number of signatures kept of a rule and its fields; all others are counted as one without
values. Values are few, unless a system makes up numbers or texts of its own."""

INDEX: Final = re.compile(r"\[\d+\]")


class Signature(NamedTuple):
    """The common part of findings: `rule` differs in `fields`.

    Fields are paths without indices, as in `leader.log.base_offset`, sorted. `expected` and
    `observed` are canonical JSON: an object with the values of each field. Both are None in the
    signature that stands for all values of a rule and its fields that are not kept.
    """

    rule: str
    fields: tuple[str, ...]
    expected: str | None
    observed: str | None

    @property
    def without_values(self) -> Signature:
        """The signature that stands for all values that are not kept."""
        return Signature(self.rule, self.fields, None, None)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The findings of one signature: their number, the lowest trace id, and the shortest traces."""

    count: int
    first_id: int
    shortest: tuple[Finding, ...]

    def merge(self, other: Occurrences) -> Occurrences:
        """Merge two groups."""
        return Occurrences(
            self.count + other.count,
            min(self.first_id, other.first_id),
            shortest_of((*self.shortest, *other.shortest)),
        )


Findings = Mapping[Signature, Occurrences]


def shortest_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings to keep, out of some with the same signature."""
    return tuple(sorted(findings, key=lambda f: (f["steps"], f["id"]))[:KEPT])


# Signatures


def fields_of(finding: Finding) -> tuple[str, ...]:
    """The paths at which a finding differs, without indices, sorted and each once."""
    paths = finding["expected"].keys() | finding["observed"].keys()
    return tuple(sorted({INDEX.sub("", path) for path in paths}))


def signature_of(finding: Finding) -> Signature:
    """The signature of one finding."""
    expected, observed = (values_of(finding[side]) for side in ("expected", "observed"))
    return Signature(finding["rule"], fields_of(finding), expected, observed)


def values_of(differing: Mapping[str, Any]) -> str:
    """The values of each field: several if places differ that are equal but for their indices."""
    values: dict[str, set[str]] = defaultdict(set)
    for path, value in differing.items():
        values[INDEX.sub("", path)].add(line(value))
    return line({field: sorted(texts) for field, texts in values.items()})


# Counting


def count_findings(findings: Iterable[Finding]) -> Findings:
    """Findings by their signatures."""
    found: dict[Signature, list[Finding]] = defaultdict(list)
    for finding in findings:
        found[signature_of(finding)].append(finding)
    return limit_values(
        {
            signature: Occurrences(
                len(same), min(finding["id"] for finding in same), shortest_of(same)
            )
            for signature, same in found.items()
        }
    )


def merge_findings(*parts: Findings) -> Findings:
    """Merge all parts; no finding may be in two of them."""
    return limit_values(add_up(pair for part in parts for pair in part.items()))


def add_up(counted: Iterable[tuple[Signature, Occurrences]]) -> dict[Signature, Occurrences]:
    """Occurrences of the same signature merged."""
    total: dict[Signature, Occurrences] = {}
    for signature, occurrences in counted:
        known = total.get(signature)
        total[signature] = occurrences if known is None else known.merge(occurrences)
    return total


def limit_values(findings: Findings) -> Findings:
    """Keeps the lowest VALUES signatures of each rule and its fields; merges the others without
    values.

    A signature among the lowest of a whole is among the lowest of each part that has it. So no part
    has ever dropped it, and its count is exact.
    """
    similar: dict[Signature, list[Signature]] = defaultdict(list)
    for signature in findings:
        if signature.expected is not None:
            similar[signature.without_values].append(signature)
    dropped = {s for signatures in similar.values() for s in sorted(signatures)[VALUES:]}
    if not dropped:
        return findings
    return add_up((s.without_values if s in dropped else s, o) for s, o in findings.items())


def by_first_id(findings: Findings) -> Iterator[tuple[Signature, Occurrences]]:
    """The findings in the order in which a run over ascending trace ids meets them first."""
    return iter(sorted(findings.items(), key=lambda pair: (pair[1].first_id, str(pair[0]))))


# As plain data


def findings_json(findings: Findings) -> list[dict[str, Any]]:
    """All findings as plain data; equal findings give equal data."""
    return [
        signature._asdict()
        | {"count": found.count, "first_id": found.first_id, "shortest": list(found.shortest)}
        for signature, found in by_first_id(findings)
    ]


def findings_from(rows: Iterable[Mapping[str, Any]]) -> Findings:
    """The findings that `findings_json` wrote."""
    return {
        Signature(row["rule"], tuple(row["fields"]), row["expected"], row["observed"]): Occurrences(
            row["count"], row["first_id"], tuple(row["shortest"])
        )
        for row in rows
    }
