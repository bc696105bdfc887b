"""`kafka-eos serve` on a directory, in a process that can be killed; and single requests to it."""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.adapters.brokers.kafka.ports import free_ports
from conformance.campaigns.kills.parent import end_with
from conformance.campaigns.kills.workload import (
    HEARTBEAT_INTERVAL_MS,
    PARTITIONS,
    SESSION_TIMEOUT_MS,
    TOPIC,
)
from impl.broker import serve
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey

Main = Callable[[Sequence[str]], None]
"""Serves with the arguments of `kafka-eos serve`."""

SETTINGS: Final = {
    "group.min.session.timeout.ms": SESSION_TIMEOUT_MS,
    "group.consumer.session.timeout.ms": SESSION_TIMEOUT_MS,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}
"""Timers begin anew when a broker starts. With Kafka's defaults a broker that lives for seconds
would never expire a member that is gone, or a transaction."""

HOST: Final = "127.0.0.1"
ANSWER_S: Final = 10.0
PAUSE_S: Final = 0.02


class BrokerProcess:
    """The broker's process, forked from a process that has imported everything, so that it starts
    at once."""

    def __init__(self, directory: Path, main: Main, log: Path) -> None:
        """The process's output is appended to `log`."""
        self._main = main
        self._log = log
        (self.port,) = free_ports(1)
        self._arguments = [
            *("--dir", str(directory), "--listen", self.address),
            *("--flush-messages", "1", "--no-auto-create"),
        ]
        for name, value in SETTINGS.items():
            self._arguments += ["--config", f"{name}={value}"]
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["impl.broker.serve"])

    async def start(self) -> None:
        """Start, and wait until it serves. Raises `BrokerFailed`."""
        arguments = (self._main, self._arguments, self._log, os.getpid())
        self._process = self._processes.Process(target=_serve_logged, args=arguments)
        self._process.start()
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, self.port)
                writer.close()
                return
            if not self._process.is_alive():
                code = self._process.exitcode
                raise BrokerFailed(f"the broker ended with exit code {code}: see {self._log}")
            await asyncio.sleep(0.005)

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process.is_alive()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.join()

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.port}"


def _serve_logged(main: Main, arguments: Sequence[str], log: Path, run: int) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    end_with(run)
    main(arguments)


def serve_directory(arguments: Sequence[str]) -> None:
    """`kafka-eos serve`."""
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    sys.exit(serve.execute(parser.parse_args(arguments)))


# ---- requests


async def ask(port: int, api_key: ApiKey, version: int, body: Value) -> Value:
    """The answer to one request, on a connection of its own. Raises `OSError`, `EOFError`."""
    async with asyncio.timeout(ANSWER_S):
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            writer.write(frame(encode_request(api_key, version, 1, "kills", body)))
            size = int.from_bytes(await reader.readexactly(4), "big")
            return decode_response(api_key, version, await reader.readexactly(size))[1]
        finally:
            writer.close()


async def request_producer_id(port: int) -> int:
    """A producer id of the broker, requested until it has one. Raises as `ask`."""
    body = {"transactional_id": None, "transaction_timeout_ms": 1000}
    while True:
        answer = await ask(port, ApiKey.INIT_PRODUCER_ID, 5, body)
        if answer["error_code"] == ErrorCode.NONE:
            return int(answer["producer_id"])
        await asyncio.sleep(PAUSE_S)


async def create_topics(port: int, topics: Mapping[str, int], segment_bytes: int) -> None:
    """Create topics, each with its number of partitions. Raises as `ask`."""
    configs = [{"name": "segment.bytes", "value": str(segment_bytes)}]
    rows = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
        for name, partitions in topics.items()
    ]
    await ask(port, ApiKey.CREATE_TOPICS, 7, {"topics": rows})


async def open_transactions(port: int) -> list[dict[str, Any]]:
    """The transactions that have not ended, according to ListTransactions. Raises as `ask`."""
    states = ["Ongoing", "PrepareCommit", "PrepareAbort"]
    body = {"state_filters": states, "producer_id_filters": []}
    answer = await ask(port, ApiKey.LIST_TRANSACTIONS, 0, body)
    return list(answer["transaction_states"])


async def fetch_offsets(port: int, group: str) -> dict[int, int]:
    """The offsets of a group by partition, for partitions with an offset. Raises as `ask`."""
    asked = {"name": TOPIC, "partition_indexes": list(range(PARTITIONS))}
    body = {"groups": [{"group_id": group, "topics": [asked]}], "require_stable": False}
    while True:
        answer = await ask(port, ApiKey.OFFSET_FETCH, 8, body)
        found = answer["groups"][0]
        if found["error_code"] == ErrorCode.NONE:
            break
        await asyncio.sleep(PAUSE_S)
    rows = (row for topic in found["topics"] for row in topic["partitions"])
    return {
        row["partition_index"]: row["committed_offset"]
        for row in rows
        if row["committed_offset"] >= 0
    }


async def describe_broker(port: int, groups: Iterable[str]) -> dict[str, Any]:
    """The broker's state, to explain why a client stands still. Raises as `ask`."""
    partitions = [{"partition_index": n, "timestamp": -1} for n in range(PARTITIONS)]
    found: dict[str, Any] = {"open_transactions": await open_transactions(port)}
    for name, level in (("end_offsets", 0), ("last_stable_offsets", 1)):
        topics = [{"name": TOPIC, "partitions": partitions}]
        body = {"replica_id": -1, "isolation_level": level, "topics": topics}
        found[name] = await ask(port, ApiKey.LIST_OFFSETS, 7, body)
    named = list(groups)
    body = {"groups": named, "include_authorized_operations": False}
    found["groups"] = await ask(port, ApiKey.DESCRIBE_GROUPS, 5, body)
    body = {"group_ids": named, "include_authorized_operations": False}
    found["consumer_groups"] = await ask(port, ApiKey.CONSUMER_GROUP_DESCRIBE, 0, body)
    found["offsets"] = {group: await fetch_offsets(port, group) for group in named}
    return found
