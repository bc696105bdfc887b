"""`python -m conformance.client.late_abort`: a real client, a batch that nobody answers, an abort.

An experiment, not a judge: the conversation is printed as it was, each request with the epoch and
the sequence it carries, each answer, each call of the application. The second record of the first
transaction is stored (or lost, with --lost), its answers are swallowed; the application calls
abortTransaction, and `delivery.timeout.ms` passes while that waits. Two transactions follow.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from conformance.client.plan import TOPIC
from conformance.client.processes import JVM_OPTIONS, client_jars
from conformance.client.proxy import CHUNK_BYTES, HOST, identity, rows_of
from impl.broker.config import NodeConfig
from impl.broker.node import Node
from impl.coordinator.config import TransactionConfig
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, decode_response
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import decode_batches
from impl.protocol.schemas import ApiKey
from proofs.java import find_java
from proofs.say import say

PROGRAM: Final = Path(__file__).with_name("LateAbort.java")
CONFIGURATIONS: Final = {
    "transactional.id": "late-abort",
    "acks": "all",
    "request.timeout.ms": "400",
    "delivery.timeout.ms": "1500",
    "retry.backoff.ms": "20",
    "retry.backoff.max.ms": "20",
    "reconnect.backoff.ms": "5",
    "reconnect.backoff.max.ms": "20",
    "max.block.ms": "30000",
}
ABORT_AFTER_MS: Final = 700
"""The request has timed out once, and was sent again."""
UNANSWERED: Final = b"b"
SILENT: Final = (ApiKey.API_VERSIONS, ApiKey.METADATA)
"""Requests that say nothing here."""


class Ear:
    """A node and its network: all that is asked and answered is kept as lines, and no Produce that
    carries the record UNANSWERED is answered; where it `loses`, the node never sees it."""

    def __init__(self, level: int, loses: bool) -> None:
        self.lines: list[tuple[int, str]] = []
        self._level = level
        self._loses = loses
        self._node: Node
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, HOST, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        self.bootstrap = f"{HOST}:{port}"
        rules = TransactionConfig(transaction_version=self._level)
        self._node = Node(NodeConfig(host=HOST, port=port, transactions=rules))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.gather(*self._serving)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unfinished = bytearray()
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                unfinished += chunk
                for payload in take_frames(unfinished):
                    answer = self._answered(payload)
                    if answer is not None:
                        writer.write(frame(answer))
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    def _answered(self, payload: bytes) -> bytes | None:
        key = int.from_bytes(payload[:2], "big")
        now_ms = time.time_ns() // 1_000_000
        if key in SILENT:
            return self._node.handle(payload, now_ms)
        header, body = decode_request(payload)
        name = f"{ApiKey(key).name} v{header['api_version']}"
        self._say(f"{name} {', '.join(asked(key, body))}")
        swallowed = key == ApiKey.PRODUCE and any(UNANSWERED in row for row in values_in(body))
        if swallowed and self._loses:
            self._say("    lost")
            return None
        answer = self._node.handle(payload, now_ms)
        if answer is not None:
            _, told = decode_response(*identity(header)[:2], answer)
            self._say(f"    {', '.join(said(told)) or 'NONE'}{', swallowed' * swallowed}")
        return None if swallowed else answer

    def _say(self, line: str) -> None:
        self.lines.append((time.monotonic_ns(), line))


def values_in(body: Value) -> Iterator[tuple[bytes | None, ...]]:
    """The values of each batch of a Produce request."""
    for _, row in rows_of(body):
        for batch in decode_batches(row["records"] or b""):
            yield tuple(record.value for record in batch.records)


def asked(key: int, body: Value) -> Iterator[str]:
    """What a request says of epochs, sequences and ends."""
    if key == ApiKey.PRODUCE:
        for _, row in rows_of(body):
            for batch in decode_batches(row["records"] or b""):
                values = b"".join(record.value or b"" for record in batch.records).decode()
                numbers = f"{batch.producer_id}:{batch.producer_epoch}"
                yield f"{numbers} sequence {batch.base_sequence} records {values}"
    elif "producer_id" in body:
        yield f"{body['producer_id']}:{body['producer_epoch']}"
    if "committed" in body:
        yield "commit" if body["committed"] else "abort"


def said(value: Value) -> Iterator[str]:
    """The errors of an answer, wherever they stand, and the producer id that it gives."""
    for name, field in value.items():
        if name == "error_code":
            yield ErrorCode(field).name
        elif name == "producer_id" and field >= 0:
            yield f"{field}:{value['producer_epoch']}"
        elif isinstance(field, list):
            for row in field:
                yield from said(row) if isinstance(row, dict) else ()


async def conversation(release: str, level: int, loses: bool) -> list[tuple[int, str]]:
    """The lines of one run, in the order of their times in nanoseconds. Raises MissingTool,
    FetchFailed."""
    settings = ",".join(f"{name}={value}" for name, value in CONFIGURATIONS.items())
    async with Ear(level, loses) as ear:
        process = await asyncio.create_subprocess_exec(
            str(find_java()),
            *JVM_OPTIONS,
            "-cp",
            str(client_jars(release) / "*"),
            str(PROGRAM),
            *(ear.bootstrap, TOPIC, settings, str(ABORT_AFTER_MS)),
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await process.communicate()
    calls = [line.split(" ", 1) for line in told.decode().splitlines()]
    return sorted([*ear.lines, *((int(at_ns), f"= {call}") for at_ns, call in calls)])


def main(argv: Sequence[str] | None = None) -> int:
    """Print a conversation; 0."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.client.late_abort", description=__doc__
    )
    parser.add_argument("--release", default="4.3.1", help="of the Java client (4.3.1)")
    parser.add_argument("--level", type=int, default=1, choices=(0, 1, 2), help="of the broker (1)")
    parser.add_argument("--lost", action="store_true", help="the broker never sees the batch")
    options = parser.parse_args(argv)
    lines = asyncio.run(conversation(options.release, options.level, options.lost))
    for at_ns, line in lines:
        say(f"{(at_ns - lines[0][0]) / 1e6:9.1f} ms  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
