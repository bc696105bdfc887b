"""`python -m conformance.kills`: a broker on disk that is killed at random moments, under load.

`kafka-eos serve --dir D --flush-messages 1` is killed (SIGKILL) and started again, while three
clients go on: the `Producer` here, idempotent and in transactions with group offsets, and
librdkafka's, idempotent and in transactions. In the end the logs are held to what was answered.

Checked: each acknowledged record is at its offset, once, and in the order of its partition; what a
read_committed reader gets was committed, all of it, and nothing aborted; the group's offset is that
of the last committed transaction; no producer id was given out twice.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from conformance.kafka.errors import BrokerFailed
from conformance.kafka.ports import free_ports
from impl import Broker, Producer, ProducerError, TopicPartition
from impl.broker import serve
from impl.partition.consuming import committed_batches
from impl.partition.leader import PartitionLeader
from impl.partition.reading import read
from impl.protocol.codegen import Value
from impl.protocol.errors import ErrorCode
from impl.protocol.fields import Isolation
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame
from impl.protocol.record_batch import decode_batches
from impl.protocol.schemas import ApiKey

TOPIC: Final = "t"
PARTITIONS: Final = 3
OWN, OWN_TRANSACTIONS, FOREIGN = range(PARTITIONS)
"""The partition of each producer; the foreign transactions are in the last, too."""

GROUP: Final = "g"
READY_S: Final = 30.0
IN_FLIGHT: Final = 40


@dataclass
class Answers:
    """What clients were told, by value."""

    acked: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Partition and offset."""
    plain: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    """Of transactions whose end was not answered."""
    producer_ids: list[int] = field(default_factory=list)
    offsets: set[int] = field(default_factory=lambda: {-1})
    """What may be committed for the group."""
    failures: list[str] = field(default_factory=list)
    """Errors that clients raised: they may."""


class BrokerProcess:
    """The broker's process, forked from one that has imported all: it starts in no time."""

    def __init__(self, directory: Path, main: Callable[[Sequence[str]], None]) -> None:
        """`main` serves with these arguments, in a process of its own."""
        self._main = main
        (self.port,) = free_ports(1)
        self._arguments = [
            *("--dir", str(directory), "--listen", f"127.0.0.1:{self.port}"),
            *("--flush-messages", "1", "--no-auto-create"),
        ]
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["impl.broker.serve"])

    async def start(self) -> None:
        """Start, and wait until it serves. Raises `BrokerFailed`."""
        self._process = self._processes.Process(target=self._main, args=(self._arguments,))
        self._process.start()
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            if not self._process.is_alive():
                raise BrokerFailed(f"the broker ended with exit code {self._process.exitcode}")
            await asyncio.sleep(0.005)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.join()

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"


def serve_directory(arguments: Sequence[str]) -> None:
    """`kafka-eos serve`."""
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    sys.exit(serve.execute(parser.parse_args(arguments)))


class OwnClients:
    """`Producer`, idempotent and in transactions."""

    def __init__(self, address: str, answers: Answers) -> None:
        self._address = address
        self._answers = answers
        self.is_stopped = False

    async def send(self) -> None:
        """Send one record after the other, some in flight."""
        number = 0
        while not self.is_stopped:
            producer = Producer(self._address, retry_backoff_ms=20)
            try:
                async with producer:
                    waiting = set[asyncio.Task[None]]()
                    while not self.is_stopped:
                        number += 1
                        value = f"own-{number}"
                        handle = await producer.send(TOPIC, value.encode(), partition=OWN)
                        task = asyncio.ensure_future(self._await(handle, value))
                        waiting.add(task)
                        task.add_done_callback(waiting.discard)
                        if len(waiting) >= IN_FLIGHT:
                            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                        await asyncio.sleep(0.001)
                    await asyncio.gather(*waiting)
            except (ProducerError, OSError) as error:
                await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        """A broker that is down is no failure: the producer could not even start."""
        if not isinstance(error, OSError):
            self._answers.failures.append(repr(error))
        await asyncio.sleep(0.02)

    async def _await(self, handle: Any, value: str) -> None:
        try:
            metadata = await handle
        except ProducerError as error:
            self._answers.failures.append(f"{value}: {error!r}")
            return
        self._answers.acked[value] = (OWN, metadata.offset)
        self._answers.plain.add(value)

    async def transact(self) -> None:
        """Transaction after transaction, with an offset; a third of them is aborted."""
        number = 0
        while not self.is_stopped:
            producer = Producer(self._address, transactional_id="own", retry_backoff_ms=20)
            try:
                async with producer:
                    while not self.is_stopped:
                        number += 1
                        await self._transaction(producer, number)
            except (ProducerError, OSError) as error:
                await self._fail(error)

    async def _transaction(self, producer: Producer, number: int) -> None:
        answers, commit = self._answers, number % 3 != 0
        values = [f"tx-{number}-{index}" for index in range(3)]
        answers.unknown.update(values)
        await producer.begin_transaction()
        handles = [
            await producer.send(TOPIC, value.encode(), partition=OWN_TRANSACTIONS)
            for value in values
        ]
        await producer.send_offsets_to_transaction({TopicPartition(TOPIC, OWN): number}, GROUP)
        for value, handle in zip(values, handles, strict=True):
            answers.acked[value] = (OWN_TRANSACTIONS, (await handle).offset)
        if not commit:
            answers.aborted.update(values)
            await producer.abort_transaction()
            return
        answers.offsets.add(number)
        await producer.commit_transaction()
        answers.committed.update(values)
        answers.offsets = {number}


