"""Hostile connections at a served broker: `python -m benchmarks.hostile_connections`.

`kafka-eos serve` runs in a process of its own, with limits on requests and memory. Thousands of
connections are opened at once and held: silent, half a frame, a byte a second, requests whose
answers nobody reads, frames of impossible sizes, TLS handshakes that stop. Meanwhile an honest
client writes a record every few milliseconds. In the end the broker must be alive, its memory
within what its settings say, what it had to close closed and logged, and all records there once and
in order. Exit code 1 if one of it is not so.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.hostile.connections import REQUEST_MAX_BYTES, Crowd
from benchmarks.measuring import count_option, round_figures, run_benchmark
from impl import ApiKey, Record, client_batch, encode_batch
from impl.broker.served_connection import READ_BYTES
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame
from impl.protocol.record_batch import decode_batches

QUEUED_MAX_BYTES: Final = 16 << 20
CONNECTION_BYTES: Final = 3 * READ_BYTES
"""What one connection may cost, besides large requests: what is read, and what waits to be read."""
PAUSE_SECONDS: Final = 0.01
WAIT_SECONDS: Final = 30
SETTINGS: Final = (
    f"socket.request.max.bytes={REQUEST_MAX_BYTES}",
    f"queued.max.request.bytes={QUEUED_MAX_BYTES}",
    "fetch.max.bytes=1048576",
)


class BadBroker(Exception):
    """What the broker did wrong."""


class Served:
    """`kafka-eos serve` in a process."""

    def __init__(self, process: asyncio.subprocess.Process, ports: list[int], log: Path) -> None:
        self._process = process
        self.port, self.tls_port = ports
        self._log = log

    def resident_bytes(self, line: str = "VmRSS") -> int:
        """What it has in memory, or with VmHWM the most that it had. Raises `BadBroker`."""
        status = Path(f"/proc/{self._process.pid}/status")
        try:
            rows = dict(row.split(":", 1) for row in status.read_text().splitlines())
            return int(rows[line].split()[0]) * 1024
        except (OSError, KeyError):
            raise BadBroker(f"the broker died: {self.logged()[-2000:]}") from None

    def logged(self) -> str:
        """What it has logged."""
        return self._log.read_text(encoding="utf-8")

    async def stop(self) -> None:
        """Stop it as a user does. Raises `BadBroker` if it does not end well."""
        self._process.send_signal(signal.SIGINT)
        code = await self._process.wait()
        if code or "Traceback" in self.logged():
            raise BadBroker(f"the broker ended with {code}: {self.logged()[-2000:]}")


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    """A broker with a listener of each kind, and a topic."""
    words = ["-m", "kafka_eos", "serve", "--listen", "127.0.0.1:0", "--topic", "t:2"]
    words += ["--listener", "PLAINTEXT", "--listener", "SSL"]
    words += [word for setting in SETTINGS for word in ("--config", setting)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *words, stdout=asyncio.subprocess.PIPE, stderr=errors
            )
        assert process.stdout is not None
        lines = [await process.stdout.readline() for _ in range(2)]
        try:
            yield Served(process, [int(line.rpartition(b":")[2]) for line in lines], log)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


class HonestClient:
    """One connection that writes, and remembers how long each answer took, in seconds."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.seconds: list[float] = []

    async def __aenter__(self) -> HonestClient:
        """Connect. Raises `OSError`."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, api_key: ApiKey, version: int, body: Value) -> Value:
        """The answer's body. Raises `TimeoutError`, `OSError`."""
        self._writer.write(frame(encode_request(api_key, version, 1, "honest", body)))
        async with asyncio.timeout(WAIT_SECONDS):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            answer = await self._reader.readexactly(size)
        return decode_response(api_key, version, answer)[1]

    async def write_on(self) -> None:
        """Write a record, and again, until it is cancelled."""
        while True:
            batch = client_batch([Record(0, 0, None, b"%d" % len(self.seconds))])
            partition = {"index": 0, "records": encode_batch(batch)}
            topic = {"name": "t", "partitions": [partition]}
            begun = perf_counter()
            answer = await self.ask(
                ApiKey.PRODUCE, 9, {"acks": -1, "timeout_ms": 1000, "topics": [topic]}
            )
            (row,) = answer["topics"][0]["partitions"]
            if row["error_code"] or row["base_offset"] != len(self.seconds):
                raise BadBroker(f"record {len(self.seconds)} was answered with {row}")
            self.seconds.append(perf_counter() - begun)
            await asyncio.sleep(PAUSE_SECONDS)

    async def read_all(self) -> list[bytes | None]:
        """The values of t-0."""
        values: list[bytes | None] = []
        while True:
            partition = {
                "partition": 0,
                "fetch_offset": len(values),
                "partition_max_bytes": 1 << 20,
            }
            topics = [{"topic": "t", "partitions": [partition]}]
            body = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": topics}
            answer = await self.ask(ApiKey.FETCH, 11, body)
            batches = decode_batches(answer["responses"][0]["partitions"][0]["records"])
            if not batches:
                return values
            values += [record.value for batch in batches for record in batch.records]

    def has_written(self, found: list[bytes | None]) -> bool:
        """Whether these are its records; the last one's answer may be lost."""
        written = len(self.seconds)
        return found in [[b"%d" % number for number in range(written + last)] for last in (0, 1)]

    async def look(self) -> list[Value]:
        """What there is besides the records of t-0."""
        asked: list[tuple[ApiKey, int, Value]] = [
            (ApiKey.METADATA, 4, {"topics": None, "allow_auto_topic_creation": False}),
            (ApiKey.LIST_GROUPS, 2, {}),
            (ApiKey.LIST_TRANSACTIONS, 0, {"state_filters": [], "producer_id_filters": []}),
            (
                ApiKey.DESCRIBE_PRODUCERS,
                0,
                {"topics": [{"name": "t", "partition_indexes": [0, 1]}]},
            ),
        ]
        return [await self.ask(*request) for request in asked]


