"""Apache Kafka itself over its wire: some traces of each scope that one broker can have."""

import json

import pytest

from conformance.__main__ import main

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("kafka"),
    pytest.mark.usefixtures("java"),
]


@pytest.mark.full  # in the suite it is stopped, too
def test_kafka_behaves_as_its_model(tmp_path):
    arguments = ["--system", "kafka", "--kafka", "4.3.1", "--traces", "60"]
    assert main(["run", *arguments, "--traces-from", "hunts", "--out", str(tmp_path / "out")]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["conforms"], report["verdict"]) == (True, "holds")
    assert (report["traces"], report["undecided"], report["divergences"]) == (60, 0, [])
    assert report["not_applicable"] == []
    # Few traces meet a zombie by themselves; the probes behind each do.
    met = {"NONE", "NOT_ENOUGH_REPLICAS", "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    assert not met & set(report["coverage"]["error_codes"]["missing"])
    assert report["coverage"]["rules"]["missing"] == []


def test_kafka_is_stopped_and_behaves_as_its_model(tmp_path):
    """Two dozen traces share one stop."""
    arguments = ["--system", "kafka", "--kafka", "4.3.1", "--faults", "nodes", "--traces", "24"]
    scope = ["--scope", "idempotent-restart", "--traces-from", "hunts"]
    assert main(["run", *arguments, *scope, "--out", str(tmp_path / "out")]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["conforms"], report["verdict"], report["traces"]) == (True, "holds", 24)
    assert "leader_restarts" not in report["coverage"]["rules"]["missing"]
