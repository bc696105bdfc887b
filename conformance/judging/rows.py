"""The results of ranges as plain data, in which workers return them and the journal keeps them."""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.judging.backend import RangeNumbers, ResultRow, TraceRange
from conformance.judging.findings import Summary
from conformance.judging.guaranteed import ObservedProperties
from conformance.judging.signatures import findings_from, findings_json
from proofs.run.files import line


@dataclass(frozen=True, slots=True)
class Found:
    """The result of some traces: numbers, findings, and properties shown of the guarantees."""

    summary: Summary = field(default_factory=Summary)
    seen: ObservedProperties = field(default_factory=ObservedProperties)

    def merge(self, other: Found) -> Found:
        """Merge two results. Associative and commutative; `Found()` is neutral."""
        return Found(self.summary.merge(other.summary), self.seen.merge(other.seen))

    def beyond(self, known: Found) -> Found:
        """The same without transitions that are in `known`: the part to add to `known`."""
        new = int.from_bytes(self.summary.transitions, "little") & ~int.from_bytes(
            known.summary.transitions, "little"
        )
        bits = new.to_bytes(len(self.summary.transitions), "little")
        return replace(self, summary=replace(self.summary, transitions=bits))


# As plain data


def bits_json(bits: bytes) -> str:
    """Bits, compressed, since most ranges set few of them."""
    return b85encode(zlib.compress(bits)).decode("ascii")


def bits_from(text: str) -> bytes:
    """The bits that `bits_json` wrote."""
    return zlib.decompress(b85decode(text))


def summary_json(summary: Summary) -> dict[str, Any]:
    """A summary; sets become lists in their order."""
    return {
        "traces": summary.traces,
        "steps": summary.steps,
        "transitions": bits_json(summary.transitions),
        "rules": sorted(summary.rules),
        "branches": sorted(summary.branches),
        "error_codes": sorted(summary.error_codes),
        "table_entries": sorted(summary.table_entries),
        "statements": bits_json(summary.statements),
        "findings": findings_json(summary.findings),
        "masked": {mask: list(work) for mask, work in sorted(summary.masked.items())},
    }


def summary_from(value: dict[str, Any]) -> Summary:
    """The summary that `summary_json` wrote."""
    return Summary(
        traces=value["traces"],
        steps=value["steps"],
        transitions=bits_from(value["transitions"]),
        rules=frozenset(value["rules"]),
        branches=frozenset(value["branches"]),
        error_codes=frozenset(value["error_codes"]),
        table_entries=frozenset(value["table_entries"]),
        statements=bits_from(value["statements"]),
        findings=findings_from(value["findings"]),
        masked={mask: (traces, steps) for mask, (traces, steps) in value["masked"].items()},
    )


def properties_json(seen: ObservedProperties) -> dict[str, Any]:
    """The properties that were seen of the guarantees."""
    return {"broken": sorted(seen.broken), "met": sorted(seen.met)}


def properties_from(value: dict[str, Any]) -> ObservedProperties:
    """The properties that `properties_json` wrote."""
    return ObservedProperties(frozenset(value["broken"]), frozenset(value["met"]))


def to_json(found: Found) -> dict[str, Any]:
    """A whole result."""
    return {"summary": summary_json(found.summary), "guarantees": properties_json(found.seen)}


def from_json(value: dict[str, Any]) -> Found:
    """The result that `to_json` wrote."""
    return Found(summary_from(value["summary"]), properties_from(value["guarantees"]))


def pack(found: Found) -> bytes:
    """A whole result, compressed, since findings repeat most of their traces."""
    return zlib.compress(line(to_json(found)).encode("ascii"))


def unpack(body: bytes) -> Found:
    """The result that `pack` wrote."""
    return from_json(json.loads(zlib.decompress(body)))


# As rows


def row_of(part: TraceRange, found: Found) -> ResultRow:
    """The row of one range."""
    summary = found.summary
    covered = summary.transitions_covered
    numbers = RangeNumbers(*part, summary.traces, summary.steps, summary.divergences, covered)
    return ResultRow(pack_numbers([numbers]), pack(found))


def merge_rows(rows: Iterable[ResultRow]) -> ResultRow:
    """Merges all rows into one. They are merged as they arrive, so that few are in memory at a
    time."""
    total, ranges = Found(), list[RangeNumbers]()
    for row in rows:
        total = total.merge(unpack(row.body))
        ranges += numbers_of(row)
    return ResultRow(pack_numbers(sorted(ranges)), pack(total))


def found_in(rows: Iterable[ResultRow]) -> Found:
    """The merged results of all rows, whatever their order."""
    return unpack(merge_rows(rows).body)


def pack_numbers(ranges: Iterable[RangeNumbers]) -> bytes:
    """The numbers of some ranges."""
    return zlib.compress(line([list(numbers) for numbers in ranges]).encode("ascii"))


def numbers_of(row: ResultRow) -> list[RangeNumbers]:
    """The numbers of the row's ranges."""
    return [RangeNumbers(*numbers) for numbers in json.loads(zlib.decompress(row.ranges))]
