"""On a real broker of 4.3.1: the story of the delayed EndTxn, and a few facts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.kafka.errors import RequestRefused
from conformance.transactions.facts.lab import EXPERIMENTS, Lab, experiment
from conformance.transactions.ground import Ground
from conformance.transactions.observed import Asked, observe
from conformance.transactions.reading import BatchSeen, OffsetRecord, Status
from conformance.transactions.wire import Group, Producer
from impl.protocol.errors import ErrorCode
from proofs.java import MissingTool

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

STORY_KEYS = {"schema_version", "story", "release", "level", "requests", "shapes", "verdict"}
SHAPE_KEYS = {
    "shape",
    "told",
    "delayed_answer",
    "end_answer",
    "written",
    "broken",
    "refused",
    "observed",
    "verdict",
}
FACTS_KEYS = {"schema_version", "release", "level", "facts", "failed", "verdict"}
FACT_KEYS = {"experiment", "name", "expected", "observed", "agrees"}

STORY = ["delayed-end-txn", "--kafka", "4.3.1"]
FACTS = ["facts", "--kafka", "4.3.1", "--level", "2"]


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    ground = Ground("4.3.1", level=2)
    try:
        ground.__enter__()
    except MissingTool as error:
        pytest.skip(str(error))
    yield ground
    ground.__exit__(None, None, None)


@pytest.fixture
def lab(ground: Ground) -> Lab:
    return Lab(ground, "a test")


def test_a_transaction_is_observed_whole(ground: Ground, lab: Lab):
    """State, log, markers, producers, offsets and both internal topics, before and after."""
    c = lab.v2
    producer = lab.begin(c)
    [at] = ground.topic()
    group = Group(ground.fresh("group"))
    lab.open(c, producer, at)
    assert lab.ask_group(c.txn_offset_commit(producer, group, at, 7)) == "NONE"
    asked = Asked((producer.transactional_id,), (at,), {group.group_id: (at,)})
    before = observe(ground, asked)
    assert before.transactions[producer.transactional_id].state == "Ongoing"
    assert before.partitions[at].committed == ()
    assert [batch.values for batch in before.partitions[at].batches] == [("value",)]
    assert before.partitions[at].last_stable_offset == 0 < before.partitions[at].high_watermark
    assert before.stable[group.group_id, at].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert before.partitions[at].producers[producer.producer_id].current_txn_start_offset == 0

    lab.end(c, producer, committed=True)
    after = observe(ground, asked)
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


def test_answers_of_many_requests_come_in_their_order(ground: Ground, lab: Lab):
    lab.begin(lab.v2)  # A fresh broker has no producer ids yet, and refuses whoever asks first.
    names = [ground.fresh("id") for _ in range(60)]
    calls = [lab.v2.init_producer_id(name) for name in names for _ in range(2)]
    answers = ground.coordinator().pipeline(calls, in_flight=25)
    assert [answer.producer_epoch for answer in answers] == [0, 1] * 60
    assert len({answer.producer_id for answer in answers}) == 60


def test_a_held_transaction_stays_in_prepare_until_a_restart_lets_it_go(lab: Lab):
    producer = lab.in_state("PrepareCommit", lab.v1)
    assert lab.state(producer).startswith("PrepareCommit")
    with pytest.raises(RequestRefused, match="stays in PREPARE"):
        lab.settle(producer.transactional_id)
    lab.ground.restart()
    assert lab.settled(producer).startswith("CompleteCommit")


def test_a_delayed_end_of_v1_requests_breaks_the_next_transaction(tmp_path: Path, capsys):
    out = tmp_path / "v1"
    assert main([*STORY, "--level", "2", "--requests", "v1", "--out", str(out)]) == 1
    assert "second is not there, offsets is there" in capsys.readouterr().out
    report = json.loads((out / "report.json").read_text())
    assert report.keys() == STORY_KEYS
    assert {key for shape in report["shapes"] for key in shape} == SHAPE_KEYS
    broken = {shape["shape"]["name"]: shape["broken"] for shape in report["shapes"]}
    assert broken == {
        "lost_write": ["no_lost_write", "all_or_none"],
        "aborted_write_shown": ["no_aborted_read", "all_or_none"],
        "torn_transaction": ["no_lost_write", "all_or_none"],
    }
    lost = report["shapes"][0]["observed"]
    [first] = [name for name in lost["partitions"] if name.endswith("-0")]
    assert lost["partitions"][first]["committed"] == []
    assert [row["marker"] for row in lost["partitions"][first]["batches"]] == [
        None,
        "ABORT",
        None,
        "ABORT",
    ]


def test_a_delayed_end_of_v2_requests_is_refused_and_the_report_is_the_same_twice(tmp_path: Path):
    reports = []
    for number in range(2):
        out = tmp_path / str(number)
        assert main([*STORY, "--level", "2", "--requests", "v2", "--out", str(out)]) == 0
        reports.append((out / "report.json").read_bytes())
    assert reports[0] == reports[1]
    shapes = json.loads(reports[0])["shapes"]
    assert {shape["delayed_answer"] for shape in shapes} == {"PRODUCER_FENCED"}
    assert all(write["is_visible"] for write in shapes[0]["written"])


def test_v2_requests_at_level_0_cannot_be_told(tmp_path: Path):
    file = tmp_path / "answer.json"
    assert main([*STORY, "--level", "0", "--requests", "v2", "--json", str(file)]) == 3
    answer = json.loads(file.read_text())
    assert answer["verdict"] == "undecided"
    assert answer["shapes"][0]["refused"] == "Produce 'first' to partition 0: UNSUPPORTED_VERSION"


def test_facts_are_as_expected(tmp_path: Path, capsys):
    file = tmp_path / "facts.json"
    only = ["--only", "end_txn_v1_by_state,late_produce_v2"]
    assert main([*FACTS, *only, "--json", str(file)]) == 0
    assert "Ongoing, commit" in capsys.readouterr().out
    report = json.loads(file.read_text())
    assert report.keys() == FACTS_KEYS | {"run"}
    assert {key for fact in report["facts"] for key in fact} == FACT_KEYS
    assert {fact["experiment"] for fact in report["facts"]} == set(only[1].split(","))


def test_a_wrong_expectation_and_a_failure_are_told(tmp_path: Path, capsys):
    """A planted experiment expects what no broker does; another cannot be set up."""

    def planted_wrong(lab: Lab) -> None:
        producer = lab.in_state("Empty", lab.v1)
        lab.fact("EndTxn in Empty", "NONE", lab.ask(lab.v1.end_txn(producer, committed=True)))

    def planted_failure(lab: Lab) -> None:
        lab.open(lab.v1, Producer("nobody", 1, 1), ("nowhere", 0))

    file = tmp_path / "facts.json"
    try:
        experiment("v1")(planted_wrong)
        experiment("v1")(planted_failure)
        assert main([*FACTS, "--only", "planted_wrong"]) == 1
        assert main([*FACTS, "--only", "planted_failure", "--json", str(file)]) == 3
    finally:
        del EXPERIMENTS["planted_wrong"], EXPERIMENTS["planted_failure"]
    assert "expected there: NONE" in capsys.readouterr().out
    assert "UNKNOWN_TOPIC_OR_PARTITION" in json.loads(file.read_text())["failed"]["planted_failure"]
