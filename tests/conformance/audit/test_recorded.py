"""Logs that Apache Kafka 4.3.1 and 3.3.2 wrote (`record_logs.py`), named as what they are."""

import json
import zipfile
from pathlib import Path

import pytest

from conformance.__main__ import main

RECORDED = Path(__file__).parent / "recorded"


@pytest.fixture
def audit(tmp_path):
    """The report of an audit of one recording."""

    def audited(name, *given):
        with zipfile.ZipFile(RECORDED / f"{name}.zip") as archive:
            archive.extractall(tmp_path / name)
        places = [f"--log-dir={path}" for path in sorted((tmp_path / name).iterdir())]
        code = main(["audit", *places, *given, "--out", str(tmp_path / "out")])
        report = json.loads((tmp_path / "out" / "report.json").read_text())
        assert code == (1 if report["defects"] else 0)
        return report

    return audited


def test_an_ordinary_workload_has_no_finding_at_all(audit):
    report = audit("ordinary")
    assert (report["defects"], report["allowed"]) == ({}, {})
    assert report["totals"]["transactions"] == 24
    assert report["coordinators_log"]


def test_a_delayed_end_txn_of_v1_looks_like_transactions_of_one_epoch(audit):
    """KAFKA-17754: each shape leaves two ends of one epoch at a partition; no log tells more."""
    report = audit("delayed")
    assert (report["defects"], report["allowed"]) == ({}, {"shared_epoch": 3})


def test_skipped_markers_are_torn_transactions(audit):
    """KAFKA-20734: three times with V1 requests and three times with V2."""
    report = audit("skipped")
    assert report["defects"] == {"torn": 6}
    torn = [one for one in report["findings"] if one["kind"] == "torn"]
    assert {one["details"]["decided"] for one in torn} == {"COMMIT"}
    assert all(sorted(one["details"]["outcomes"].values()) == ["ABORT", "COMMIT"] for one in torn)


def test_a_late_record_hangs_and_the_report_says_how_to_end_it(audit):
    """What 3.3.2 takes behind the marker; 4.3.1 would have asked the coordinator."""
    report = audit("hanging", "--release", "3.3.2")
    assert report["defects"] == {"hanging": 1}
    [found] = [one for one in report["findings"] if one["kind"] == "hanging"]
    assert (found["offset"], found["details"]["behind_marker"]) == (2, 1)
    assert found["details"]["coordinator"] == "CompleteAbort at epoch 1, without this partition"
    assert found["action"].endswith(f"--topic {found['topic']} --partition 0 --start-offset 2")


def test_less_is_known_without_the_coordinators_log(audit):
    """Where each transaction has its own epoch, markers alone tell; what no marker ended is taken
    for one in progress."""
    report = audit("skipped", "--topics", "topic-.*")
    assert not report["coordinators_log"]
    assert report["defects"] == {}
