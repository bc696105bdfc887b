"""Clients that crash at every step: their machine, the runs, and a real broker of 4.3.1."""

import asyncio
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.campaigns.exactly_once import consume_transform_produce
from conformance.campaigns.exactly_once.consume_transform_produce import (
    Attempt,
    crash_points,
    in_all,
    steps_of,
)
from conformance.campaigns.exactly_once.crashing_client import (
    RECEIVES,
    SENDS,
    ClientMessage,
    CrashingNetwork,
)
from conformance.judging.backend import BackendFailed
from impl.protocol.messages import encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey
from impl.simulator import job
from impl.simulator.job import Order
from tests.sizes import sized

VERB = "consume-transform-produce"
STEPS = [
    ClientMessage(direction, ApiKey.METADATA.name, nth)
    for nth, direction in product((1, 2), (SENDS, RECEIVES))
]
REPORT_KEYS = {"schema_version", "verb", "release", "level", "requests", "orders", "verdict", "run"}


# A machine, and a server that keeps what it is asked


class Answers:
    """Receives, and keeps what has come."""

    def __init__(self) -> None:
        self._come: asyncio.Queue[bytes | None] = asyncio.Queue()

    def receive(self, payload: bytes) -> None:
        self._come.put_nowait(payload)

    def lose(self, cause: Exception) -> None:
        self._come.put_nowait(None)

    async def next(self) -> bytes:
        payload = await self._come.get()
        if payload is None:
            raise ConnectionResetError
        return payload


async def three_questions(crash: ClientMessage | None) -> tuple[CrashingNetwork, int, int]:
    """A client asks three times: its network, what the server was asked, what the client heard."""
    asked = heard = 0
    is_over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        try:
            while True:
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                asked += 1
                writer.write(frame(b"answer"))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            is_over.set()

    network = CrashingNetwork(crash)
    question = encode_request(ApiKey.METADATA, 9, 1, "c", {"topics": []})
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = server.sockets[0].getsockname()
        answers = Answers()
        transport = await network.connect(*address, answers)
        try:
            for _ in range(3):
                transport.send(question)
                heard += await answers.next() == b"answer"
        except ConnectionResetError:
            with pytest.raises(ConnectionRefusedError):
                await network.connect(*address, answers)
        network.crash()
        await asyncio.wait_for(is_over.wait(), 10)
    return network, asked, heard


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_who_sends_has_sent_and_who_hears_has_not_heard(step: ClientMessage):
    network, asked, heard = asyncio.run(three_questions(step))
    assert network.has_crashed.is_set()
    assert network.steps[-1] == step
    assert network.steps == STEPS[: STEPS.index(step) + 1]
    assert (asked, heard) == (step.number, step.number - 1)


def test_a_client_without_a_crash_hears_all():
    network, asked, heard = asyncio.run(three_questions(None))
    assert (asked, heard, len(network.steps)) == (3, 3, 6)


def test_each_step_has_its_turn_and_then_one_with_another_life():
    assert [(c.step, c.attempts) for c in crash_points(STEPS, 6)] == [
        *((step, 1) for step in STEPS),
        (STEPS[0], 2),
        (STEPS[1], 2),
    ]
    assert [c.step for c in crash_points(STEPS, 2)] == [STEPS[0], STEPS[2]]


def test_steps_are_those_that_all_quiet_lives_have():
    repeated = ClientMessage(SENDS, ApiKey.METADATA.name, 3)
    attempts = [
        [Attempt((*STEPS, repeated), False, "")],
        [Attempt((repeated, *STEPS[1:]), False, "")],
    ]
    assert steps_of(attempts) == (*STEPS[1:], repeated)
    crashed, failed = Attempt((), True, ""), Attempt((), False, "it fails")
    assert in_all(STEPS, [crashed, failed]) == tuple(STEPS)
    assert in_all(STEPS, [crashed, attempts[1][0]]) == tuple(STEPS[1:])
    for wrong in ([Attempt((), False, "it fails")], [Attempt((), False, "")] * 2, []):
        with pytest.raises(BackendFailed, match="nothing happens to"):
            steps_of([*attempts, wrong])


# A real broker


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("requests", sized(["v1", "v2"], ["v1"]))
def test_each_result_is_there_once_and_without_a_transaction_not(requests: str, tmp_path: Path):
    file = tmp_path / "answer.json"
    asked = ["--kafka", "4.3.1", "--runs", "9", "--requests", requests]
    assert main([VERB, *asked, "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert report.keys() == REPORT_KEYS
    rows = report["orders"]
    whole = rows["transaction"]
    assert (whole["crash_steps"], whole["restless_runs"]) == (9, 0)
    assert whole["runs"] >= 9  # whose step never came is followed by another run
    assert (whole["lost"], whole["duplicated"], whole["out_of_order"]) == (0, 0, 0)
    asks = "sends ADD_PARTITIONS_TO_TXN 1" in whole["steps"]
    assert asks == (requests == "v1")
    for order in ("produce-then-commit", "commit-then-produce"):
        assert rows[order]["crash_steps"] == len(rows[order]["steps"]) <= rows[order]["runs"]
    assert rows["produce-then-commit"]["duplicated"] > 0 == rows["produce-then-commit"]["lost"]
    assert rows["commit-then-produce"]["lost"] > 0 == rows["commit-then-produce"]["duplicated"]
    crashed = report["run"]["orders"]["transaction"]["crashed"]
    assert 9 <= crashed <= whole["runs"]  # a run that another one repeats may have crashed as well


LOSING = [(RECEIVES, "OFFSET_COMMIT"), (SENDS, "PRODUCE"), (RECEIVES, "PRODUCE")]
"""Offsets are committed, and the transaction with the results is not."""


def steps_that_lose(quiet: Sequence[Sequence[Attempt]]) -> tuple[ClientMessage, ...]:
    return tuple(step for step in steps_of(quiet) if (step.direction, step.api) in LOSING)


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("java")
def test_offsets_outside_of_the_transaction_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A planted bug: the results are in a transaction, the offsets are committed before it.

    Clients crash where that loses results for certain: nine steps that are spread over all may each
    miss these, as rounds are as long as the steps are apart.
    """

    async def planted(job_, producer, consumer, results, offsets):
        await consumer.commit(offsets)
        async with producer.transaction():
            for partition, value in results:
                await producer.send(job_.output_topic, value, partition=partition)

    monkeypatch.setattr(job, "ROUNDS", {**job.ROUNDS, Order.TRANSACTION: planted})
    monkeypatch.setattr(consume_transform_produce, "steps_of", steps_that_lose)
    file = tmp_path / "answer.json"
    assert main([VERB, "--kafka", "4.3.1", "--runs", "9", "--json", str(file)]) == 1
    row = json.loads(file.read_text())["orders"]["transaction"]
    assert row["lost"] > 0 == row["duplicated"]
    assert set(row["wrong_after"]) == set(row["steps"]) - set(row["no_crash_at"])


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.usefixtures("java")
def test_without_time_nothing_is_decided_and_nothing_left_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    async def never_ends(job_, order, producer, consumer):
        await producer.start()
        await consumer.start()
        await asyncio.Event().wait()

    monkeypatch.setattr(consume_transform_produce, "_work_until_done", never_ends)
    monkeypatch.setattr(consume_transform_produce, "MOST_RUN_S", 0.3)
    assert main([VERB, "--kafka", "4.3.1", "--runs", "1"]) == 3
    assert "does not end its work" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--runs", "0"],
        ["--kafka", "1.0"],
        ["--level", "7"],
    ],
)
def test_bad_use(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main([VERB, *arguments]) == 2
    assert capsys.readouterr().err
