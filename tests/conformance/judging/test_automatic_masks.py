"""A cause that is found often hides no more than it has to; and masks over a wire."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.adapters.brokers.backend import Replayed
from conformance.judging.automatic_masks import (
    AutomaticMasks,
    counted_as,
    is_merely_shown,
    masks_from,
    sampled,
    texts_for,
)
from conformance.judging.masks import MaskedTrace, Masks
from conformance.judging.plan import Plan, prepare_one
from conformance.judging.signatures import Signature, count_findings
from conformance.verbs.over_wire import OverWire
from impl import Broker, ErrorCode
from impl.partition import leader as leader_rules


def finding(number: int) -> dict[str, Any]:
    path = "leader[0].sends[0].log_start_offset"
    return {
        "id": number,
        "trace": [],
        "steps": 2 + number,
        "rule": "request_arrives",
        "choice": {},
        "expected": {path: 0},
        "observed": {path: -1 - number},
        "one_minimal": False,
    }


@pytest.mark.parametrize("count", [1, 7, 256, 1000, 4199])
def test_a_sample_is_spread_evenly_and_depends_on_the_count_alone(count: int):
    numbers = sampled(count)
    assert len(numbers) == len(set(numbers)) == min(count, 256)
    assert numbers[0] == 0
    assert numbers[-1] < count
    gaps = {b - a for a, b in pairwise(numbers)}
    assert not gaps or max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize(
    ("fields", "is_shown"),
    [
        (("leader.producers.last_sequence",), True),
        (("coordinator.state",), True),
        (("leader.sends.log_start_offset",), True),
        (("leader.log.producer_epoch", "leader.producers"), True),
        (("leader.sends.error",), False),
        (("leader.sends.base_offset",), False),
        (("leader.sends.error", "leader.sends.log_start_offset"), False),
        (("leader.log",), False),
        (("leader.log.kind",), False),
        (("leader.high_watermark",), False),
    ],
)
def test_what_a_broker_merely_shows_is_masked_wherever_it_is(fields, is_shown):
    assert is_merely_shown(fields, "wire") == is_shown
    texts = texts_for(Signature("settle", fields, None, None), "wire")
    assert texts == (fields if is_shown else (f"settle:{'+'.join(fields)}...",))


def test_findings_behind_a_mask_count_as_often_as_the_run_met_it():
    findings = count_findings([finding(0), finding(1)])
    masks = AutomaticMasks(("a", "b"), (("a", findings), ("a", count_findings([finding(2)]))))
    hidden = masks.hidden({"a": (40, 100)})
    assert sum(found.count for found in hidden.values()) == 41
    assert counted_as(findings, 1) == findings
    assert masks_from(json.loads(json.dumps(masks.to_json()))) == masks


def test_behind_a_mask_of_what_a_system_does_all_may_follow():
    error, offset = ("leader[0].sends[0].error", 0, 45), ("leader[0].sends[0].base_offset", 3, 2)
    trace = MaskedTrace(Masks(["request_arrives:leader.sends.error..."]))
    assert trace.visible("probe_gap", 1, [error]) == [error]
    assert not trace.has_consequences
    assert trace.visible("request_arrives", 2, [error]) == []
    assert trace.visible("probe_gap", 3, [offset]) == [offset]
    assert trace.has_consequences


# ---- over a wire


def test_a_trace_of_another_scope_is_shown_again_as_it_was_found(tmp_path: Path):
    """Its cause may be masked in the run: then it had no script."""
    run, other = (
        SimpleNamespace(testbed=SimpleNamespace(masks=Masks(masks)), close=lambda: None)
        for masks in (["probe_old_epoch:answer.error..."], ["coordinator.state"])
    )
    run.other_scopes = lambda _: other
    other.replayed = lambda steps: Replayed(steps, {"rule": "probe_old_epoch"}, False)
    prepared = prepare_one(Plan(scope="transactions-tiny"), tmp_path, 1, 1)
    [found] = OverWire(prepared, run, {}, 1).play("transactions-markers", [()])
    assert found == {"rule": "probe_old_epoch", "behind": ["coordinator.state"]}


@pytest.fixture(scope="module")
def broker():
    """A broker with a cosmetic difference in each answer, and one that matters behind it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("impl.broker.metadata_requests._describe_partition", tells_nothing)
        patch.setattr(leader_rules, "check_producer_epoch", lambda *_: ErrorCode.NONE)
        with Broker() as one:
            yield one


def tells_nothing(_node: Any, topic: Any, index: int) -> dict[str, Any]:
    return {"partition_index": index, "error_code": ErrorCode.NONE, "active_producers": []}


def judged(broker: Broker, out: Path, *more: str) -> dict[str, Any]:
    url = f"wire://{broker.bootstrap_servers}"
    given = ["--system", url, "--scope", "idempotent-tiny", "--traces", "24", "--out", str(out)]
    assert main(["run", *given, *more]) == 1
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    return report


@pytest.fixture(scope="module")
def stopped(broker, tmp_path_factory) -> dict[str, Any]:
    return judged(broker, tmp_path_factory.mktemp("stopped"), "--no-automatic-masks")


def test_without_masks_what_is_shown_hides_what_is_done(stopped):
    assert [row["breaks"] for row in stopped["divergences"]] == ["an introspection API"]
    assert stopped["masked"] == []


def test_a_mask_over_the_wire_lets_the_run_judge_what_is_behind(broker, stopped, tmp_path):
    report = judged(
        broker,
        tmp_path / "out",
        "--no-automatic-masks",
        "--ignore",
        "leader.producers.last_sequence",
        "--ignore",
        "leader.producers.producer_epoch",
    )
    assert {row["mask"]: row["automatic"] for row in report["masked"]} == {
        "leader.producers.last_sequence": False,
        "leader.producers.producer_epoch": False,
    }
    assert "the protocol" in {row["breaks"] for row in report["divergences"]}
    assert all(row["script"] for row in report["divergences"])


def test_a_cause_that_is_found_often_is_masked_by_itself_and_stays_a_finding(
    broker, stopped, tmp_path, capsys
):
    report = judged(broker, tmp_path / "out")
    masked = {row["mask"]: row for row in report["masked"] if row["automatic"]}
    assert masked["leader.producers.last_sequence"]["traces"] > 20
    breaks = [row["breaks"] for row in report["divergences"]]
    assert breaks.count("an introspection API") == 1
    assert "the protocol" in breaks
    [told] = [r for r in report["divergences"] if r["breaks"] == "an introspection API"]
    assert told["occurrences"] >= masked["leader.producers.last_sequence"]["traces"]
    assert report["verdict"] == "violated"
    assert "put on by the run itself" in capsys.readouterr().out
    again = judged(broker, tmp_path / "out")
    assert again == report
