"""Stories: the same trace as text, as Mermaid and as one page."""

import json
import re
from pathlib import Path

import pytest

from proofs.lift.source import load_model
from proofs.trace.format import Header, read
from proofs.trace.html import log_json, move_json, page, page_of
from proofs.trace.messages import SETS_OUT, MessageFate
from proofs.trace.pictures import mermaid, text
from proofs.trace.replay import Stepper, configuration_of, model_of, record, replay
from proofs.trace.story import tell
from tests.docs.pages import STORIES

pytestmark = pytest.mark.fast

LINK = (("producer", 0), ("partition", 0))
TRACE = (
    ("client_sends", LINK),
    ("client_sends", LINK),
    ("request_arrives", LINK),
    ("connection_breaks", (*LINK, ("survivors", 1))),
    ("late_request_arrives", (*LINK, ("connection", 0))),
    ("client_retries", LINK),
    ("request_arrives", LINK),
    ("answer_arrives", LINK),
    ("leader_restarts", (("partition", 0),)),
)

GOLDEN = """\
idempotent-tiny, 4.3.1/level=2/requests=v2
   1.  producer 0 sends #1 ProduceRequest(producer_id=0 producer_epoch=0 base_sequence=0 \
record_count=1 producer=0 first_record=0) to partition 0
   2.  producer 0 sends #2 ProduceRequest(producer_id=0 producer_epoch=0 base_sequence=1 \
record_count=2 producer=0 first_record=1) to partition 0
   3.  partition 0 handles #1
       partition 0 answers #3 ProduceResponse(first_record=0 error=NONE base_offset=0 \
required_offset=1 log_start_offset=0)
   4.  producer 0, partition 0: An open connection breaks, or its client gives it up; \
`survivors` requests still arrive.
       #2 will still arrive
       #3 is lost
   5.  partition 0 handles late #2
       partition 0 answers #4 ProduceResponse(first_record=1 error=NONE base_offset=1 \
required_offset=3 log_start_offset=0)
       #4 is lost
   6.  producer 0 sends #5 ProduceRequest(producer_id=0 producer_epoch=0 base_sequence=0 \
record_count=1 producer=0 first_record=0) to partition 0
   7.  partition 0 handles #5
       partition 0 answers #6 ProduceResponse(first_record=0 error=NONE base_offset=0 \
required_offset=1 log_start_offset=0)
   8.  producer 0 hears #6
   9.  partition 0: The leader's broker stops and comes back.
"""


@pytest.fixture(scope="module")
def recorded():
    k = configuration_of(load_model("idempotent"), "idempotent-tiny", "4.3.1")
    return record(
        Stepper(load_model("idempotent"), k), Header("idempotent-tiny", k.variant.name), TRACE
    )


@pytest.fixture(scope="module")
def story(recorded):
    trace, worlds = recorded
    return tell(load_model("idempotent"), trace.header, trace.steps, worlds)


def test_the_story_is_golden(story):
    assert text(story, with_changes=False) == GOLDEN


def test_changes_are_told_below_each_step(story):
    told = text(story)
    assert "producer 0  partitions[0].next_sequence: 0 -> 1" in told
    assert "partition 0  high_watermark: 0 -> 1" in told
    assert "partition 0  producers[0].batches: - {last_sequence=0" in told


def test_messages_keep_their_numbers(story):
    kinds = [(move.kind, move.message.number) for event in story.events for move in event.moves]
    assert kinds[3:7] == [
        (MessageFate.ANSWERED, 3),
        (MessageFate.DELAYED, 2),
        (MessageFate.LOST, 3),
        (MessageFate.DELIVERED_LATE, 2),
    ]


def test_mermaid(story):
    lines = mermaid(story).splitlines()
    assert lines[0] == "sequenceDiagram"
    assert lines[1:3] == [
        "    participant producer0 as producer 0",
        "    participant partition0 as partition 0",
    ]
    assert sum("-)partition0" in line for line in lines) == 3
    assert lines[-1] == "    Note over partition0: The leader's broker stops and comes back."
    assert not any(";" in line.replace("#35;", "") for line in lines)


