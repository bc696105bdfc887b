"""One directory made by a real broker now, and served by ours; what a comparison must notice.

All others are recorded: `tests/impl/storage/test_recorded_directories.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.campaigns.directories.__main__ import verdicts
from conformance.campaigns.directories.comparison import ExpectedDifference, compare, lost_files
from conformance.campaigns.directories.kafka_directory import hanging, make
from conformance.campaigns.directories.recorded import record, unpack
from conformance.campaigns.directories.scenarios import Scenario, read_scenarios
from conformance.campaigns.directories.script import VERBS, BadLine, parse

SCENARIOS = read_scenarios()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_directory_of_a_real_broker_is_served_as_by_itself(tmp_path: Path, java: None) -> None:
    made = make(SCENARIOS["everything"], "4.3.1", tmp_path / "made")
    [verdict] = verdicts(made, tmp_path)
    assert verdict.is_right, verdict.lines()
    assert {"t", "__consumer_offsets", "__transaction_state"} == made.answers["topics"].keys()
    assert {row["state"] for row in made.answers["transactions"].values()} == {
        "CompleteAbort",
        "CompleteCommit",
        "Ongoing",
    }
    recorded = unpack(record(made, tmp_path), tmp_path / "unpacked")
    assert recorded.answers == made.answers
    [folder] = recorded.folders
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        path.name for path in made.folders[0].iterdir()
    )


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_each_line_of_a_script_is_known(scenario: Scenario) -> None:
    for text in (scenario.script, scenario.again):
        assert {line.verb for line in parse(text)} <= VERBS.keys()
    assert scenario.about
    assert scenario.releases


def test_a_verb_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadLine, match="no verb 'prodcue'"):
        parse("prodcue t-0 1")


BEFORE = {
    "t-0/00000000000000000000.log": b"12",
    "t-0/00000000000000000000.index": b"0",
    "t-0/00000000000000000005.log": b"34",
    "t-0/00000000000000000007.index": b"0",
    "t-0/00000000000000000005.snapshot": b"0",
    "t-0/00000000000000000005.log.deleted": b"0",
    "t-0/partition.metadata": b"0",
    ".kafka_cleanshutdown": b"",
}


@pytest.mark.parametrize(
    ("gone", "start", "problems"),
    [
        ("t-0/00000000000000000000.log", 5, []),
        ("t-0/00000000000000000000.index", 5, []),
        ("t-0/00000000000000000000.log", 4, ["t-0/00000000000000000000.log is gone"]),
        ("t-0/00000000000000000005.log", 9, ["t-0/00000000000000000005.log is gone"]),
        ("t-0/00000000000000000007.index", 0, []),
        ("t-0/00000000000000000005.snapshot", 0, []),
        ("t-0/00000000000000000005.log.deleted", 0, []),
        (".kafka_cleanshutdown", 0, []),
        ("t-0/partition.metadata", 0, ["t-0/partition.metadata is gone"]),
    ],
)
def test_files_may_go_that_kafka_removes(gone: str, start: int, problems: list[str]) -> None:
    after = {name: data for name, data in BEFORE.items() if name != gone}
    assert lost_files(BEFORE, after, {"t-0": start}) == problems


def test_a_file_that_begins_otherwise_and_a_new_folder_are_noticed() -> None:
    after = {**BEFORE, "t-0/00000000000000000005.log": b"35", "t-0.1-stray/x": b""}
    expected = ["t-0/00000000000000000005.log has other bytes", "t-0.1-stray is new"]
    assert lost_files(BEFORE, after, {}) == expected
    longer = {**BEFORE, "t-0/00000000000000000005.log": b"345"}
    assert lost_files(BEFORE, longer, {}) == []


def test_a_difference_is_known_where_a_row_names_it() -> None:
    kafka = {"a": {"b": [1, 2]}, "c": None, "d": 4}
    ours = {"a": {"b": [1, 3]}, "c": 5}
    row = ExpectedDifference("/a/*", "because", releases="3.*")
    found = [(each.path, each.reason) for each in compare("s", "3.9.2", kafka, ours, [row])]
    assert found == [("/a/b/1", "because"), ("/d", "")]
    assert all(not each.reason for each in compare("s", "4.3.1", kafka, ours, [row]))


def test_a_transaction_without_its_marker_is_noticed() -> None:
    producers = {"7": {"current_txn_start_offset": 3}, "8": {"current_txn_start_offset": -1}}
    states = {"T": {"producer_id": 7, "state": "CompleteCommit"}}
    answers = {"transactions": states, "partitions": {"t-0": {"producers": producers}}}
    assert hanging(answers) == {7}
    states["T"]["state"] = "Ongoing"
    assert hanging(answers) == set()
