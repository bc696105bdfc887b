"""The matrix is runs, cell by cell, and what they found."""

import argparse
import json
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers import kfake_process
from conformance.campaigns.matrix import cells
from conformance.campaigns.matrix.cells import MatrixCell, cells_of, levels_of
from conformance.campaigns.matrix.page import matrix_pages
from conformance.verbs import matrix as verb
from conformance.verbs import run
from proofs.run import BadUse

SCOPES = ("idempotent-tiny", "transactions-tiny")


def test_levels_and_requests_are_those_that_a_release_has():
    found = cells_of(["4.3.1", "3.3.2", "kfake"], ["java:4.3.1"], SCOPES)
    rows = [(c.broker, c.level, c.requests, c.scope) for c in found if not c.client]
    transactions = [row[:3] for row in rows if row[3] == "transactions-tiny"]
    assert transactions == [
        *(("4.3.1", level, requests) for level, requests in ((2, "v2"), (2, "v1"), (1, "v2"))),
        ("4.3.1", 1, "v1"),
        ("4.3.1", 0, "v1"),
        ("3.3.2", 0, "v1"),
        ("kfake", 2, "v2"),
        ("kfake", 2, "v1"),
    ]
    # A leader alone knows neither levels nor requests.
    assert [row[0] for row in rows if row[3] == "idempotent-tiny"] == ["4.3.1", "3.3.2", "kfake"]
    assert len({cell.name for cell in found}) == len(found)
    assert found[-1].client == "java:4.3.1"


def test_each_cell_is_arguments_of_run():
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    for cell in cells_of(["4.3.1", "impl", "wire://h:1"], ["java:4.3.1"], SCOPES):
        system = "kafka" if cell.broker == "4.3.1" else "wire://h:1"
        plan = run.plan_of(parser.parse_args(cell.arguments(system, 7)))
        assert plan.traces == 7
        assert plan.scope == (cell.scope if cell.broker else "idempotent-default")


def test_our_broker_is_held_to_the_rules_that_it_has_on_purpose():
    cell = MatrixCell("impl", 2, "v2", "", "transactions-tiny")
    assert cell.variant == "4.3.1/level=2/requests=v2/late_bump=asked/leaderless_marker=waits"
    assert cell._replace(broker="kfake").variant == "4.3.1/level=2/requests=v2"


def test_an_unknown_broker_is_bad_use():
    with pytest.raises(BadUse, match=r"valid: 4\.3\.1"):
        levels_of("rabbit")


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Path:
    """Our broker, and one that is not here."""
    out = tmp_path_factory.mktemp("matrix")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kfake_process.shutil, "which", lambda _: None)
        patch.setattr(kfake_process, "cache_folder", lambda: out / "cache")
        given = ["--brokers", "impl,kfake", "--scopes", "idempotent-tiny", "--traces", "12"]
        assert main(["matrix", *given, "--out", str(out), "--keep", str(out / "kept.json")]) == 0
    return out


def test_a_cell_that_cannot_be_run_here_says_why(judged):
    ours, kfake = json.loads((judged / "kept.json").read_text())["cells"]
    assert (ours["verdict"], ours["traces"], ours["causes"]) == ("holds", 12, [])
    assert kfake["verdict"] is None
    assert "Go is not installed" in kfake["why_not"]
    page = (judged / "matrix.md").read_text()
    assert "| kfake-level2-v2-idempotent-tiny | Go is not installed" in page
    assert f"kfake {cells.kfake_version()}" in page


def test_what_is_done_is_not_done_again(judged, monkeypatch, capsys):
    monkeypatch.setattr(verb, "judged", lambda *_: pytest.fail("all cells are done"))
    given = ["--brokers", "impl,kfake", "--scopes", "idempotent-tiny", "--traces", "12"]
    assert main(["matrix", *given, "--out", str(judged)]) == 0
    assert "verdict: holds" in capsys.readouterr().out


def test_a_cause_has_one_page_with_all_cells_that_show_it():
    path = "leader[0].sends[0].error"
    cause = {
        "cause": "leader.on_produce: leader.sends.error",
        "breaks": "the protocol",
        "occurrences": 9,
        "rule": "request_arrives",
        "steps": 4,
        "expected": {path: 0},
        "observed": {path: 45},
        "decided_by": "A batch arrives.",
        "exchanges": [],
        "no_script": "no bytes",
    }
    cell = MatrixCell("kfake", 2, "v2", "", "idempotent-tiny")._asdict()
    cell |= {"name": "a", "version": "kfake 1", "date": "2026-01-01", "verdict": "violated"}
    cell |= {"variant": "4.3.1/level=2/requests=v2", "traces": 1, "why_not": None}
    cell |= {"transitions": {"covered": 1, "total": 2}, "causes": [cause]}
    pages = matrix_pages({"cells": [cell, {**cell, "version": "kfake 2", "causes": [cause]}]})
    table, page = pages.values()
    assert "kfake 1, kfake 2" in table.markdown()
    assert page.title == (
        "leader.on_produce: leader.sends.error, 0 (NONE) is 45 (OUT_OF_ORDER_SEQUENCE_NUMBER)"
    )
    for text in ("| kfake 1 |", "| kfake 2 |", "A batch arrives.", "no bytes", "45 (OUT_OF"):
        assert text in page.markdown()


def test_the_kept_matrix_makes_pages():
    file = Path(__file__).parents[4] / "evidence" / "matrix.json"
    pages = verb.kept_pages(file)
    assert len(pages) > 1
    assert "kfake" in pages["matrix"].markdown()
    for name, page in pages.items():
        assert page.markdown().startswith("# "), name


def test_kfake_is_judged_nearly_as_far_as_kafka_and_each_cause_once():
    """One cosmetic difference hid all that was behind it: 262 of 10,185 transitions were judged."""
    file = Path(__file__).parents[4] / "evidence" / "matrix.json"
    cells = {cell["name"]: cell for cell in json.loads(file.read_text())["cells"]}
    scopes = ("v2-idempotent-default", "v2-transactions-default", "v1-transactions-default")
    for scope in scopes:
        kfake, kafka = cells[f"kfake-level2-{scope}"], cells[f"4.3.1-level2-{scope}"]
        assert kfake["transitions"]["covered"] >= 0.9 * kafka["transitions"]["covered"]
        causes = [cause["cause"] for cause in kfake["causes"]]
        assert len(causes) == len(set(causes)) <= 8
        ours = cells[f"impl-level2-{scope}"]
        assert ours["verdict"] == "holds"
        assert ours["transitions"]["covered"] == ours["transitions"]["total"]
    worst = cells["kfake-level2-v2-transactions-default"]["causes"][:2]
    assert "leader.on_marker: leader.log.producer_epoch" in [cause["cause"] for cause in worst]
