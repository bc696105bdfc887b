"""A Java client that gives its producer id back: what clients and brokers of some releases did."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.client.forgotten_id import RECORDS, Course, main

FIXTURES = Path(__file__).parent / "fixtures"
LOSES = [("2.0.0", "2.0.0"), ("2.0.0", "3.9.2")]
KEEPS = [("2.4.1", "2.0.0"), ("2.4.1", "3.9.2"), ("4.3.1", "4.3.1")]


def recorded(client: str, kafka: str) -> tuple[Course, dict[str, Any]]:
    text = (FIXTURES / f"forgotten-id-{client}-{kafka}.json").read_text()
    report: dict[str, Any] = json.loads(text)
    lines, stored = tuple(report["lines"]), tuple(report["stored"])
    return Course(report["client"], report["kafka"], lines, report["told"], stored), report


def sequences(course: Course, record: str) -> list[str]:
    """Under which producer id, epoch and sequence a record was sent, each time."""
    return [line.split(", ")[1] for line in course.lines if line.startswith(f"PRODUCE {record},")]


@pytest.mark.parametrize(("client", "kafka"), LOSES + KEEPS)
def test_what_is_told_is_held_against_the_log(client: str, kafka: str) -> None:
    course, report = recorded(client, kafka)
    assert (course.client, course.kafka, list(course.told)) == (client, kafka, list(RECORDS))
    assert course.report() == {**report, "lines": course.lines, "stored": course.stored}
    assert course.lost == (["f"] if (client, kafka) in LOSES else [])
    assert course.lines.index("    c: NONE, lost") < course.lines.index("= the broker is killed")
    assert "    a: OUT_OF_ORDER_SEQUENCE_NUMBER" in course.lines


@pytest.mark.parametrize(("client", "kafka"), LOSES)
def test_2_0_gives_one_sequence_to_two_batches(client: str, kafka: str) -> None:
    """The next id's: `b`, of the id before, has failed in between (KAFKA-8484)."""
    course, _ = recorded(client, kafka)
    assert sequences(course, "e") == sequences(course, "f")
    assert course.told["e"] == course.told["f"] == "stored 4"
    assert sequences(course, "b")[-1] != sequences(course, "d")[0]
    failed = course.lines.index("= b: failed OutOfOrderSequenceException")
    assert course.lines.index(f"PRODUCE e, {sequences(course, 'e')[0]}") < failed


@pytest.mark.parametrize(("client", "kafka"), KEEPS)
def test_later_clients_give_each_its_own(client: str, kafka: str) -> None:
    course, _ = recorded(client, kafka)
    last = [sequences(course, record)[-1] for record in "def"]
    assert len({*last}) == 3
    assert [course.told[record].split()[0] for record in "def"] == ["stored"] * 3


def test_only_what_was_acknowledged_and_is_not_there_is_lost() -> None:
    course, _ = recorded("2.0.0", "2.0.0")
    assert replace(course, stored=(*course.stored, "f")).lost == []
    assert replace(course, told={**course.told, "f": "failed TimeoutException"}).lost == []
    assert replace(course, stored=course.stored[:-1]).lost == ["e", "f"]
    assert replace(course, stored=()).report()["verdict"] == "violated"


def test_a_release_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--kafka", "1.2.3"])
    assert ended.value.code == 2
    assert "2.0.0" in capsys.readouterr().err
