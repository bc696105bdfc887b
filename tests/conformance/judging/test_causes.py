"""One cause is one finding, whatever steps lead to it."""

import pytest

from conformance.judging.causes import (
    Cause,
    Severity,
    cause_of,
    decider_of,
    join_probes,
    severity_of,
)
from conformance.judging.reports.pages import story_of
from conformance.judging.reports.report import both_sides
from model.idempotent.variants import DEFAULT_VARIANT
from proofs.trace.format import Header, Trace, dumps, loads
from proofs.trace.pictures import text


def finding(rule: str, **differs: tuple[object, object]) -> dict:
    """A difference at paths whose dots are written `__`."""
    paths = {path.replace("__", "."): values for path, values in differs.items()}
    return {
        "rule": rule,
        "expected": {path: expected for path, (expected, _) in paths.items()},
        "observed": {path: observed for path, (_, observed) in paths.items()},
    }


def test_numbers_and_what_follows_an_error_do_not_tell_causes_apart():
    """kfake refuses what Kafka takes: whatever delivers the batch, wherever the log starts."""
    first = finding("request_arrives", leader__sends__error=(0, 45), leader__sends__offset=(0, -1))
    late = finding("late_request_arrives", leader__sends__error=(0, 45))
    assert cause_of(first, "wire", "on_produce") == cause_of(late, "wire", "on_produce")
    other = finding("request_arrives", leader__sends__error=(0, 47))
    assert cause_of(first, "wire", "on_produce") != cause_of(other, "wire", "on_produce")
    starts = [
        cause_of(finding("x", leader__sends__log_start_offset=pair), "wire", "on_produce")
        for pair in ((0, -1), (3, -1))
    ]
    assert starts[0] == starts[1]


def test_what_a_broker_tells_of_itself_is_its_apis_and_breaks_that_alone():
    told = finding("settle", leader__producers__last_sequence=(0, -1))
    assert cause_of(told, "wire", "settle").decider == "DescribeProducers"
    assert severity_of(told, "wire", breaks_promise=False) is Severity.INTROSPECTION
    state = finding("marker_is_written", coordinator__state=("CompleteCommit", "Empty"))
    again = finding("probe_end_txn_again", coordinator__state=("CompleteAbort", "Empty"))
    assert cause_of(state, "kafka", "on_marker") == cause_of(again, "kafka", "probe_end_txn_again")


@pytest.mark.parametrize(
    ("system", "breaks_promise", "severity"),
    [
        ("impl", False, Severity.PROTOCOL),
        ("impl", True, Severity.PROMISE),
        ("wire", True, Severity.PROMISE),
    ],
)
def test_the_state_of_a_system_in_process_is_its_own(system, breaks_promise, severity):
    told = finding("settle", leader__producers__last_sequence=(0, -1))
    assert severity_of(told, system, breaks_promise=breaks_promise) is severity


def test_a_log_goes_before_what_is_told_of_it():
    """The markers' epoch is the defect; the list of producers merely shows it too."""
    both = finding(
        "marker_is_written",
        leader__log__producer_epoch=(1, 0),
        leader__producers=({"producer_epoch": 1}, None),
    )
    assert cause_of(both, "wire", "on_marker").fields == ("leader.log.producer_epoch",)
    assert severity_of(both, "wire", breaks_promise=False) is Severity.PROTOCOL


def test_a_probe_that_shows_what_a_rule_does_is_that_rules_cause():
    marker = Cause("leader.on_marker", ("leader.log.producer_epoch",), "")
    probe = Cause("probe_next_transaction", ("leader.log.producer_epoch",), "")
    alone = Cause("probe_old_epoch", ("answer.base_offset",), "")
    assert join_probes([probe, marker, alone]) == [marker, marker, alone]
    settle = marker._replace(decider="settle")
    assert join_probes([settle, marker]) == [marker, marker]


def test_the_rule_that_decides_is_that_of_the_actor_that_differs():
    taken = [("Leader", "leader.on_produce"), ("Client", "responses.on_answer")]
    assert decider_of(finding("x", leader__log=(1, 2)), taken) == "leader.on_produce"
    assert decider_of(finding("x", client__fatal=(1, 2)), taken) == "responses.on_answer"
    assert decider_of(finding("probe", leader__log=(1, 2)), []) == "probe"
    verified = [("Client", "sender.produce"), ("Leader", "leader.verify"), *taken]
    assert decider_of(finding("x", answer__error=(1, 2)), verified) == "leader.on_produce"


def test_a_trace_carries_both_sides_and_its_story_tells_them():
    """What the model answers in the last step did not happen: the system did something else."""
    found = finding("request_arrives", **{"leader[0]__sends[0]__error": (0, 45)})
    rows = (("leader[0].sends[0].error", "0 (NONE)", "45 (OUT_OF_ORDER_SEQUENCE_NUMBER)"),)
    assert both_sides(found) == rows
    header = Header("idempotent-tiny", DEFAULT_VARIANT, system="wire", differs=rows)
    trace = Trace(header, ())
    assert loads(dumps(trace)) == trace
    told = text(story_of(trace))
    assert "wire differs there; what stands above is the model's:" in told
    assert "the model  0 (NONE)" in told
    assert "observed   45 (OUT_OF_ORDER_SEQUENCE_NUMBER)" in told
