"""Settings of groups and of client metrics: requests, and what real brokers answered.

`python -m tests.impl.broker.resource_recording RELEASE > FILE` asks a broker that it starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from conformance.adapters.brokers.kafka.administration import await_applied
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl.protocol.schemas import ApiKey
from tests.impl.broker.admin_recording import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    Ask,
    Request,
    change,
    describe,
    normalized,
    resources,
)

METRICS, GROUP = 16, 32
CHANGING = (ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS)
BOUNDS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.session.timeout.ms": "46000",
}
"""Settings of the broker that is asked."""

SESSION, BEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
VALUES = {
    SESSION: ("1000", "999", "60000", "60001", "0", "x", " 2000 ", "+3000", ""),
    BEAT: ("500", "499", "15000", "15001", "0"),
    INTERVAL: ("0", "-1", "15000", "15001"),
    "share.session.timeout.ms": ("45000", "44999", "60000", "60001", "0"),
    "share.heartbeat.interval.ms": ("5000", "4999", "15000", "15001", "0"),
    "share.record.lock.duration.ms": ("15000", "14999", "60000", "60001", "999"),
    "share.delivery.count.limit": ("2", "1", "10", "11"),
    "share.partition.max.record.locks": ("100", "99", "10000", "10001"),
    "share.auto.offset.reset": (
        "earliest",
        "EARLIEST",
        "by_duration:PT1H",
        "by_duration:P1DT2H3M4.5S",
        "by_duration:-PT1H",
        "by_duration:x",
        "none",
    ),
    "share.isolation.level": ("read_committed", "READ_COMMITTED", "nope"),
    "share.renew.acknowledge.enable": ("false", "TRUE", "x"),
    "share.assignment.interval.ms": ("0", "-1", "15000", "15001"),
    "streams.session.timeout.ms": ("45000", "44999", "60000", "60001", "0"),
    "streams.heartbeat.interval.ms": ("5000", "4999", "15000", "15001", "0"),
    "streams.num.standby.replicas": ("2", "3", "0", "-1"),
    "streams.initial.rebalance.delay.ms": ("0", "-1", "999999"),
    "streams.assignment.interval.ms": ("0", "-1", "15000", "15001"),
}
"""At their limits, and beyond."""

METRICS_VALUES = {
    "interval.ms": ("100", "99", "3600000", "3600001", "x"),
    "metrics": ("*", "a.b,c", ""),
    "match": ("client_id=a.*,client_source_port=1", "nope=1", "client_id", "client_id=(", ""),
}


def replace_all(kind: int, name: str, *rows: tuple[str, str | None]) -> Request:
    configs = [{"name": n, "value": v} for n, v in rows]
    row = {"resource_type": kind, "resource_name": name, "configs": configs}
    return ApiKey.ALTER_CONFIGS, 2, {"resources": [row], "validate_only": False}


REQUESTS: list[Request] = [
    describe(GROUP, "g"),
    describe(GROUP, "g", SESSION, "nope", version=1),
    describe(GROUP, "g", SESSION, synonyms=False),
    change(GROUP, "g", (SESSION, SET, "50000")),
    change(GROUP, "g", (BEAT, SET, "7000"), ("share.auto.offset.reset", SET, "earliest")),
    describe(GROUP, "g"),
    describe(GROUP, "other", SESSION),
    resources(0),
    resources(1, GROUP),
    resources(1, METRICS),
    resources(1, METRICS, GROUP),
    *(change(GROUP, "v", (name, SET, value)) for name, some in VALUES.items() for value in some),
    describe(GROUP, "v"),
    change(GROUP, "g", (SESSION, SET, "5000")),
    change(GROUP, "g", (SESSION, SET, "7000")),
    change(GROUP, "g", (SESSION, SET, "7001"), only=True),
    change(GROUP, "g", (SESSION, SET, "7001"), (BEAT, SET, "8000")),
    change(GROUP, "g", ("nope", SET, "1"), (SESSION, SET, "1")),
    change(GROUP, "g", ("nope", DELETE, None)),
    change(GROUP, "g", (SESSION, SET, None)),
    change(GROUP, "g", (SESSION, APPEND, "1")),
    change(GROUP, "g", (SESSION, SUBTRACT, "1")),
    change(GROUP, "g", ("nope", APPEND, "1")),
    change(GROUP, "g", (SESSION, 7, "1")),
    change(GROUP, "g", (SESSION, SET, "1"), (SESSION, DELETE, None)),
    change(GROUP, "", (SESSION, SET, "50000")),
    describe(GROUP, ""),
    describe(GROUP, "g", SESSION),
    change(GROUP, "g", (SESSION, DELETE, None)),
    describe(GROUP, "g", SESSION),
    replace_all(GROUP, "g", (BEAT, "9000")),
    describe(GROUP, "g"),
    replace_all(GROUP, "g", ("nope", "9000")),
    replace_all(GROUP, "g", (BEAT, None)),
    replace_all(GROUP, "", (BEAT, "9000")),
    replace_all(GROUP, "g"),
    describe(GROUP, "g", BEAT),
    change(GROUP, "empty"),
    replace_all(GROUP, "empty"),
    resources(1, GROUP),
    describe(METRICS, "m"),
    describe(METRICS, ""),
    *(
        change(METRICS, "m", (name, SET, value))
        for name, some in METRICS_VALUES.items()
        for value in some
    ),
    describe(METRICS, "m"),
    change(METRICS, "m", ("nope", SET, "1")),
    change(METRICS, "", ("interval.ms", SET, "1000")),
    change(METRICS, "m", ("metrics", APPEND, "d")),
    change(METRICS, "m", ("metrics", SUBTRACT, "d")),
    change(METRICS, "m", ("interval.ms", APPEND, "1")),
    change(METRICS, "m", ("interval.ms", SET, None)),
    change(METRICS, "m", ("interval.ms", SET, "2000"), only=True),
    describe(METRICS, "m", "interval.ms", "match"),
    resources(0),
    resources(1, METRICS),
    replace_all(METRICS, "m", ("interval.ms", "3000")),
    describe(METRICS, "m"),
    replace_all(METRICS, "m"),
    describe(METRICS, "m", synonyms=False),
    resources(1, METRICS),
]


def record(ask: Ask) -> Iterator[list[Any]]:
    """Each request with its answer."""
    for api_key, version, body in REQUESTS:
        yield [api_key.name, version, body, normalized(ask(api_key, version, body))]


def recorded_of(release: str) -> list[list[Any]]:
    """What a real broker of the release answers."""
    with KafkaBroker(release, properties=BOUNDS) as broker, broker.connect() as connection:

        def ask(api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
            answer = connection.ask(api_key, version, body)
            if api_key in CHANGING:
                await_applied(connection.ask)
            return answer

        return list(record(ask))


def main() -> None:
    rows = ",\n".join(json.dumps(row) for row in recorded_of(sys.argv[1]))
    print(f"[\n{rows}\n]")


if __name__ == "__main__":
    main()
