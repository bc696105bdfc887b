"""What a real Kafka of one node answers about its cluster.

`python -m tests.impl.broker.clustered_kafka` records it.
"""

from __future__ import annotations

import json
import socket
from functools import partial
from pathlib import Path
from typing import Any

from conformance.adapters.brokers.kafka.administration import await_applied
from conformance.adapters.brokers.kafka.broker import KafkaBroker
from impl.protocol.schemas import ApiKey
from tests.impl.broker.cluster_recording import LOG_DIR, record
from tests.impl.broker.secured_kafka import exchange

RECORDED = Path(__file__).with_name("recorded_cluster") / "kafka-4.3.1.json"
APPLIED_LATER = (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.ALTER_CLIENT_QUOTAS)


def record_real() -> list[Any]:
    """The answers of a broker that is started for it."""
    with (
        KafkaBroker() as broker,
        socket.create_connection(broker.address, timeout=30) as connection,
    ):
        described = exchange(connection, ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None})
        [directory] = described["results"]

        def ask(api_key: ApiKey, version: int, body: dict[str, Any]) -> Any:
            asked = with_log_dir(body, directory["log_dir"])
            answer = exchange(connection, api_key, version, asked)
            if api_key in APPLIED_LATER:
                await_applied(partial(exchange, connection))
            return answer

        rows: list[Any] = json.loads(json.dumps(list(record(ask))))
        return rows


def with_log_dir(body: dict[str, Any], path: str) -> dict[str, Any]:
    """A request about the log directory that there is."""
    rows = [row | {"path": path} if row["path"] == LOG_DIR else row for row in body.get("dirs", ())]
    return body | {"dirs": rows} if rows else body


def main() -> None:
    rows = ",\n".join(json.dumps(row) for row in record_real())
    RECORDED.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
