"""Clients and features: the cells, their verdicts, and what is kept of them."""

import json
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.adapters.brokers.kafka.releases import NEWEST
from conformance.adapters.clients.install import JAVA, JAVA_SOURCE, PRODUCTS
from conformance.campaigns.client_table import cell
from conformance.campaigns.client_table.brokers import OURS
from conformance.campaigns.client_table.cell import PROGRAMS, execute_program, last_line, topic_of
from conformance.campaigns.client_table.clients import CLIENTS, clients_named
from conformance.campaigns.client_table.features import FEATURES
from conformance.campaigns.client_table.page import client_table_page, verdict_of, verdicts_of
from conformance.verbs import client_table as verb
from impl import Broker, ErrorFault
from proofs.run import BadUse

KEPT = Path(__file__).parents[4] / "evidence" / "client_table.json"
PYTHON = [sys.executable, str(PROGRAMS / "kafka_python.py")]
REDUCED = ["--clients", "kafka-python", "--features", "metadata,transactions", "--brokers", OURS]


def row(broker: str, result: str, feature: str = "admin") -> dict[str, object]:
    version = "this project's broker" if broker == OURS else f"Kafka {broker}"
    return {
        "client": "kcat 1",
        "feature": feature,
        "broker": broker,
        "version": version,
        "date": "2026-01-01",
        "result": result,
        "facts": [],
        "error": "" if result == "works" else f"why {result}",
    }


# ---- a reduced run: one client of this environment, two features, ours


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell, "program_command", lambda *_: PYTHON)


@pytest.mark.usefixtures("installed")
def test_what_is_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.json"
    given = ["client-table", *REDUCED, "--out", str(tmp_path / "out"), "--keep", str(kept)]
    assert main(given) == 0, capsys.readouterr().out
    monkeypatch.setattr(verb, "open_broker", lambda _: pytest.fail("all cells are done"))
    assert main(given) == 0
    metadata, transactions = json.loads(kept.read_text())["cells"]
    assert (metadata["result"], metadata["facts"]) == ("works", ["partitions 3"])
    assert transactions["facts"] == ["read a c", "idempotent", "markers COMMIT ABORT COMMIT"]
    assert "| transactions | **works** |" in capsys.readouterr().out


@pytest.mark.usefixtures("installed")
def test_a_planted_defect_turns_a_cell_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = ErrorFault("EndTxn", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", times=None)
    start = Broker.__enter__

    def start_with_fault(broker: Broker) -> Broker:
        started = start(broker)
        started.faults.add(fault)
        return started

    monkeypatch.setattr(Broker, "__enter__", start_with_fault)
    given = ["--clients", "kafka-python", "--features", "transactions", "--brokers", OURS]
    assert main(["client-table", *given, "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "| transactions | fails |" in shown
    assert "TransactionalIdAuthorizationFailed" in shown


# ---- verdicts


@pytest.mark.parametrize(
    ("ours", "kafka", "verdict"),
    [
        ("works", "works", "holds"),
        ("works", "fails", "holds"),
        ("fails", "fails", "holds"),
        ("fails", "works", "violated"),
        ("fails", None, "violated"),
        ("works", None, "holds"),
        ("has it not", "has it not", "holds"),
        ("works", "not run", "undecided"),
        ("not run", "works", "undecided"),
    ],
)
def test_what_works_on_kafka_works_on_ours(ours: str, kafka: str | None, verdict: str) -> None:
    assert verdict_of(row(OURS, ours), None if kafka is None else row(NEWEST, kafka)) == verdict


def test_a_cell_shows_where_it_fails_and_why() -> None:
    page = client_table_page([row(NEWEST, "works"), row(OURS, "fails")]).markdown()
    assert f"| admin | works (Kafka {NEWEST}), fails (this project's broker) |" in page
    assert "why fails" in page
    assert "has it not" in client_table_page([row(OURS, "has it not")]).markdown()


def test_what_is_kept_gives_way_to_newer_results_of_the_same_cells(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    other, older, newer = row(NEWEST, "works"), row(OURS, "fails"), row(OURS, "works")
    file.write_text(json.dumps({"cells": [other, older]}))
    assert verb.with_kept(file, [newer]) == [other, newer]


def test_a_broker_that_is_not_here_leaves_cells_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def missing(_name: str):
        raise BrokerFailed("Java is not installed")
        yield

    monkeypatch.setattr(verb, "open_broker", missing)
    assert main(["client-table", *REDUCED, "--out", str(tmp_path)]) == 3
    assert "Java is not installed" in capsys.readouterr().out


# ---- programs


def test_facts_are_lines_and_an_error_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; print('one'); sys.stderr.write('first\\nlast\\n\\n'); sys.exit({})"
    python = [sys.executable, "-c"]
    assert execute_program([*python, script.format(0)]) == (("one",), "")
    assert execute_program([*python, script.format(1)]) == (("one",), "last")
    assert execute_program([*python, "raise SystemExit(3)"]) == ((), "exit code 3")
    monkeypatch.setattr(cell, "TIMEOUT_S", 0.5)
    facts, error = execute_program([*python, "import time; time.sleep(60)"])
    assert (facts, error[:8]) == ((), "not done")
    assert last_line("x" * 1_000) == "x" * cell.QUOTED


def test_each_program_has_the_verb_of_each_feature_that_its_client_has() -> None:
    for client in CLIENTS:
        source = JAVA_SOURCE if client.product == JAVA else PRODUCTS[client.product].source
        text = (PROGRAMS / source).read_text(encoding="utf-8")
        for feature in FEATURES:
            name = feature.verb
            is_there = any(form in text for form in (f"def {name}(", f'"{name}"', f"async {name}("))
            assert is_there or feature.name in client.lacks, (client.product, name)
        assert client.lacks.keys() <= {feature.name for feature in FEATURES}


def test_cells_share_no_topic() -> None:
    topics = [topic_of(client.client, feature) for client in CLIENTS for feature in FEATURES]
    assert len(set(topics)) == len(topics) == len(CLIENTS) * len(FEATURES)


def test_a_client_has_the_tabled_release_or_another() -> None:
    [one, other] = clients_named(["kafkajs", "java:3.9.2"])
    assert (one.client, other.client) == ("kafkajs:2.2.4", "java:3.9.2")
    with pytest.raises(BadUse, match="ibm-sarama"):
        clients_named(["nosuch"])


# ---- what is kept


def test_the_kept_table_has_every_client_and_feature_at_both_brokers() -> None:
    rows = json.loads(KEPT.read_text(encoding="utf-8"))["cells"]
    assert Counter(one["broker"] for one in rows) == {
        broker: len(CLIENTS) * len(FEATURES) for broker in (NEWEST, OURS)
    }
    assert {one["client"] for one in rows} == {client.title for client in CLIENTS}
    assert set(verdicts_of(rows)) == {"holds"}
