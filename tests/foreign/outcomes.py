"""Outcomes of a suite's tests, read from what it printed, and held to those that are expected."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal, NamedTuple
from xml.etree import ElementTree

Outcome = Literal["passed", "failed", "skipped"]
Outcomes = dict[str, Outcome]

EXPECTED: Final = Path(__file__).with_name("outcomes.toml")

_OF_GO: Final[Mapping[str, Outcome]] = {"pass": "passed", "fail": "failed", "skip": "skipped"}
_OF_LIBRDKAFKA: Final[Mapping[str, Outcome]] = {
    "PASSED": "passed",
    "SKIPPED": "skipped",
}


class Known(NamedTuple):
    """A test that does not pass, with the reason: of the suite, of its harness, or `ours`."""

    outcome: Outcome
    reason: str
    ours: bool = False


class Difference(NamedTuple):
    """A test whose outcome is not the expected one."""

    test: str
    expected: str
    found: str


def read_go(text: str) -> Outcomes:
    """Outcomes of top-level tests in the lines of `go test -json`. A test that never ended, since
    its process did, has failed."""
    found: Outcomes = {}
    for line in text.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        test = event.get("Test")
        if not test or "/" in test:
            continue
        if event["Action"] == "run":
            found[test] = "failed"
        elif event["Action"] in _OF_GO:
            found[test] = _OF_GO[event["Action"]]
    return found


def read_junit(text: str) -> Outcomes:
    """Outcomes in a JUnit report, by class and name."""
    found: Outcomes = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        tags = {child.tag for child in case}
        outcome: Outcome = "passed"
        if tags & {"failure", "error"}:
            outcome = "failed"
        elif "skipped" in tags:
            outcome = "skipped"
        found[f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"] = outcome
    return found


def read_librdkafka(text: str) -> Outcomes:
    """Outcomes in the report of librdkafka's test runner. A test that never started, since the run
    ended before it, has failed."""
    tests = json.loads(text)["tests"]
    return {
        name: _OF_LIBRDKAFKA.get(row["state"], "failed")
        for name, row in tests.items()
        if name != "<MAIN>"
    }


READERS: Final[Mapping[str, Callable[[str], Outcomes]]] = {
    "go": read_go,
    "junit": read_junit,
    "librdkafka": read_librdkafka,
}


def read_known(suite: str, path: Path = EXPECTED) -> dict[str, Known]:
    """The tests of a suite that are known not to pass."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get(suite, {})
    return {test: Known(**row) for test, row in rows.items()}


def differences(
    found: Outcomes, known: Mapping[str, Known], may_skip: bool = False
) -> Iterable[Difference]:
    """Tests that did not end as expected. All pass but the known ones; a name there may be a
    pattern, and one that no test has is a difference too. With `may_skip` any may be skipped."""
    for test, outcome in sorted(found.items()):
        pattern = next((name for name in known if fnmatchcase(test, name)), None)
        expected = known[pattern].outcome if pattern else "passed"
        if outcome != expected and not (may_skip and outcome == "skipped"):
            yield Difference(test, expected, outcome)
    for name in known:
        if not any(fnmatchcase(test, name) for test in found):
            yield Difference(name, known[name].outcome, "missing")
