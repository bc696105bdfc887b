"""Hostile frames at two brokers: what only one of them does is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import hostile_answers
from benchmarks.hostile.comparing import CLOSED, NOTHING, Comparison, compare, judge, prepare
from benchmarks.hostile_answers import CONFIG
from impl import Node
from impl.broker.producer_ids import ProducerIdBlocks
from impl.broker.server import Server
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

SEED = 20


class OtherNode(Node):
    """Says of no topic that it is unknown."""

    def answer(self, request: Any, body: Any) -> None:
        """Answer otherwise."""
        if request.api_key is ApiKey.LIST_OFFSETS and body:
            for topic in body["topics"]:
                for row in topic["partitions"]:
                    row["error_code"] = ErrorCode.NONE
        super().answer(request, body)


async def compared(numbers: range, *kinds: Callable[..., Node]) -> Comparison:
    ours, theirs = (
        Server(CONFIG, make_node=lambda me, kind=kind: kind(me, blocks=ProducerIdBlocks()))
        for kind in kinds
    )
    async with ours, theirs:
        addresses = [("127.0.0.1", server.port) for server in (ours, theirs)]
        for address in addresses:
            await prepare(address)
        return await compare(numbers, SEED, addresses[0], addresses[1])


def test_equal_brokers_are_the_same() -> None:
    comparison = asyncio.run(compared(range(60), Node, Node))
    assert comparison.findings == []
    assert comparison.outcomes["same"] + comparison.outcomes["left out"] == 60


def test_another_answer_is_found() -> None:
    comparison = asyncio.run(compared(range(150), OtherNode, Node))
    assert comparison.findings
    assert all("API 2)" in finding.text for finding in comparison.findings)


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        (CLOSED, CLOSED, "same"),
        (CLOSED, "[('', 3)]", "closed by ours alone"),
        ("[('', 3)]", NOTHING, "not answered by Kafka"),
        ("[('', 3)]", "[('', 7)]", "known"),
        ("[('', 3)]", CLOSED, "finding"),
        (NOTHING, "[('', 3)]", "finding"),
    ],
)
def test_outcomes(ours: str, theirs: str, outcome: str) -> None:
    assert judge(ApiKey.METADATA, ours, theirs)[0] == outcome


@pytest.mark.kafka
def test_a_real_kafka_answers_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert hostile_answers.main(["--frames", "120", "--first", "2250"]) == 0
    assert "120 frames" in capsys.readouterr().out