async def run(connections: int, seconds: int) -> Mapping[str, Any]:
    """Open all connections, hold them for so long, close them. Raises `BadBroker`, `OSError`."""
    async with serving() as broker:
        crowd = Crowd(broker.port, broker.tls_port)
        idle_bytes = broker.resident_bytes()
        async with HonestClient(broker.port) as honest:
            before = await honest.look()
            await _write_beside(crowd, connections, honest, seconds)
        peak_bytes = broker.resident_bytes("VmHWM")
        logged = broker.logged().count("closes the connection from")
        unlogged = crowd.find_unlogged(broker.logged())
        limit_bytes = (
            idle_bytes + connections * CONNECTION_BYTES + QUEUED_MAX_BYTES + REQUEST_MAX_BYTES
        )
        async with HonestClient(broker.port) as after:
            found, state = await after.read_all(), await after.look()
        await broker.stop()
        problems = {
            f"not closed: {Counter(crowd.unclosed)}": bool(crowd.unclosed),
            f"not logged: {Counter(unlogged)}": bool(unlogged),
            f"{peak_bytes:,} bytes, the settings say {limit_bytes:,}": peak_bytes > limit_bytes,
            "records are lost, doubled or out of order": not honest.has_written(found),
            "the broker's state has changed": state != before,
        }
        if any(problems.values()):
            raise BadBroker("\n".join(problem for problem, is_so in problems.items() if is_so))
    return {
        "connections": connections,
        "seconds": seconds,
        "logged": logged,
        "idle_mib": round_figures(idle_bytes / 2**20),
        "peak_mib": round_figures(peak_bytes / 2**20),
        "limit_mib": round_figures(limit_bytes / 2**20),
        "honest_answers": len(honest.seconds),
        "median_ms": round_figures(median(honest.seconds) * 1e3),
        "slowest_ms": round_figures(max(honest.seconds) * 1e3),
    }


async def _write_beside(crowd: Crowd, connections: int, honest: HonestClient, seconds: int) -> None:
    """Write while the crowd is there. Raises `BadBroker`, `OSError`."""
    writing = asyncio.ensure_future(honest.write_on())
    try:
        await crowd.open(connections)
        await asyncio.wait([writing], timeout=seconds)
        await crowd.close()
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Run, and print the figures. Raises `BadBroker`."""
    report = asyncio.run(run(asked.connections, asked.seconds))
    print(
        f"{report['connections']:,} connections, held for {report['seconds']} s: memory"
        f" {report['idle_mib']:,.0f} MiB before, {report['peak_mib']:,.0f} MiB at most (the"
        f" settings say {report['limit_mib']:,.0f}); {report['logged']:,} were closed for cause;"
        f" {report['honest_answers']:,} honest answers, {report['median_ms']:,.1f} ms in the"
        f" median, {report['slowest_ms']:,.0f} ms at most"
    )
    return report


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--connections": count_option(10_000, "hostile connections at a time"),
    "--seconds": count_option(20, "how long they are held"),
}


def main(words: list[str] | None = None) -> int:
    """Run the command."""
    refusals = (BadBroker, OSError)
    return run_benchmark("hostile_connections", __doc__, OPTIONS, measure, refusals, words)


if __name__ == "__main__":
    sys.exit(main())
