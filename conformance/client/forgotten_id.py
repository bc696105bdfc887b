"""`python -m conformance.client.forgotten_id`: a real client gives its producer id back, and what
it sent under the old one fails beside what it sends under the new one (KAFKA-8484).

An experiment: the conversation is printed as it was, beside what the application was told of each
record and what the partition holds in the end. The client sends `a`, `b` and `c`, a batch each. The
broker stores them, is killed before its answers come through, and comes back with the last batch
alone in its memory. `a` is sent again and refused: the client forgets its producer id and takes
another. `b` and `c` go again under the old one, `d` and `e` under the new one; the answers about
the old ones are slow. In the end `f` is sent. Networks and machines do such things; nobody lies.

Exit codes as everywhere: 0 what was acknowledged is stored, 1 it is not, 2 bad use, 3 not decided.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from conformance.client.late_abort import said
from conformance.client.plan import TOPIC
from conformance.client.processes import JVM_OPTIONS, client_jars
from conformance.client.proxy import CHUNK_BYTES, HOST, identity, rows_of
from conformance.kafka.admin import create_topic
from conformance.kafka.broker import KafkaBroker
from conformance.kafka.errors import KafkaError
from conformance.kafka.releases import RELEASES
from conformance.verbs import EXIT_CODES, EXIT_NOT_DECIDED, note, write_json
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_request, decode_response
from impl.protocol.primitives import frame, take_frames
from impl.protocol.record_batch import RecordBatch, decode_batches
from impl.protocol.schemas import ApiKey
from proofs.java import JavaError, find_java
from proofs.say import say

PROGRAM: Final = Path(__file__).with_name("ForgottenId.java")
CONFIGURATIONS: Final = {
    "enable.idempotence": "true",
    "acks": "all",
    "max.in.flight.requests.per.connection": "5",
    "batch.size": "1",
    "linger.ms": "0",
    "request.timeout.ms": "30000",
    "retry.backoff.ms": "20",
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "20",
    "max.block.ms": "60000",
}
OLD, NEW = 3, 2
"""Batches whose answers are lost, and batches that are sent before their fate is known."""
TIMEOUT_S: Final = 120.0
RECORDS: Final = "abcdef"
HEARD: Final = (ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID)
VERDICTS: Final = {False: "holds", True: "violated"}


class Unfinished(Exception):
    """The client did not come to the end of the course."""


@dataclass(frozen=True, slots=True)
class Course:
    """What was asked and answered, what the application was told, and the records in the log."""

    client: str
    kafka: str
    lines: tuple[str, ...]
    told: dict[str, str]
    stored: tuple[str, ...]

    @property
    def lost(self) -> list[str]:
        """The records that were acknowledged and are not there: `acked_is_stored` is broken."""
        acked = [record for record, what in self.told.items() if what.startswith("stored")]
        return [record for record in acked if record not in self.stored]

    def report(self) -> dict[str, Any]:
        """What the machine reads."""
        return {**asdict(self), "lost": self.lost, "verdict": VERDICTS[bool(self.lost)]}


class Network:
    """Passes on what a client asks the broker at `port`, and what it is answered, as the course has
    it. `all_stored` is set once the broker has answered the first batches: nobody hears of that."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self.port = 0
        self.all_stored = asyncio.Event()
        self._lost = 0
        self._old: tuple[int, int] | None = None
        self._is_refused = False
        self._new = 0
        self._new_are_sent = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, HOST, 0)
        self.own_port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def say(self, line: str) -> None:
        """Keep a line of the story."""
        self.lines.append((time.monotonic_ns(), line))

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side is gone; the other one is cut."""
        waiting: deque[bytes] = deque()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(cut, writer)
            try:
                back, forth = await asyncio.open_connection(HOST, self.port)
            except OSError:
                return
            stack.push_async_callback(cut, forth)
            ways = (self._ask(reader, forth, waiting), self._answer(back, writer, waiting))
            tasks = [asyncio.create_task(way) for way in ways]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(
        self, reader: asyncio.StreamReader, forth: asyncio.StreamWriter, waiting: deque[bytes]
    ) -> None:
        async for request in payloads(reader):
            if key_of(request) == ApiKey.PRODUCE:
                self._was_sent(batch_in(request))
            elif key_of(request) in HEARD:
                self.say("INIT_PRODUCER_ID")
            waiting.append(request)
            forth.write(frame(request))

    def _was_sent(self, batch: RecordBatch) -> None:
        who = batch.producer_id, batch.producer_epoch
        numbers = f"{who[0]}:{who[1]} sequence {batch.base_sequence}"
        self.say(f"PRODUCE {name_in(batch)}, {numbers}")
        if self._old is None:
            self._old = who
        if who != self._old:
            self._new += 1
            if self._new == NEW:
                self._new_are_sent.set()

    async def _answer(
        self, back: asyncio.StreamReader, writer: asyncio.StreamWriter, waiting: deque[bytes]
    ) -> None:
        async for answer in payloads(back):
            request = waiting.popleft()
            if key_of(request) not in HEARD or await self._comes_through(request, answer):
                writer.write(frame(answer))

    async def _comes_through(self, request: bytes, answer: bytes) -> bool:
        """Whether the client hears an answer, once it does: of the first batches it hears nothing
        until the broker was killed, and once one was refused, nothing of them until the new ones
        are sent."""
        told = ", ".join(said(told_by(request, answer)))
        if key_of(request) != ApiKey.PRODUCE:
            self.say(f"    {told}")
            return True
        batch = batch_in(request)
        if not self.all_stored.is_set():
            self.say(f"    {name_in(batch)}: {told}, lost")
            self._lost += 1
            if self._lost == OLD:
                self.all_stored.set()
            return False
        if self._is_refused and (batch.producer_id, batch.producer_epoch) == self._old:
            await self._new_are_sent.wait()
        self._is_refused |= ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name in told
        self.say(f"    {name_in(batch)}: {told}")
        return True


async def cut(writer: asyncio.StreamWriter) -> None:
    """End a connection at once."""
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def payloads(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The messages of one side of a connection, to its end."""
    unfinished = bytearray()
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            unfinished += chunk
            for payload in take_frames(unfinished):
                yield payload


