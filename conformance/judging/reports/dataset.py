"""The findings of runs as tables: Parquet files at a path or URI, for any engine that reads them.

A run writes one file into each table, named after the question that the run answered. A later run
with the same question replaces the file; other questions have files beside it.
`docs/reference/dataset.md` explains each column.
"""

from __future__ import annotations

from base64 import b85decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from conformance.generate.graph import Numbers
from conformance.judging.backend import ResultRow
from conformance.judging.coverage.marks import numbers_in
from conformance.judging.coverage.statements import places, protocol_places
from conformance.judging.file_systems import find_folder
from conformance.judging.plan import PreparedPlan
from conformance.judging.reports.report import Result
from conformance.judging.rows import numbers_of
from conformance.judging.signatures import by_first_id
from proofs.run import BadUse
from proofs.run.files import line
from proofs.run.progress import CountDisplay

SCHEMA_VERSION: Final = 1

TEXTS: Final = pa.list_(pa.string())
TABLES: Final = {
    "runs": pa.schema(
        {
            "run": pa.string(),
            "schema_version": pa.int32(),
            "system": pa.string(),
            "scope": pa.string(),
            "release": pa.string(),
            "variant": pa.string(),
            "seed": pa.int64(),
            "actors": pa.string(),
            "faults": pa.string(),
            "traces_from": TEXTS,
            "judge": pa.string(),
            "traces": pa.int64(),
            "steps": pa.int64(),
            "diverging_traces": pa.int64(),
            "undecided": pa.int64(),
            "verdict": pa.string(),
            "seconds": pa.float64(),
            "backend": TEXTS,
        }
    ),
    "ranges": pa.schema(
        {
            "run": pa.string(),
            "first": pa.int64(),
            "last": pa.int64(),
            "traces": pa.int64(),
            "steps": pa.int64(),
            "divergences": pa.int64(),
            "transitions": pa.int64(),
        }
    ),
    "coverage": pa.schema(
        {
            "run": pa.string(),
            "kind": pa.string(),
            "name": pa.string(),
            "number": pa.int64(),
            "covered": pa.bool_(),
            "traces": pa.int64(),
            "first_trace": pa.int64(),
        }
    ),
    "findings": pa.schema(
        {
            "run": pa.string(),
            "rule": pa.string(),
            "fields": TEXTS,
            "expected": pa.string(),
            "observed": pa.string(),
            "count": pa.int64(),
            "first_id": pa.int64(),
            "shortest_ids": pa.list_(pa.int64()),
            "steps": pa.int64(),
            "trace": pa.string(),
        }
    ),
}

Rows = Iterator[pa.Table]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A folder of tables in a file system that Arrow knows."""

    files: fs.FileSystem
    folder: str

    @classmethod
    def at(cls, uri: str) -> Self:
        """The dataset at a path, or a URI as in `s3://BUCKET/FOLDER`. Raises BadUse."""
        return cls(*find_folder("--dataset", uri))

    def write(
        self,
        run: str,
        report: Mapping[str, Any],
        times: Mapping[str, Any],
        result: Result,
        units: Iterable[Mapping[str, Any]],
    ) -> None:
        """Write all tables of one run; `units` are those of its journal. Raises BadUse if they
        cannot be written."""
        parts: dict[str, Rows] = {
            "runs": iter([table_of("runs", [row_of_run(run, report, times)])]),
            "ranges": (table_of("ranges", rows) for rows in ranges_of(run, units)),
            "coverage": coverage_of(run, result),
            "findings": iter([table_of("findings", findings_of(run, result))]),
        }
        for name, tables in parts.items():
            self.write_table(name, run, TABLES[name], tables)

    def write_table(
        self, name: str, run: str, columns: pa.Schema, tables: Iterable[pa.Table]
    ) -> None:
        """Write the file of a run into one table. Raises BadUse if it cannot be written."""
        schema = columns.with_metadata({"kafka_eos.schema_version": str(SCHEMA_VERSION)})
        path = f"{self.folder}/{name}/{run}.parquet"
        try:
            self.files.create_dir(f"{self.folder}/{name}")
            with pq.ParquetWriter(path, schema, filesystem=self.files) as writer:
                for table in tables:
                    writer.write_table(table.cast(schema))
        except (pa.ArrowException, OSError) as error:
            raise BadUse(f"--dataset: cannot write {self.folder}: {error}") from error


def table_of(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Builds a table from some rows."""
    return pa.Table.from_pylist(list(rows), TABLES[name])


