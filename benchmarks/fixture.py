"""How long a suite of tests with the fixture `kafka` takes: `python -m benchmarks.fixture`.

Each test has a broker of its own, and writes one record with a client that the test starts; with
`none` it only has the broker. A suite is one file, run by pytest in a process of its own: seconds
are those of the whole process, its imports included. kafka-python 3.0.12 asks for a topic 100 ms
after its first metadata, whatever its settings: that is 10 s of 100 tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import (
    Time,
    alternate,
    count_option,
    measure_time,
    median_time,
    processor_seconds,
    run_benchmark,
)

TESTS: Final[Mapping[str, str]] = {
    "none": """
@tests
def test_it_runs(kafka, number):
    assert kafka.bootstrap_servers
""",
    "kafka-python": """
from kafka import KafkaProducer

@tests
def test_it_writes(kafka, number):
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("orders", b"one coffee").get(timeout=10)
""",
    "confluent-kafka": """
from confluent_kafka import Producer

@tests
def test_it_writes(kafka, number):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", b"one coffee")
    assert producer.flush(10) == 0
""",
    "aiokafka": """
import asyncio
from aiokafka import AIOKafkaProducer

async def write(address):
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        await producer.send_and_wait("orders", b"one coffee")

@tests
def test_it_writes(kafka, number):
    asyncio.run(write(kafka.bootstrap_servers))
""",
}
"""A suite of each client."""

HEAD: Final = """
import pytest
tests = pytest.mark.parametrize("number", range({tests}))
"""


class FailedSuite(Exception):
    """A suite did not pass; the message is what pytest said."""


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Run each suite in each round, and print the medians."""
    rounds = alternate(list(TESTS), asked.rounds, lambda name: run_suite(name, asked.tests))
    print(f"{asked.tests} tests with a broker each; seconds of the clock, and of processors:")
    medians = {name: median_time(found) for name, found in rounds.items()}
    for name, time in medians.items():
        print(f"  {name:<16} {time.seconds:>6.2f} {time.cpu_seconds:>6.2f}")
    return {"tests": asked.tests, "suites": {name: t._asdict() for name, t in medians.items()}}


def run_suite(name: str, tests: int) -> Time:
    """One suite. Raises FailedSuite."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "test_orders.py"
        file.write_text(HEAD.format(tests=tests) + TESTS[name], encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
        run = partial(
            subprocess.run, command, cwd=folder, capture_output=True, text=True, check=False
        )
        time, said = measure_time(run, processor_seconds)
    if said.returncode:
        raise FailedSuite(f"{name}: {said.stdout[-2000:]}{said.stderr[-500:]}")
    return time


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--tests": count_option(100, "tests of a suite"),
    "--rounds": count_option(3, "times that each suite runs"),
}


def main(words: list[str] | None = None) -> int:
    """Run the command."""
    return run_benchmark("fixture", __doc__, OPTIONS, measure, (FailedSuite,), words)


if __name__ == "__main__":
    sys.exit(main())