def key_of(request: bytes) -> int:
    """Which API it asks."""
    return int.from_bytes(request[:2], "big")


def batch_in(request: bytes) -> RecordBatch:
    """The only batch of a Produce."""
    [(_, row)] = rows_of(decode_request(request)[1])
    [batch] = decode_batches(row["records"])
    return batch


def name_in(batch: RecordBatch) -> str:
    """The record of a batch; its value is its name, many times."""
    [record] = batch.records
    assert record.value is not None
    return record.value[:1].decode()


def told_by(request: bytes, answer: bytes) -> Value:
    """What an answer says."""
    header, _ = decode_request(request)
    return decode_response(*identity(header)[:2], answer)[1]


async def course(client: str, kafka: str) -> Course:
    """One course, with a client and a broker of some releases. Raises Unfinished, KafkaError,
    MissingTool, FetchFailed."""
    async with Network() as network:
        listener = f"PLAINTEXT://{HOST}:{network.own_port}"
        with ExitStack() as stack:
            broker = KafkaBroker(kafka, properties={"advertised.listeners": listener})
            await asyncio.to_thread(stack.enter_context, broker)
            network.port = broker.node.port
            await asyncio.to_thread(_with_topic, broker)
            told = await _lived(client, network, broker)
            stored = stored_in(broker.folder)
    return Course(client, kafka, tuple(line for _, line in network.lines), told, stored)


def _with_topic(broker: KafkaBroker) -> None:
    with broker.connect() as connection:
        create_topic(connection, TOPIC, 1)


async def _lived(client: str, network: Network, broker: KafkaBroker) -> dict[str, str]:
    """The client's life, and the broker's death in it; what the application was told."""
    settings = ",".join(f"{name}={value}" for name, value in CONFIGURATIONS.items())
    process = await asyncio.create_subprocess_exec(
        *(str(find_java()), *JVM_OPTIONS, "-cp", str(client_jars(client) / "*"), str(PROGRAM)),
        *(f"{HOST}:{network.own_port}", TOPIC, settings),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await network.all_stored.wait()
            network.say("= the broker is killed")
            broker.kill()
            await asyncio.to_thread(broker.start)
            network.say("= the broker is back")
            told, _ = await process.communicate()
    except TimeoutError as error:
        raise Unfinished(f"not done in {TIMEOUT_S:.0f} s") from error
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    rows = [line.split(" ", 2) for line in told.decode().splitlines()]
    network.lines = sorted(
        [*network.lines, *((int(at), f"= {who}: {what}") for at, who, what in rows)]
    )
    outcomes = {who: what for _, who, what in rows}
    if missing := set(RECORDS) - outcomes.keys():
        raise Unfinished(f"the client did not tell what became of {' '.join(sorted(missing))}")
    return outcomes


def stored_in(folder: Path) -> tuple[str, ...]:
    """The records of the partition, in their order, from the files of a broker."""
    files = sorted((folder / "data" / f"{TOPIC}-0").glob("*.log"))
    return tuple(name_in(batch) for file in files for batch in decode_batches(file.read_bytes()))


def main(argv: Sequence[str] | None = None) -> int:
    """Tell a course; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.client.forgotten_id", description=__doc__
    )
    parser.add_argument("--client", default="2.0.0", help="release of the Java client (2.0.0)")
    parser.add_argument("--kafka", default="2.0.0", choices=RELEASES, help="of the broker (2.0.0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all of it, for programs")
    options = parser.parse_args(argv)
    try:
        seen = asyncio.run(course(options.client, options.kafka))
    except (Unfinished, JavaError, KafkaError) as error:
        note(f"forgotten_id: {error}")
        return EXIT_NOT_DECIDED
    report = seen.report()
    for line in (*seen.lines, f"the partition has {' '.join(seen.stored)}"):
        say(line)
    say(f"acknowledged and not stored: {' '.join(seen.lost) or 'nothing'}; {report['verdict']}")
    write_json(options.json, report)
    return EXIT_CODES[report["verdict"]]


if __name__ == "__main__":
    sys.exit(main())