def test_the_page_needs_nothing_else(recorded):
    shown = page_of(recorded[0], "a <title>")
    outside = r"(?:src|href)=|@import|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)"
    assert not re.search(outside, shown)
    assert "<title>a &lt;title&gt;</title>" in shown
    assert not re.search(r"@[A-Z]+@", shown)


def test_the_page_holds_the_story(story):
    written = re.search(r'<script id="story"[^>]*>(.*?)</script>', page(story), re.DOTALL)
    data = json.loads(written[1])
    assert [event["number"] for event in data["events"]] == list(range(1, 10))
    assert len(data["logs"]) == 10
    log = data["logs"][-1][0]
    assert log["marks"] == [["high watermark", 3]]
    assert [batch["lines"] for batch in log["batches"]] == [
        ["offset 0", "producer 0 epoch 0", "sequence 0", "record 0"],
        ["offset 1", "producer 0 epoch 0", "sequence 1", "records 1..2"],
    ]


def test_a_failover_loses_what_travelled():
    k = configuration_of(load_model("idempotent"), "idempotent-failover", "4.3.1")
    steps = (
        ("client_sends", LINK),
        ("request_arrives", LINK),
        ("leader_fails_over", (("partition", 0), ("kept", 0))),
    )
    header = Header("idempotent-failover", k.variant.name)
    trace, worlds = record(Stepper(load_model("idempotent"), k), header, steps)
    told = text(tell(load_model("idempotent"), trace.header, trace.steps, worlds))
    assert "#2 is lost" in told
    assert "partition 0  log: - {batch=" in told


# Transactions: no links; the coordinator acts, and requests are late

LATE_END = (
    ("instance_begins", (("instance", 0),)),
    ("producer_id_is_asked", (("instance", 0), ("heard", 1))),
    ("transaction_begins", (("instance", 0),)),
    ("record_is_sent", (("instance", 0), ("partition", 1))),
    ("commit_is_asked", (("instance", 0),)),
    ("batch_is_produced", (("instance", 0), ("partition", 1), ("heard", 1))),
    ("end_is_delayed", (("instance", 0),)),
    ("late_end_arrives", (("late", 0),)),
)


@pytest.fixture(scope="module")
def transactional():
    model = load_model("transactions")
    stepper = Stepper(model, configuration_of(model, "transactions-default", "v2"))
    trace, worlds = record(stepper, Header("transactions-default", "v2"), LATE_END)
    return trace, tell(model, trace.header, trace.steps, worlds)


def test_lanes_are_those_who_act(transactional):
    trace, story = transactional
    actors = ("instance 0", "coordinator", "partition 0", "partition 1")
    assert story.lanes == actors
    assert set(trace.steps[0].digests) >= {"clients[0]", "coordinator", "leaders[1]"}
    assert not trace.steps[0].digests.keys() & {"initialization", "faults", "late"}


def test_what_the_coordinator_does_is_told(transactional):
    _, story = transactional
    told = text(story)
    assert "coordinator  known.metadata.state: EMPTY -> ONGOING" in told
    assert "instance 0, coordinator: A client sends InitProducerId;" in told
    assert "(heard=1)" in told
    ends = story.events[-1]
    assert ends.lanes == ("coordinator",)
    assert ("coordinator", "known.metadata.state") in {(c.actor, c.place) for c in ends.changes}


def test_late_requests_are_shown(transactional):
    _, story = transactional
    sets_out, arrives = (
        [c.what for c in event.changes if c.place == "late"] for event in story.events[-2:]
    )
    assert sets_out[0].startswith("+ {api=END_TXN, ")
    assert arrives[0].startswith("- {api=END_TXN, ")


def test_mermaid_notes_stand_over_two_lanes_at_most(transactional):
    _, story = transactional
    notes = re.findall("Note over ([^:]+):", mermaid(story))
    assert notes[1] == "instance0,coordinator"
    assert notes[5] == "instance0,partition1"
    assert max(len(note.split(",")) for note in notes) == 2


