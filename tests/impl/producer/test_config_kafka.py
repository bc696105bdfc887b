"""Every combination of what idempotence looks at, in our hands and in Kafka's ProducerConfig."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import pytest

from impl.producer import ConfigError, ProducerConfig
from tests.impl.jars import Unavailable, jars

pytestmark = pytest.mark.slow  # Java

RELEASE = "4.3.1"
UNSET = object()

IDEMPOTENCE = {
    "enable_idempotence": (UNSET, True, False),
    "acks": (UNSET, "all", "-1", "0", "1", "2"),
    "retries": (UNSET, 0, 1, 2**31 - 1),
    "max_in_flight_requests_per_connection": (UNSET, 1, 5, 6),
    "transactional_id": (UNSET, None, "t"),
}
TIMES = {
    "linger_ms": (UNSET, 0, 50, 2**31 - 1, 2**31, 2**63 - 1),
    "request_timeout_ms": (UNSET, 0, 100_000, 130_000),
    "delivery_timeout_ms": (UNSET, 0, 100_050, 100_049, 120_000),
}


NUMBERS = (
    "retries",
    "max_in_flight_requests_per_connection",
    "linger_ms",
    "request_timeout_ms",
    "delivery_timeout_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "batch_size",
    "max_request_size",
    "buffer_memory",
    "max_block_ms",
    "transaction_timeout_ms",
)
EDGES = (-(2**63), -(2**31) - 1, -(2**31), -1, 0, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63)


def combinations(table):
    for values in product(*table.values()):
        pairs = zip(table, values, strict=True)
        yield {name: value for name, value in pairs if value is not UNSET}


def ours(settings):
    try:
        config = ProducerConfig.of(**settings)
    except ConfigError:
        return "refused"
    return (
        f"{str(config.enable_idempotence).lower()} {config.acks} {config.retries}"
        f" {config.max_in_flight_requests_per_connection} {config.delivery_timeout_ms}"
    )


def line(settings):
    """The settings as the program reads them."""
    words = []
    for name, value in settings.items():
        key = name.replace("_", ".")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words.append(key if value is None else f"{key}={text}")
    return " ".join(words)


ASKED = {
    "idempotence": list(combinations(IDEMPOTENCE)),
    "times": list(combinations(TIMES)),
    "edges": [{name: value} for name in NUMBERS for value in EDGES],
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_kafka_decides_the_same(asked):
    try:
        storage = jars(f"kafka-storage-{RELEASE}", {"org.apache.kafka:kafka-storage": RELEASE})
    except Unavailable as reason:
        pytest.skip(str(reason))
    program = str(Path(__file__).parent / "Configs.java")
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{storage}/*", program],
        input="\n".join(map(line, asked)) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = done.stdout.splitlines()
    assert len(theirs) == len(asked)
    different = [
        (settings, mine, other)
        for settings, mine, other in zip(asked, map(ours, asked), theirs, strict=True)
        if mine != other
    ]
    assert different == []
    assert 0 < theirs.count("refused") < len(theirs)
