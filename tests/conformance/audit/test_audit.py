"""The verb: files, exit codes, backends."""

import json

import pyarrow.parquet as pq
import pytest

from conformance.__main__ import main
from conformance.audit.kinds import KINDS
from proofs.run.files import REPOSITORY


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The logs that `--generate` writes."""
    directory = tmp_path_factory.mktemp("audit") / "logs"
    given = ["--bytes", str(1 << 16), "--of-each", "5"]
    assert main(["audit", "--generate", str(directory), *given]) == 0
    return directory


@pytest.fixture(scope="module")
def audit(planted, tmp_path_factory):
    """What the verb writes of them."""
    out = tmp_path_factory.mktemp("audit") / "out"
    assert main(["audit", "--log-dir", str(planted), "--out", str(out)]) == 1
    return out


def test_the_report_the_page_and_the_table_say_the_same(audit, planted):
    report = json.loads((audit / "report.json").read_text())
    expected = json.loads((planted / "planted.json").read_text())
    assert report["verdict"] == "violated"
    assert report["defects"]["gap"] == sum(one["kind"] == "gap" for one in expected) == 5
    rows = pq.read_table(audit / "audit_findings.parquet").to_pylist()
    assert sum(row["places"] for row in rows) == len(expected)
    assert {row["kind"] for row in rows if row["is_defect"]} == report["defects"].keys()
    page = (audit / "report.md").read_text()
    assert "## torn: 25 (defect)" in page
    abort = next(f for f in report["findings"] if f["kind"] == "hanging")
    assert abort["action"].endswith(f"--start-offset {abort['offset']}")


def test_topics_are_chosen_by_name(planted, tmp_path):
    found = main(
        ["audit", "--log-dir", str(planted), "--topics", "deleted", "--out", str(tmp_path)]
    )
    assert found == 0
    assert json.loads((tmp_path / "report.json").read_text())["allowed"]["deleted_head"] == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "either --log-dir or --generate"),
        (["--log-dir", "/nowhere"], "no such folder"),
        (["--log-dir", "."], "no partition"),
        (["--log-dir", ".", "--release", "9.9"], "--release"),
    ],
)
def test_bad_use_is_told(words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.xdist_group("spark")
def test_spark_writes_the_same_bytes(spark_session, audit, planted, tmp_path):
    given = ["--partitions", "1", "--topics", "planted", "--log-dir", str(planted)]
    for backend in ("processes", "spark"):
        out = tmp_path / backend
        assert main(["audit", *given, "--backend", backend, "--out", str(out)]) == 1
    for name in ("report.json", "report.md"):
        assert (tmp_path / "spark" / name).read_bytes() == (
            tmp_path / "processes" / name
        ).read_bytes()


def test_the_reference_lists_all_kinds():
    page = (REPOSITORY / "docs/reference/audit.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        what = "defect" if kind.is_defect else "allowed"
        assert f"| `{name}` | {what} | {kind.meaning} |" in page
