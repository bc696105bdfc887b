"""The harness of foreign suites reads outcomes right, and notices each that is not expected."""

from __future__ import annotations

import json

import pytest

from tests.foreign.outcomes import (
    Difference,
    Known,
    differences,
    read_go,
    read_junit,
    read_known,
    read_librdkafka,
)
from tests.foreign.served import helpers_that_command, rewritten
from tests.foreign.suites import read_suites

pytestmark = pytest.mark.fast


def go(*events: tuple[str, str]) -> str:
    return "\n".join(json.dumps({"Action": action, "Test": test}) for action, test in events)


def test_a_go_test_that_never_ends_has_failed_and_subtests_do_not_count() -> None:
    text = go(("run", "TestA"), ("pass", "TestA"), ("run", "TestB"), ("fail", "TestA/one"))
    assert read_go(f"go: downloading x\n{text}\n") == {"TestA": "passed", "TestB": "failed"}


def test_junit_tells_failures_errors_and_skips() -> None:
    cases = "".join(
        f'<testcase classname="m.C" name="{name}">{inner}</testcase>'
        for name, inner in (("a", ""), ("b", "<failure/>"), ("c", "<error/>"), ("d", "<skipped/>"))
    )
    assert read_junit(f"<testsuites><testsuite>{cases}</testsuite></testsuites>") == {
        "C.a": "passed",
        "C.b": "failed",
        "C.c": "failed",
        "C.d": "skipped",
    }


def test_states_of_librdkafka_other_than_passed_and_skipped_are_failures() -> None:
    tests = {name: {"state": name} for name in ("PASSED", "SKIPPED", "RUNNING", "DNS")}
    tests["<MAIN>"] = {"state": "FAILED"}
    assert read_librdkafka(json.dumps({"tests": tests})) == {
        "PASSED": "passed",
        "SKIPPED": "skipped",
        "RUNNING": "failed",
        "DNS": "failed",
    }


KNOWN = {"TestKnown*": Known("failed", "why")}


@pytest.mark.parametrize(
    ("test", "outcome", "expected"),
    [("TestNew", "failed", "passed"), ("TestNew", "skipped", "passed")],
)
def test_what_fails_or_is_skipped_without_a_row_is_a_difference(
    test: str, outcome: str, expected: str
) -> None:
    found = {test: outcome, "TestKnown1": "failed"}
    assert list(differences(found, KNOWN)) == [Difference(test, expected, outcome)]


def test_a_row_for_a_test_that_passes_or_is_gone_is_a_difference() -> None:
    assert list(differences({"TestKnown1": "passed"}, KNOWN)) == [
        Difference("TestKnown1", "failed", "passed")
    ]
    assert list(differences({}, KNOWN)) == [Difference("TestKnown*", "failed", "missing")]


def test_each_suite_is_read_and_each_row_names_a_suite_and_a_reason() -> None:
    suites = read_suites()
    assert {"kgo", "kfake", "sarama", "librdkafka"} <= suites.keys()
    rows = [row for name in suites for row in read_known(name).values()]
    assert rows
    assert all(row.reason for row in rows)


FAKE = """
func waitStable(t *testing.T, c *Cluster, group string) {
\tc.WaitGroupStable(group)
}

func waitStableAndFresh(t *testing.T, c *Cluster, group string) {
\twaitStable(t, c, group)
}

func TestAsks(t *testing.T) {
\tc := newCluster(t)
\tclient(c.ListenAddrs())
}

func TestCommands(t *testing.T) {
\tc := newCluster(t)
\tc.MoveTopicPartition("t", 0, 1)
}

func TestCommandsByAHelper(t *testing.T) {
\tc := newCluster(t)
\twaitStable(t, c, "g")
}

func TestCommandsByTheHelperOfAHelper(t *testing.T) {
\tc := newCluster(t)
\twaitStableAndFresh(t, c, "g")
}
"""


def test_only_tests_that_ask_the_fake_cluster_where_it_listens_run_at_ours() -> None:
    methods = {"WaitGroupStable", "MoveTopicPartition"}
    helpers = helpers_that_command([FAKE], methods)
    assert helpers == {"waitStable", "waitStableAndFresh"}
    text = rewritten(FAKE, methods, helpers)
    assert "client(servedInstead(c.ListenAddrs()))" in text
    assert text.count("skipWithoutFake(t)") == 3
    asks = text.index("func TestAsks")
    assert "skipWithoutFake" not in text[asks : text.index("func TestCommands")]
