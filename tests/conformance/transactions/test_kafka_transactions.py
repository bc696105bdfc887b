"""On a real broker of 4.3.1: what it shows of a transaction, and the delayed EndTxn."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.experiments import looks, setup
from conformance.experiments.session import Session
from conformance.experiments.vocabulary import Committed
from conformance.kafka.errors import RequestRefused
from conformance.transactions.observed import Asked, observe
from conformance.transactions.reading import BatchSeen, OffsetRecord, Status
from conformance.transactions.testbed import KafkaTestbed
from conformance.transactions.wire import Group
from impl.protocol.errors import ErrorCode
from proofs.java import MissingTool

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

STORY_KEYS = {"schema_version", "story", "release", "level", "requests", "shapes", "verdict"}
SHAPE_KEYS = {"name", "what", "facts", "broken", "failed", "verdict"}

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


def test_a_transaction_is_observed_whole(testbed: KafkaTestbed):
    """State, log, markers, producers, offsets and both internal topics, before and after."""
    s = session(testbed, "v2")
    c = s.conversation()
    producer = setup.begin(s)
    [at] = testbed.topic()
    group = Group(testbed.fresh("group"))
    setup.open_(s, producer, at)
    committed = testbed.group_coordinator().ask(c.txn_offset_commit(producer, group, at, 7))
    assert committed.only is ErrorCode.NONE
    asked = Asked((producer.transactional_id,), (at,), {group.group_id: (at,)})
    before = observe(testbed, asked)
    assert before.transactions[producer.transactional_id].state == "Ongoing"
    assert before.partitions[at].committed == ()
    assert [batch.values for batch in before.partitions[at].batches] == [("value",)]
    assert before.partitions[at].last_stable_offset == 0 < before.partitions[at].high_watermark
    assert before.stable[group.group_id, at].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert before.partitions[at].producers[producer.producer_id].current_txn_start_offset == 0

    setup.end(s, producer, Committed(True))
    after = observe(testbed, asked)
    assert after.transactions[producer.transactional_id].state == "CompleteCommit"
    assert after.partitions[at].committed == ("value",)
    assert [batch.marker for batch in after.partitions[at].batches] == [None, "COMMIT"]
    assert after.partitions[at].producers[producer.producer_id].producer_epoch == 2
    assert after.stable[group.group_id, at].committed_offset == 7
    assert [row.status for row in after.log] == [
        Status.Empty,
        Status.Empty,
        Status.Ongoing,
        Status.Ongoing,
        Status.PrepareCommit,
        Status.CompleteCommit,
    ]
    written, marker = after.offset_log
    assert written == OffsetRecord(group.group_id, at, 7, producer.producer_id, 1)
    assert isinstance(marker, BatchSeen)
    assert marker.marker == "COMMIT"


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
    assert looks.state(s, producer).startswith("PrepareCommit")
    with pytest.raises(RequestRefused, match="stays in PREPARE"):
        setup.settle(s, producer)
    testbed.restart()
    assert looks.settled(s, producer).startswith("CompleteCommit")


def test_a_delayed_end_of_v1_requests_breaks_the_next_transaction(tmp_path: Path, capsys):
    out = tmp_path / "v1"
    assert main([*STORY, "--level", "2", "--requests", "v1", "--out", str(out)]) == 1
    assert "violated: no_lost_write, all_or_none" in capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    assert report.keys() == STORY_KEYS
    assert {key for shape in report["shapes"] for key in shape} == SHAPE_KEYS
    assert all(fact["agrees"] for shape in report["shapes"] for fact in shape["facts"])
    broken = {shape["name"]: shape["broken"] for shape in report["shapes"]}
    assert broken == {
        "lost_write": ["no_lost_write", "all_or_none"],
        "aborted_write_shown": ["no_aborted_read", "all_or_none"],
        "torn_transaction": ["no_lost_write", "all_or_none"],
    }


def test_a_delayed_end_of_v2_requests_is_refused_and_the_report_is_the_same_twice(tmp_path: Path):
    reports = []
    for number in range(2):
        out = tmp_path / str(number)
        assert main([*STORY, "--level", "2", "--requests", "v2", "--out", str(out)]) == 0
        reports.append((out / "report.json").read_bytes())
    assert reports[0] == reports[1]
    shapes = json.loads(reports[0])["shapes"]
    facts = [fact for shape in shapes for fact in shape["facts"]]
    assert all(fact["agrees"] for fact in facts)
    late = {f["observed"] for f in facts if f["name"] == "the delayed copy arrives"}
    assert late == {"PRODUCER_FENCED"}


def test_v2_requests_at_level_0_cannot_be_played(tmp_path: Path):
    file = tmp_path / "answer.json"
    assert main([*STORY, "--level", "0", "--requests", "v2", "--json", str(file)]) == 3
    answer = json.loads(file.read_text())
    assert answer["verdict"] == "undecided"
    assert answer["shapes"][0]["failed"] == "RequestRefused: Produce: UNSUPPORTED_VERSION"


def test_experiments_are_as_expected(tmp_path: Path, capsys):
    file = tmp_path / "report.json"
    names = ["end_txn_v1_by_state", "late_produce_v2"]
    arguments = ["--kafka", "4.3.1", "--level", "2", "--json", str(file)]
    assert main(["experiments", *names, *arguments]) == 0
    assert "Ongoing, commit" in capsys.readouterr().out
    report = json.loads(file.read_text())
    assert {fact["experiment"] for fact in report["facts"]} == set(names)
