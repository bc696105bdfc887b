"""Kafka Streams at our broker: an application that is killed and goes on counts exactly once.

It uses a repartition topic, a changelog, transactions, and a classic group.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from threading import Timer

import pytest

from impl import Broker, Consumer, Producer
from tests.impl.jars import Unavailable, jars

pytestmark = pytest.mark.slow

RELEASE = "4.3.1"
PROGRAM = Path(__file__).with_name("Streams.java")
JVM_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
WORDS = ("to", "be", "or", "not")
TIMES = 50
SECONDS = 60


@contextmanager
def application(servers: str, name: str, state: Path) -> Iterator[subprocess.Popen[str]]:
    """One that runs, until the end of the block."""
    try:
        needed = {
            "org.apache.kafka:kafka-streams": RELEASE,
            "org.slf4j:slf4j-simple": "1.7.36",
        }
        path = jars(f"kafka-streams-{RELEASE}", needed)
    except Unavailable as missing:
        pytest.skip(str(missing))
    state.mkdir()
    options = [*JVM_OPTIONS, f"-Djava.io.tmpdir={state}", "-cp", f"{path}/*"]
    with (
        (state / "log").open("w") as log,
        subprocess.Popen(
            ["java", *options, str(PROGRAM), servers, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        too_late = Timer(SECONDS, process.kill)
        too_late.start()
        try:
            assert process.stdout.readline() == "running\n", (state / "log").read_text()[-3000:]
            too_late.cancel()
            yield process
            process.stdin.close()
            assert process.wait(SECONDS) in (0, -9)
        finally:
            too_late.cancel()
            process.kill()


async def write(servers: str) -> None:
    async with Producer(servers) as producer:
        for number in range(TIMES):
            for word in WORDS:
                await producer.send("words", word.encode(), partition=number % 4)


async def read_counts(servers: str, total: int, *, to_the_end: bool) -> dict[bytes, list[int]]:
    """The counts of each word that are committed, once there are so many."""
    counts: dict[bytes, list[int]] = defaultdict(list)

    async def read_some() -> bool:
        found = await consumer.getmany(timeout_ms=500)
        for record in chain.from_iterable(found.values()):
            counts[record.key].append(int(record.value))
        return bool(found)

    reading = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with (
        asyncio.timeout(SECONDS),
        Consumer("counts", bootstrap_servers=servers, **reading) as consumer,
    ):
        while sum(map(len, counts.values())) < total:
            await read_some()
        while to_the_end and await read_some():
            pass
    return counts


def test_an_application_that_is_killed_goes_on_and_counts_exactly_once(tmp_path: Path) -> None:
    with Broker(topics={"words": 4, "counts": 2}) as kafka:
        servers = kafka.bootstrap_servers
        with application(servers, "first", tmp_path / "first") as first:
            asyncio.run(write(servers))
            asyncio.run(read_counts(servers, TIMES, to_the_end=False))
            first.kill()
        with application(servers, "second", tmp_path / "second"):
            asyncio.run(write(servers))
            counts = asyncio.run(read_counts(servers, 2 * TIMES * len(WORDS), to_the_end=True))
        assert counts == {word.encode(): list(range(1, 2 * TIMES + 1)) for word in WORDS}
        names = {topic.name for topic in kafka.cluster.topics}
        assert {"counting-by-word-repartition", "counting-counted-changelog"} < names
