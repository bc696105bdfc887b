"""Bugs planted in a broker are found over its wire, by conformance alone."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from impl import ApiKey, ErrorCode, PartitionLeader, ProduceOutcome
from impl.partition import leader as leader_rules
from impl.partition import producer_state
from tests.sizes import sized

TRACES = 30


def judged(url: str, out: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of a run."""
    arguments = ["--system", url, "--traces", str(TRACES), "--out", str(out), *more]
    code = main(["run", *arguments])
    return code, json.loads((out / "report.json").read_text())


def test_a_broker_without_a_bug_conforms(serve, tmp_path):
    code, report = judged(serve().url, tmp_path / "out")
    assert (code, report["conforms"], report["verdict"]) == (0, True, "holds")
    assert report["traces"] == TRACES
    assert report["undecided"] == 0
    assert report["not_applicable"] == []
    assert report["divergences"] == []


# What is planted


def remembers(count: int) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(producer_state, "BATCHES_REMEMBERED", count)


def repeats_have_the_newest_offset(patch: pytest.MonkeyPatch) -> None:
    honest = PartitionLeader.produce

    def produce(self: PartitionLeader, *given: Any, **named: Any) -> ProduceOutcome:
        end = self.log_end_offset
        outcome = honest(self, *given, **named)
        is_repeat = outcome.error == ErrorCode.NONE and self.log_end_offset == end
        return outcome._replace(base_offset=end) if is_repeat else outcome

    patch.setattr(PartitionLeader, "produce", produce)


def repeats_are_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_rules, "find_duplicate", lambda *_: None)
    patch.setattr(leader_rules, "check_sequence", lambda *_: ErrorCode.NONE)


def no_epoch_is_too_old(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_rules, "check_producer_epoch", lambda *_: ErrorCode.NONE)


def gaps_are_accepted(patch: pytest.MonkeyPatch) -> None:
    def check(entry: Any, epoch: int, base_sequence: int) -> ErrorCode:
        is_older = base_sequence <= entry.last_sequence
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if is_older else ErrorCode.NONE

    patch.setattr(leader_rules, "check_sequence", check)


def states_lag_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("impl.broker.metadata_requests._describe_partition", described_late)


def described_late(_node: Any, topic: Any, index: int) -> dict[str, Any]:
    rows = [
        {
            "producer_id": producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.batches[0].last_sequence,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": -1,
            "current_txn_start_offset": -1,
        }
        for producer_id, entry in topic.partition(index).producers.items()
    ]
    return {"partition_index": index, "error_code": ErrorCode.NONE, "active_producers": rows}


@dataclass(frozen=True)
class Planted:
    """A bug, and how the report tells of it: the rule, the field, the guarantee that breaks."""

    plant: Callable[[pytest.MonkeyPatch], None]
    rule: str
    field: str
    broken: str | None = None


PLANTED = {
    "four are remembered": Planted(remembers(4), "probe_window", "error"),
    "six are remembered": Planted(remembers(6), "probe_window", "error"),
    "one is remembered": Planted(remembers(1), "", "error"),
    "repeats have the newest offset": Planted(
        repeats_have_the_newest_offset, "", "base_offset", "at_most_once"
    ),
    "repeats are stored": Planted(repeats_are_stored, "", "base_offset", "at_most_once"),
    "no epoch is too old": Planted(no_epoch_is_too_old, "", "error"),
    "gaps are accepted": Planted(gaps_are_accepted, "", "error"),
    "states lag behind": Planted(states_lag_behind, "settle", "last_sequence"),
}


FULL = {"four are remembered", "one is remembered", "repeats have the newest offset"}
"""Each has another of its kind beside it."""


@pytest.mark.parametrize("name", sized(PLANTED, FULL))
def test_it_is_found(serve, tmp_path, monkeypatch, name):
    planted = PLANTED[name]
    planted.plant(monkeypatch)
    code, report = judged(serve().url, tmp_path / "out")
    assert (code, report["conforms"], report["verdict"]) == (1, False, "violated")
    found = report["divergences"]
    assert all(row["one_minimal"] for row in found)
    assert any(row["rule"].startswith(planted.rule) for row in found)
    assert any(path.endswith(f".{planted.field}") for row in found for path in row["observed"])
    assert planted.broken is None or report["guarantees"][planted.broken] == "violated"
    for row in found:
        assert (tmp_path / "out" / row["trace"]).exists()


def test_a_probe_shrinks_to_the_least_that_it_needs(serve, tmp_path, monkeypatch):
    """Six batches are sent by the probes themselves: one that the trace stored is enough."""
    remembers(4)(monkeypatch)
    _, report = judged(serve().url, tmp_path / "out")
    row = min(report["divergences"], key=lambda row: row["steps"])
    assert (row["rule"], row["steps"]) == ("probe_window", 2)
    assert row["expected"] == {
        "leader[0].sends[0].error": ErrorCode.NONE,
        "leader[0].sends[0].base_offset": 1,
    }
    assert row["observed"]["leader[0].sends[0].error"] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_is_not_offered_is_not_applicable(serve, tmp_path, monkeypatch):
    announced = {key: range(6) for key in ApiKey if key != ApiKey.DESCRIBE_PRODUCERS}
    monkeypatch.setattr("impl.broker.api_versions.announced_versions", lambda _: announced)
    code, report = judged(serve().url, tmp_path / "out")
    assert (code, report["verdict"]) == (0, "holds")
    assert report["not_applicable"] == [
        "producer states: the broker does not offer DescribeProducers"
    ]
