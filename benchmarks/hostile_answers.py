"""Hostile frames, answered as Kafka answers: `python -m benchmarks.hostile_answers`.

The frames of `benchmarks.hostile_frames` are sent to our broker and to a real Kafka, over sockets.
Ours may close a connection where Kafka answers; where it answers, its error codes must be Kafka's.
Exit code 1 if they are not.

Every `CHAPTER_FRAMES` both begin anew. What differs is sent again, to two new brokers: only what
differs by itself counts, for Kafka may have taken a frame that ours has closed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.hostile.comparing import Address, Comparison, compare, prepare
from benchmarks.live.running import BROKERS, Missing, Running
from benchmarks.measuring import count_option, run_benchmark
from impl import Node, NodeConfig
from impl.broker.producer_ids import ProducerIdBlocks
from impl.broker.server import Server
from impl.coordinator.config import TransactionConfig
from impl.coordinator.group_config import OffsetsConfig

CHAPTER_FRAMES: Final = 250
AFTER_OTHERS: Final = "differs after others"

CONFIG: Final = NodeConfig(
    host="127.0.0.1",
    port=0,
    auto_create_topics=False,
    offsets=OffsetsConfig(num_partitions=1),
    transactions=TransactionConfig(num_partitions=1),
)
"""What the real broker's recipe sets as well."""


class AnsweredOtherwise(Exception):
    """Frames that our broker answers otherwise than Kafka."""


def compare_all(first: int, count: int, seed: int) -> Comparison:
    """Compare, and say on stderr how far it is. Raises Missing, KafkaError."""
    BROKERS["kafka"].prepare()
    total = Comparison()
    for number in range(first, first + count, CHAPTER_FRAMES):
        numbers = range(number, min(number + CHAPTER_FRAMES, first + count))
        chapter = _compare_at_new_brokers(numbers, seed)
        for finding in chapter.findings[:]:
            number = finding.number
            if not _compare_at_new_brokers(range(number, number + 1), seed).findings:
                chapter.findings.remove(finding)
                chapter.outcomes.subtract(("finding",))
                chapter.outcomes.update((AFTER_OTHERS,))
                print(f"{AFTER_OTHERS}: {finding.text}", file=sys.stderr)
        total.add(chapter)
        print(f"{total.frames:,} frames; the next is --first {numbers.stop}", file=sys.stderr)
    return total


def _compare_at_new_brokers(numbers: range, seed: int) -> Comparison:
    with BROKERS["kafka"].starts_fast() as broker:
        return asyncio.run(_compare_chapter(numbers, seed, broker))


async def _compare_chapter(numbers: range, seed: int, kafka: Running) -> Comparison:
    """Producer ids begin at 0, as those of a new Kafka: frames name them."""
    async with Server(CONFIG, make_node=lambda me: Node(me, blocks=ProducerIdBlocks())) as server:
        ours: Address = ("127.0.0.1", server.port)
        await asyncio.gather(prepare(ours), prepare(kafka.address))
        return await compare(numbers, seed, ours, kafka.address)


@contextmanager
def _silence(name: str) -> Iterator[None]:
    """No warnings of this logger meanwhile."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Compare, and print what became of the frames. Raises AnsweredOtherwise."""
    with _silence("impl"):  # it says why it closes a connection
        total = compare_all(asked.first, asked.frames, asked.seed)
    print(f"{total.frames:,} frames")
    for name, count in (*total.outcomes.most_common(), *total.known.most_common()):
        print(f"  {name:<45} {count:>8,}")
    if total.findings:
        raise AnsweredOtherwise(
            "\n".join(
                [f"{len(total.findings)} findings", *(each.text for each in total.findings[:50])]
            )
        )
    return {
        "frames": total.frames,
        "first": asked.first,
        "seed": asked.seed,
        "outcomes": dict(total.outcomes),
        "known": dict(total.known),
    }


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--frames": count_option(2_000, "frames"),
    "--first": {"type": int, "default": 0, "help": "number of the first one (0)"},
    "--seed": {"type": int, "default": 0, "help": "of the random source (0)"},
}


def main(words: list[str] | None = None) -> int:
    """Run the command."""
    refusals = (AnsweredOtherwise, Missing)
    return run_benchmark("hostile_answers", __doc__, OPTIONS, measure, refusals, words)


if __name__ == "__main__":
    sys.exit(main())
