"""Runs as tables: what the reports say, in Parquet that Spark reads."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conformance.__main__ import main
from conformance.judging.plan import PreparedPlan
from conformance.judging.reports.dataset import SCHEMA_VERSION, TABLES
from proofs.run.files import REPOSITORY

pytestmark = pytest.mark.xdist_group("spark")

PAGE = (REPOSITORY / "docs/reference/dataset.md").read_text(encoding="utf-8")
DIFFERS = (
    *("run", "--scope", "idempotent-wrap", "--variant", "sequence_order=raw"),
    *("--traces", "40", "--backend", "processes", "--partitions", "1"),
)


@pytest.fixture(scope="module")
def dataset(small, whole_run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one of which differs; the other was finished before it was asked for tables."""
    folder = tmp_path_factory.mktemp("dataset")
    given = ("--dataset", str(folder / "tables"))
    assert main([*small, "--out", str(whole_run.out), *given]) == 0
    assert main([*DIFFERS, "--out", str(folder / "differs"), *given]) == 1
    return folder


def rows(dataset: Path, table: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(dataset / "tables" / table).to_pylist()
    return found


def test_runs_are_what_their_reports_say(dataset, whole_run):
    differs = json.loads((dataset / "differs" / "report.json").read_text())
    by_scope = {row["scope"]: row for row in rows(dataset, "runs")}
    for report in (whole_run.report, differs):
        row = by_scope[report["scope"]]
        for name in ("verdict", "traces", "steps", "diverging_traces", "variant", "traces_from"):
            assert row[name] == report[name]
        assert row["release"] == "4.3.1"
        assert row["schema_version"] == SCHEMA_VERSION


def test_ranges_and_findings_add_up_to_their_run(dataset):
    for run in rows(dataset, "runs"):
        ranges = [row for row in rows(dataset, "ranges") if row["run"] == run["run"]]
        findings = [row for row in rows(dataset, "findings") if row["run"] == run["run"]]
        for name in ("traces", "steps"):
            assert sum(row[name] for row in ranges) == run[name]
        ends = [row["last"] for row in ranges]
        assert [row["first"] for row in ranges] == [0, *ends[:-1]]
        for counted in (
            sum(row["divergences"] for row in ranges),
            sum(row["count"] for row in findings),
        ):
            assert counted == run["diverging_traces"]
        assert all(len(json.loads(row["trace"])) == row["steps"] for row in findings)


def test_coverage_is_that_of_the_report(dataset, whole_run):
    covered = whole_run.report["coverage"]
    named = [row for row in rows(dataset, "coverage") if "restart" in row["run"]]
    for kind, key in (("transition", "transitions"), ("rule", "rules"), ("branch", "branches")):
        flags = [row["covered"] for row in named if row["kind"] == kind]
        assert (sum(flags), len(flags)) == (covered[key]["covered"], covered[key]["total"])
    rules = {row["name"] for row in named if row["kind"] == "transition"}
    assert rules == {row["name"] for row in named if row["kind"] == "rule"}


def test_transitions_are_counted_by_trace(dataset, whole_run):
    prepared = PreparedPlan.load(whole_run.out / "prepared")
    walks = [set(prepared.walk(number)[1].tolist()) for number in range(prepared.count)]
    transitions = [row for row in rows(dataset, "coverage") if row["number"] is not None]
    for row in (row for row in transitions if "restart" in row["run"]):
        ids = [number for number, walk in enumerate(walks) if row["number"] in walk]
        assert row["traces"] == len(ids)
        assert row["first_trace"] == (ids[0] if ids else None)


def test_the_same_question_replaces_its_tables(dataset):
    before = rows(dataset, "runs")
    again = ("--out", str(dataset / "differs"), "--dataset", (dataset / "tables").as_uri())
    assert main([*DIFFERS, *again]) == 1
    assert rows(dataset, "runs") == before


@pytest.mark.parametrize("uri", ["nosuch://there/x", "/proc/nowhere"])
def test_a_place_that_cannot_be_written_is_told(uri, dataset, capsys):
    assert main([*DIFFERS, "--out", str(dataset / "differs"), "--dataset", uri]) == 2
    assert "--dataset" in capsys.readouterr().err


# The page


@pytest.mark.parametrize("table", TABLES)
def test_the_page_explains_each_column(table, dataset):
    section = PAGE.split(f"### {table}\n")[1].split("\n#")[0]
    cells = re.findall(r"^\| ([a-z_, ]+) \|", section, re.MULTILINE)
    explained = {name for cell in cells for name in cell.split(", ")} - {"column"}
    assert explained == set(TABLES[table].names)
    file = next((dataset / "tables" / table).iterdir())
    assert pq.read_schema(file).metadata[b"kafka_eos.schema_version"] == b"1"


def test_the_queries_of_the_page_run(dataset, spark_session):
    spark = spark_session.session
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    for table in TABLES:
        spark.read.parquet(f"{dataset / 'tables'}/{table}").createOrReplaceTempView(table)
    queries = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    verdicts, covered, missing, rarest, discovered, findings, curve = (
        spark.sql(query).collect() for query in queries
    )
    assert {row.verdict for row in verdicts} == {"holds", "violated"}
    kinds = {"rule", "branch", "error_code", "table_entry", "statement", "transition"}
    assert {row.kind for row in covered} == kinds
    assert missing[0].missing >= missing[-1].missing >= 0
    assert len(rarest) == 20
    assert all(row.traces == 0 or row.first_trace is not None for row in rarest)
    found = [row.transitions for row in discovered if "restart" in row.run]
    assert found == sorted(found)
    restart = [row for row in covered if "restart" in row.run and row.kind == "transition"]
    assert found[-1] == restart[0].covered
    assert sum(row.diverging_traces for row in findings) == max(r.diverging_so_far for r in curve)