class ForeignClients(threading.Thread):
    """librdkafka's producer, idempotent and in transactions, by turns."""

    def __init__(self, address: str, answers: Answers) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._answers = answers
        self.is_stopped = False

    def run(self) -> None:
        """Both, one record and one transaction at a time."""
        import confluent_kafka

        settings = {"bootstrap.servers": self._address, "linger.ms": 0, "log_level": 0}
        settings |= {"reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}
        plain = confluent_kafka.Producer(settings | {"enable.idempotence": True})
        number = 0
        while not self.is_stopped:
            transactional = confluent_kafka.Producer(settings | {"transactional.id": "foreign"})
            try:
                transactional.init_transactions()
                while not self.is_stopped:
                    number += 1
                    for index in range(5):
                        value = f"foreign-{number}-{index}"
                        self._send(plain, value, self._answers.plain)
                    plain.flush()
                    self._transact(transactional, number)
            except confluent_kafka.KafkaException as error:
                self._answers.failures.append(f"foreign transaction {number}: {error!r}")
        plain.flush()

    def _send(self, producer: Any, value: str, told: set[str]) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self._answers.acked[value] = (message.partition(), message.offset())
                told.add(value)
            else:
                self._answers.failures.append(f"{value}: {error}")

        producer.produce(TOPIC, value.encode(), partition=FOREIGN, on_delivery=delivered)

    def _transact(self, producer: Any, number: int) -> None:
        answers = self._answers
        values = [f"foreign-tx-{number}-{index}" for index in range(2)]
        answers.unknown.update(values)
        producer.begin_transaction()
        for value in values:
            self._send(producer, value, set())
        producer.flush()
        if number % 3 == 0:
            answers.aborted.update(values)
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            answers.committed.update(values)


async def ask(port: int, api_key: ApiKey, version: int, body: Value) -> Value:
    """The answer to one request, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(frame(encode_request(api_key, version, 1, "kills", body)))
    size = int.from_bytes(await reader.readexactly(4), "big")
    answer = decode_response(api_key, version, await reader.readexactly(size))[1]
    writer.close()
    return answer


async def request_producer_id(port: int) -> int:
    """A producer id of the broker, asked again until it has one."""
    body = {"transactional_id": None, "transaction_timeout_ms": 1000}
    while True:
        answer = await ask(port, ApiKey.INIT_PRODUCER_ID, 5, body)
        if answer["error_code"] == ErrorCode.NONE:
            return int(answer["producer_id"])
        await asyncio.sleep(0.02)


async def create_topic(port: int, segment_bytes: int) -> None:
    """The topic of all records."""
    row = {
        "name": TOPIC,
        "num_partitions": PARTITIONS,
        "replication_factor": 1,
        "configs": [{"name": "segment.bytes", "value": str(segment_bytes)}],
    }
    await ask(port, ApiKey.CREATE_TOPICS, 7, {"topics": [row]})


async def run(
    directory: Path,
    moments: int,
    *,
    seed: int = 1,
    segment_bytes: int = 1 << 16,
    main: Callable[[Sequence[str]], None] = serve_directory,
) -> Answers:
    """Kill so many times; what clients were told."""
    answers = Answers()
    broker = BrokerProcess(directory, main)
    await broker.start()
    await create_topic(broker.port, segment_bytes)
    try:
        await _kill_under_load(broker, answers, moments, random.Random(seed))
    finally:
        broker.kill()
    return answers


async def _kill_under_load(
    broker: BrokerProcess, answers: Answers, moments: int, draw: random.Random
) -> None:
    own, foreign = OwnClients(broker.address, answers), ForeignClients(broker.address, answers)
    foreign.start()
    tasks = [asyncio.ensure_future(work) for work in (own.send(), own.transact())]
    begun = time.monotonic()
    for moment in range(1, moments + 1):
        answers.producer_ids.append(await request_producer_id(broker.port))
        await asyncio.sleep(draw.uniform(0, 0.4))
        broker.kill()
        await broker.start()
        if moment % 25 == 0:
            passed = time.monotonic() - begun
            print(f"{moment} kills, {len(answers.acked)} acknowledged, {passed:.0f} s", flush=True)
    own.is_stopped = foreign.is_stopped = True
    await asyncio.gather(*tasks)
    await asyncio.to_thread(foreign.join)
    await asyncio.sleep(0.5)  # the last markers


def check(directory: Path, answers: Answers) -> list[str]:
    """What is wrong with the logs; nothing, if all is right."""
    with Broker(directory=directory) as kafka:
        topic = kafka.cluster.topics.get(TOPIC)
        assert topic is not None
        wrong = []
        committed = list[str]()
        for index, leader in enumerate(topic.partitions):
            wrong += _check_partition(index, leader, answers)
            committed += [value for _, value in values(leader, Isolation.READ_COMMITTED)]
        wrong += _check_committed(set(committed), answers)
        offset = _committed_offset(kafka)
    if offset not in answers.offsets:
        wrong.append(f"the group has offset {offset}, not {answers.offsets}")
    if len(set(answers.producer_ids)) != len(answers.producer_ids):
        wrong.append("a producer id was given out twice")
    return wrong


def _check_partition(index: int, leader: PartitionLeader, answers: Answers) -> list[str]:
    stored = list(values(leader, Isolation.READ_UNCOMMITTED))
    offsets = {value: offset for offset, value in stored}
    wrong = [] if len(offsets) == len(stored) else [f"partition {index} has records twice"]
    mine = {value: at for value, (where, at) in answers.acked.items() if where == index}
    lost = [value for value, at in mine.items() if offsets.get(value) != at]
    if lost:
        wrong.append(f"partition {index} lost {len(lost)}, the first one {lost[0]}")
    for kind in {_kind(value) for _, value in stored}:
        sent = [_number(value) for _, value in stored if _kind(value) == kind]
        if sent != sorted(sent):
            wrong.append(f"partition {index}: {kind} is out of order")
    return wrong


def _kind(value: str) -> str:
    return value.rstrip("0123456789-")


def _number(value: str) -> list[int]:
    return [int(part) for part in value.split("-") if part.isdecimal()]


def _check_committed(found: set[str], answers: Answers) -> list[str]:
    wrong = []
    if missing := (answers.plain | answers.committed) - found:
        wrong.append(f"{len(missing)} committed records are not read, as {min(missing)}")
    if shown := answers.aborted & found:
        wrong.append(f"{len(shown)} aborted records are read, as {min(shown)}")
    return wrong


def values(leader: PartitionLeader, isolation: Isolation) -> list[tuple[int, str]]:
    """Offset and value of each record that a consumer gets."""
    found, offset = list[tuple[int, str]](), leader.log_start_offset
    while True:
        answer = read(leader.log, offset, 1 << 20, at_least_one=True, isolation=isolation)
        batches = list(decode_batches(answer.records))
        if not batches:
            return found
        aborted = [entry[:2] for entry in answer.aborted_transactions]
        is_committed = isolation is Isolation.READ_COMMITTED
        for batch in committed_batches(batches, aborted if is_committed else ()):
            found += [
                (batch.base_offset + record.offset_delta, (record.value or b"").decode())
                for record in batch.records
            ]
        offset = batches[-1].last_offset + 1


def _committed_offset(kafka: Broker) -> int:
    port = int(kafka.bootstrap_servers.rpartition(":")[2])
    asked = {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [OWN]}]}
    body = {"groups": [asked], "require_stable": False}
    answer = asyncio.run(ask(port, ApiKey.OFFSET_FETCH, 9, body))
    return int(answer["groups"][0]["topics"][0]["partitions"][0]["committed_offset"])


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all is right, 1 if not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--moments", type=int, default=500, help="number of kills (500)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--segment-bytes", type=int, default=1 << 16, help="of topics (65536)")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # clients say of each kill that they are cut off
    with tempfile.TemporaryDirectory(prefix="kafka-eos-kills-") as folder:
        answers = asyncio.run(
            run(
                Path(folder),
                options.moments,
                seed=options.seed,
                segment_bytes=options.segment_bytes,
            )
        )
        wrong = check(Path(folder), answers)
    print(
        f"{options.moments} kills: {len(answers.acked)} records acknowledged,"
        f" {len(answers.committed)} in committed transactions, {len(answers.aborted)} in aborted"
        f" ones; clients raised {len(answers.failures)} errors"
    )
    for line in [*answers.failures[:5], *(f"WRONG: {line}" for line in wrong)]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