def messages_of(event):
    """(what, from, to, label) of each move, as the page draws them."""
    return [(m["kind"], m["from"], m["to"], m["label"]) for m in map(move_json, event.moves)]


def test_a_request_within_one_step_is_drawn_with_all_that_it_causes(transactional):
    _, story = transactional
    assert messages_of(story.events[5]) == [
        ("SENT", "instance 0", "partition 1", "epoch 0 sequence 0"),
        ("DELIVERED", "instance 0", "partition 1", "epoch 0 sequence 0"),
        ("SENT", "partition 1", "coordinator", "ADD_PARTITIONS_TO_TXN"),
        ("DELIVERED", "partition 1", "coordinator", "ADD_PARTITIONS_TO_TXN"),
        ("ANSWERED", "coordinator", "partition 1", "NONE"),
        ("RECEIVED", "coordinator", "partition 1", "NONE"),
        ("ANSWERED", "partition 1", "instance 0", "at offset 0"),
        ("RECEIVED", "partition 1", "instance 0", "at offset 0"),
    ]


def test_a_delayed_request_is_drawn_from_where_it_set_out(transactional):
    _, story = transactional
    assert messages_of(story.events[-2]) == [
        ("SENT", "instance 0", "coordinator", "END_TXN COMMIT")
    ]
    assert messages_of(story.events[-1])[0] == (
        "DELIVERED",
        "instance 0",
        "coordinator",
        "END_TXN COMMIT",
    )
    assert messages_of(story.events[-1])[-1][0] == "LOST"


def test_a_log_with_markers_says_what_they_are():
    trace = read(Path("docs/stories/delayed_end_txn_lost.jsonl"))
    model = model_of(trace.header)
    story = tell(model, trace.header, trace.steps, replay(trace, model))
    log = log_json(story.logs[-1][0])
    assert [batch["lines"][0] for batch in log["batches"]] == [
        "offset 0 ABORT",
        "offset 1",
        "offset 2 ABORT",
    ]
    assert log["marks"] == [["last stable offset", 3]]


WITNESSES = sorted(Path("tests/proofs/coverage/witnesses").glob("*.jsonl"))


@pytest.mark.parametrize("path", WITNESSES, ids=lambda path: path.stem)
def test_messages_of_all_compositions_arrive_once_behind_where_they_set_out(path):
    trace = read(path)
    model = model_of(trace.header)
    story = tell(model, trace.header, trace.steps, replay(trace, model))
    travelling = set()
    for event in story.events:
        for move in event.moves:
            number, message = move.message.number, move.message
            if move.kind in SETS_OUT:
                travelling.add(number)
                assert message.sender in story.lanes
            elif move.kind is not MessageFate.DELAYED:
                assert move.kind is MessageFate.LOST or message.receiver in story.lanes
                travelling.remove(number)  # fails for what never set out


def test_a_marker_goes_to_its_own_partition_also_where_partitions_are_alike():
    """At first all leaders have one state: the choice of the event tells them apart."""
    trace = read(STORIES / "delayed_end_txn_lost.jsonl")
    model = model_of(trace.header)
    told = tell(model, trace.header, trace.steps, replay(trace, model))
    marker = told.events[10]
    assert marker.rule == "marker_is_written"
    assert {move.message.receiver for move in marker.moves if move.kind is MessageFate.SENT} == {
        "partition 0"
    }


def test_records_of_transactions_have_the_fate_that_their_marker_gives_them():
    trace = read(STORIES / "delayed_end_txn_lost.jsonl")
    model = model_of(trace.header)
    told = tell(model, trace.header, trace.steps, replay(trace, model))
    first, second = map(log_json, told.logs[-1])
    assert [batch["fate"] for batch in first["batches"]] == ["", "aborted", ""]
    assert [batch["fate"] for batch in second["batches"]] == ["open"]