def row_of_run(run: str, report: Mapping[str, Any], times: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a run: the fields that the report and the times of the run have under the same
    names."""
    own = {
        "run": run,
        "schema_version": SCHEMA_VERSION,
        "release": report["variant"].partition("/")[0],
    }
    return {name: {**times, **report, **own}[name] for name in TABLES["runs"].names}


def ranges_of(run: str, units: Iterable[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The numbers of each range, wave by wave; runs of clients have no ranges."""
    for unit in units:
        if "ranges" in unit:
            row = ResultRow(b85decode(unit["ranges"]), b"")
            yield [{"run": run, **numbers._asdict()} for numbers in numbers_of(row)]


def findings_of(run: str, result: Result) -> Iterator[dict[str, Any]]:
    """A row for each signature, with its shortest trace as judged, before shrinking."""
    for signature, found in by_first_id(result.total.findings):
        shortest = found.shortest[0]
        yield {
            "run": run,
            **signature._asdict(),
            "fields": list(signature.fields),
            "count": found.count,
            "first_id": found.first_id,
            "shortest_ids": [finding["id"] for finding in found.shortest],
            "steps": shortest["steps"],
            "trace": line(shortest["trace"]),
        }


def coverage_of(run: str, result: Result) -> Rows:
    """Rules, branches, error codes, table entries and statements of impl by name; transitions by
    number, with their rules as names."""
    prepared, total = result.prepared, result.total
    kinds = {
        "rule": (prepared.rules_total, total.rules),
        "branch": (prepared.branches_total, total.branches),
        "error_code": (prepared.error_codes_total, total.error_codes),
        "table_entry": (prepared.table_entries_total, total.table_entries),
        "statement": statements_by_name(total.statements),
    }
    yield table_of(
        "coverage",
        (
            {"run": run, "kind": kind, "name": name, "covered": name in covered}
            for kind, (all_names, covered) in kinds.items()
            for name in sorted(all_names)
        ),
    )
    if prepared.transitions_total:
        yield transitions_of(run, prepared, total.transitions)


def statements_by_name(bits: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """All statements of impl's protocol, and the executed ones; empty if impl is not judged."""
    names = {n: str(places()[n]) for n in protocol_places()} if bits else {}
    executed = numbers_in(bits)
    return frozenset(names.values()), frozenset(s for n, s in names.items() if n in executed)


def transitions_of(run: str, prepared: PreparedPlan, transitions: bytes) -> pa.Table:
    """A row for each labelled transition. A run can have millions, so each column is built as a
    whole."""
    width = prepared.transitions_total or 0
    names, rules = prepared.rules_of_transitions()
    bits = np.unpackbits(np.frombuffer(transitions, np.uint8), bitorder="little", count=width)
    traces, first = count_traces(prepared, width)
    return pa.table(
        {
            "run": pa.repeat(run, width),
            "kind": pa.repeat("transition", width),
            "name": pa.DictionaryArray.from_arrays(pa.array(rules), pa.array(names)),
            "number": np.arange(width),
            "covered": bits.astype(bool),
            "traces": traces,
            "first_trace": pa.array(first, mask=traces == 0),
        }
    )


def count_traces(prepared: PreparedPlan, transitions: int) -> tuple[Numbers, Numbers]:
    """For each labelled transition: the number of drawn traces that take it, and the first of them.

    Judging does not count this: each worker would return another array of millions of numbers, and
    walking a trace again takes only a tenth of the time of judging it.
    """
    traces = np.zeros(transitions, np.int64)
    first = np.zeros(transitions, np.int64)
    with CountDisplay("traces counted", prepared.count, 0) as display:
        for number in range(prepared.count):
            _, walked = prepared.walk(number)
            assert walked is not None  # the scope was explored
            taken = np.unique(walked)
            first[taken[traces[taken] == 0]] = number
            traces[taken] += 1
            display(number + 1)
    return traces, first
