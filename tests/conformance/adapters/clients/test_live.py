"""Real clients at work: Apache Kafka's own, and librdkafka, which has nothing of it."""

import json
import sys
from pathlib import Path

import pytest

from conformance.__main__ import main

CONFLUENT = Path(__file__).with_name("confluent_client.py")


def report_of(out: Path, *arguments: str) -> tuple[int, dict]:
    code = main(["run", "--system", "client", *arguments, "--out", str(out)])
    return code, json.loads((out / "report.json").read_text())


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("java")
def test_the_java_client_behaves_as_its_model(tmp_path: Path):
    code, report = report_of(tmp_path / "out", "--client", "java:4.3.1", "--traces", "20")
    assert (report["traces"], report["undecided"], report["unfinished"]) == (20, 0, 0)
    assert report["steps"] > 100
    assert report["guarantees"]["acked_is_stored"] == "holds"
    assert (code, report["conforms"], report["verdict"]) == (0, True, "holds")


def test_librdkafka_behaves_as_the_model_where_nothing_goes_wrong(tmp_path: Path):
    client = f"{sys.executable} {CONFLUENT}"
    arguments = ("--client", client, "--faults", "none", "--traces", "6")
    code, report = report_of(tmp_path / "out", *arguments)
    assert (code, report["conforms"], report["verdict"]) == (0, True, "holds")
    assert report["steps"] > 30
