"""On a real broker of 4.3.1: what it shows of a transaction, and the delayed EndTxn."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.testbed import KafkaTestbed
from conformance.campaigns.stories import observations, setup
from conformance.campaigns.stories.session import Session
from proofs.java import MissingTool

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

STORY_KEYS = {
    "schema_version",
    "story",
    "release",
    "level",
    "requests",
    "facts",
    "broken",
    "failed",
    "not_applicable",
    "verdict",
}

STORY = ["delayed-end-txn", "--kafka", "4.3.1"]


@pytest.fixture(scope="module")
def testbed() -> Iterator[KafkaTestbed]:
    testbed = KafkaTestbed("4.3.1", level=2)
    try:
        testbed.__enter__()
    except MissingTool as error:
        pytest.skip(str(error))
    yield testbed
    testbed.__exit__(None, None, None)


def session(testbed: KafkaTestbed, requests: str) -> Session:
    return Session(testbed, "a test", {"requests": requests})


def test_answers_of_many_requests_come_in_their_order(testbed: KafkaTestbed):
    s = session(testbed, "v2")
    setup.begin(s)  # A fresh broker has no producer ids yet, and refuses whoever asks first.
    names = [testbed.fresh("id") for _ in range(60)]
    calls = [s.conversation().init_producer_id(name) for name in names for _ in range(2)]
    answers = testbed.coordinator().pipeline(calls, in_flight=25)
    assert [answer.producer_epoch for answer in answers] == [0, 1] * 60
    assert len({answer.producer_id for answer in answers}) == 60


def test_a_held_transaction_stays_in_prepare_until_a_restart_lets_it_go(testbed: KafkaTestbed):
    s = session(testbed, "v1")
    producer = setup.in_state(s, "PrepareCommit")
    assert observations.state(s, producer).startswith("PrepareCommit")
    with pytest.raises(RequestRefused, match="stays in PrepareCommit"):
        setup.settle(s, producer)
    testbed.restart()
    assert observations.settled(s, producer).startswith("CompleteCommit")


def test_a_delayed_end_of_v1_requests_breaks_the_next_transaction(tmp_path: Path, capsys):
    out = tmp_path / "v1"
    assert main([*STORY, "--level", "2", "--requests", "v1", "--out", str(out)]) == 1
    assert "lost_write_v1 breaks no_lost_write, all_or_none" in capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    assert report.keys() == STORY_KEYS
    assert (report["schema_version"], report["story"]) == (2, "delayed-end-txn")
    assert all(fact["agrees"] for fact in report["facts"])
    assert report["broken"] == {
        "delayed_end_txn_lost_write_v1": ["no_lost_write", "all_or_none"],
        "delayed_end_txn_aborted_write_shown_v1": ["no_aborted_read", "all_or_none"],
        "delayed_end_txn_torn_transaction_v1": ["no_lost_write", "all_or_none"],
    }


def test_a_delayed_end_of_v2_requests_is_refused_and_the_report_is_the_same_twice(tmp_path: Path):
    reports = []
    for number in range(2):
        out = tmp_path / str(number)
        assert main([*STORY, "--level", "2", "--requests", "v2", "--out", str(out)]) == 0
        reports.append((out / "report.json").read_bytes())
    assert reports[0] == reports[1]
    facts = json.loads(reports[0])["facts"]
    assert all(fact["agrees"] for fact in facts)
    late = {f["observed"] for f in facts if f["name"] == "the delayed copy arrives"}
    assert late == {"PRODUCER_FENCED"}


def test_v2_requests_at_level_0_cannot_be_played(tmp_path: Path):
    file = tmp_path / "answer.json"
    assert main([*STORY, "--level", "0", "--requests", "v2", "--json", str(file)]) == 3
    answer = json.loads(file.read_text())
    assert answer["verdict"] == "undecided"
    assert answer["failed"]["delayed_end_txn_lost_write_v2"] == (
        "RequestRefused: Produce: UNSUPPORTED_VERSION"
    )


def test_experiments_are_as_expected(tmp_path: Path, capsys):
    file = tmp_path / "report.json"
    names = ["end_txn_v1_by_state", "late_produce_v2"]
    arguments = ["--kafka", "4.3.1", "--level", "2", "--json", str(file)]
    assert main(["experiments", *names, *arguments]) == 0
    assert "Ongoing, commit" in capsys.readouterr().out
    report = json.loads(file.read_text())
    assert {fact["experiment"] for fact in report["facts"]} == set(names)
