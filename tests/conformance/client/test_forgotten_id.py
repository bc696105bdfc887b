"""A Java client that gives its producer id back: what clients and brokers of some releases did."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.client.forgotten_id import RECORDS, Course, Network, cut, main, payloads
from conformance.client.proxy import HOST
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, encode_request, encode_response
from impl.protocol.primitives import frame
from impl.protocol.record_batch import Record, client_batch, encode_batch
from impl.protocol.schemas import ApiKey

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


# The network

NONE, OUT_OF_ORDER = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
VERSION = 8


def produce(record: str, producer_id: int, correlation_id: int) -> bytes:
    value = Record(0, 0, None, record.encode())
    batch = client_batch([value], producer_id=producer_id, producer_epoch=0, base_sequence=0)
    rows = [{"index": 0, "records": encode_batch(batch)}]
    body = {"acks": -1, "timeout_ms": 1, "topics": [{"name": "records", "partitions": rows}]}
    body |= {"transactional_id": None}
    return encode_request(ApiKey.PRODUCE, VERSION, correlation_id, "client", body)


def answer(error: ErrorCode, correlation_id: int) -> bytes:
    row = {"index": 0, "error_code": error, "base_offset": 0, "log_append_time_ms": -1}
    row |= {"log_start_offset": 0, "record_errors": [], "error_message": None}
    body = {"responses": [], "topics": [{"name": "records", "partitions": [row]}]}
    body |= {"throttle_time_ms": 0}
    return encode_response(ApiKey.PRODUCE, VERSION, correlation_id, body)


class Served:
    """A broker that answers one request after the other, with scripted errors."""

    def __init__(self, *errors: ErrorCode) -> None:
        self._errors = iter(errors)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for request in payloads(reader):
            header, _ = decode_request(request)
            writer.write(frame(answer(next(self._errors), header["correlation_id"])))
        await cut(writer)


async def heard(reader: asyncio.StreamReader, timeout_s: float) -> int | None:
    """The correlation id of the next answer; None if none comes."""
    try:
        async with asyncio.timeout(timeout_s):
            size = int.from_bytes(await reader.readexactly(4), "big")
            return int.from_bytes((await reader.readexactly(size))[:4], "big")
    except TimeoutError:
        return None


async def test_first_answers_are_lost_and_later_ones_about_old_batches_wait() -> None:
    broker = Served(NONE, NONE, NONE, OUT_OF_ORDER, OUT_OF_ORDER, NONE, NONE)
    server = await asyncio.start_server(broker, HOST, 0)
    async with server, Network() as network:
        network.port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(HOST, network.own_port)
        for number, record in enumerate("abc"):
            assert not network.all_stored.is_set()
            writer.write(frame(produce(record, 7, number)))
            assert await heard(reader, GLANCE_S) is None
        assert network.all_stored.is_set()
        writer.write(frame(produce("a", 7, 3)))
        assert await heard(reader, LONG_S) == 3
        writer.write(frame(produce("b", 7, 4)) + frame(produce("d", 8, 5)))
        assert await heard(reader, GLANCE_S) is None
        writer.write(frame(produce("e", 8, 6)))
        assert [await heard(reader, LONG_S) for _ in range(3)] == [4, 5, 6]
        await cut(writer)
    assert [line for _, line in network.lines if "lost" in line] == [
        f"    {record}: NONE, lost" for record in "abc"
    ]


GLANCE_S, LONG_S = 0.1, 20.0
