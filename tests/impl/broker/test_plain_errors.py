"""What a `Broker` refuses ends at the call: one clear error, and no frame of its insides."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from inspect import isfunction
from pathlib import Path
from typing import Any, Final

import pytest

from impl import Broker, CutFault, DelayFault, DropFault, ErrorFault
from impl.broker import plain_errors
from impl.broker.cluster import Cluster

Call = Callable[[Any], Any]

REFUSED: Final[Mapping[str, tuple[Call, str]]] = {
    "log": (lambda kafka: kafka.log("order"), "unknown topic 'order': did you mean 'orders'?"),
    "log of another": (lambda kafka: kafka.log("nope"), "unknown topic 'nope'; known: orders"),
    "log of a partition": (
        lambda kafka: kafka.log("orders", 4),
        "unknown partition 4: topic 'orders' has 0 to 1",
    ),
    "log of no topic": (lambda kafka: kafka.log(""), "log(topic) must be text"),
    "move_leader": (
        lambda kafka: kafka.move_leader("orders", 0, 9),
        "unknown node 9; known: 1",
    ),
    "create_topic": (lambda kafka: kafka.create_topic("a/b"), "Topic name is invalid: 'a/b'"),
    "create_topic again": (lambda kafka: kafka.create_topic("orders"), "already exists"),
    "stop_node": (lambda kafka: kafka.stop_node(9), "must be a running node: 1, is 9"),
    "start_node": (lambda kafka: kafka.start_node(9), "a node that was stopped: none"),
    "bootstrap_servers_of": (
        lambda kafka: kafka.bootstrap_servers_of("SSL"),
        "a listener of this broker: PLAINTEXT",
    ),
    "clock.advance": (lambda kafka: kafka.clock.advance(-1), "an integer from 0"),
    "faults.add": (lambda kafka: kafka.faults.add("cut"), "must be one of CutFault(...)"),
    "CutFault": (lambda kafka: CutFault("Produc"), "did you mean 'Produce'?"),
    "DropFault": (lambda kafka: DropFault("Fetch", nth=0), "an integer from 1"),
    "DelayFault": (lambda kafka: DelayFault("Fetch", -1), "an integer from 0"),
    "ErrorFault": (lambda kafka: ErrorFault("Fetch", "NOPE"), "unknown error 'NOPE'"),
    "Broker": (lambda kafka: Broker(nodes=0), "an integer from 1"),
    "Broker with a setting": (
        lambda kafka: Broker(settings={"max.connection": "1"}),
        "did you mean 'max.connections'?",
    ),
    "__enter__": (lambda kafka: kafka.__enter__(), "serves already"),
}

REFUSE_NOTHING: Final = {"nodes", "release", "listeners", "has_tls", "format_timeline", "tls"}
"""What a broker that serves, without TLS, has an answer for."""


async def do(call: Call, kafka: Broker) -> None:
    """Call, and wait for what is to be awaited."""
    answer = call(kafka)
    if asyncio.iscoroutine(answer):
        await answer


def frames_below(error: BaseException) -> list[str]:
    """The files of the frames of an error, without the calls of this test."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.filename for frame in frames if frame.filename != __file__]


def assert_plain(error: BaseException, said: str) -> None:
    assert said in str(error)
    assert set(frames_below(error)) <= {plain_errors.__file__}
    assert error.__cause__ is None
    assert error.__suppress_context__


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_has_no_frames_of_the_broker(name: str) -> None:
    call, said = REFUSED[name]
    with Broker(topics={"orders": 2}) as kafka, pytest.raises(Exception) as refused:  # noqa: PT011
        call(kafka)
    assert_plain(refused.value, said)


@pytest.mark.parametrize("name", REFUSED)
async def test_nor_has_one_on_the_event_loop_of_the_caller(name: str) -> None:
    call, said = REFUSED[name]
    async with Broker(topics={"orders": 2}) as kafka:
        with pytest.raises(Exception) as refused:  # noqa: PT011
            await do(call, kafka)
    assert_plain(refused.value, said)


@pytest.mark.parametrize(
    "call",
    [
        lambda kafka: kafka.bootstrap_servers,
        lambda kafka: kafka.create_topic("orders"),
        lambda kafka: kafka.log("orders"),
        lambda kafka: kafka.clock.advance(1),
        lambda kafka: kafka.format_timeline(),
    ],
)
def test_nor_has_one_before_the_block(call: Call) -> None:
    with pytest.raises(RuntimeError) as refused:
        call(Broker())
    assert_plain(refused.value, "in the block of `with Broker(...) as kafka`, which has not begun")


def test_each_public_name_of_a_broker_refuses_so() -> None:
    public = {name: value for name, value in vars(Broker).items() if not name.startswith("_")}
    calls = {name for name, value in public.items() if isfunction(value)}
    calls |= {name for name, value in public.items() if isinstance(value, property)}
    tried = {name.partition(" ")[0] for name in REFUSED} | {"bootstrap_servers"}
    assert calls - tried - REFUSE_NOTHING == set()
    for value in (*public.values(), Broker.__init__, Broker.__enter__, Broker.__aenter__):
        function = value.fget if isinstance(value, property) else value
        assert hasattr(function, "__wrapped__")


def test_a_defect_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(Cluster, "find", fail)
    with Broker() as kafka, pytest.raises(KeyError) as failed:
        kafka.log("orders")
    assert any(name.endswith("embedded.py") for name in frames_below(failed.value))


def test_a_failed_test_shows_its_own_line_alone(tmp_path: Path) -> None:
    file = tmp_path / "test_orders.py"
    file.write_text("def test_orders(kafka):\n    kafka.log('nope')\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "unknown topic 'nope'; known: none" in said
    assert "test_orders.py:2: UnknownPartitionOrBroker" in said
    assert "embedded.py" not in said
    assert "plain_errors.py" not in said
