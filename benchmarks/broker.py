"""Our broker against kfake and real Kafka: the same requests, and how long each takes to start.

    python -m benchmarks.broker [--brokers ours kfake kafka] [--rounds 5] [--requests 5000]
                                [--starts 5] [--client-records 500000]
                                [--form compiled|python] [--json FILE]

A load is a number of Produce requests of one idempotent producer to one partition, acks=all, or as
many Fetch requests, each for one of these batches; records have 100 bytes, uncompressed. One
connection has five requests in flight. All requests are encoded before the clock starts; answers
are checked after it stops: each batch must have its offset, and all records must arrive. Brokers
are separate processes and take turns; three warm-up rounds are not counted. Kafka has its usual
settings and JVM flags. `cpu` is the
processor time of the broker for a request, in microseconds: it hardly depends on who else uses the
machine. `ratio` is ours to the peer's throughput, the median of the rounds' ratios; `by cpu` the
peer's processor time to ours: in both, more than 1 is better for ours.

The last load is a client's: confluent-kafka, idempotent, otherwise with its own settings, sends
records of 100 bytes to four partitions; its figures are those of a record.

kfake and Kafka have many threads, ours has one: `ratio` compares what they do on all cores of the
machine, `by cpu` what they do on one.

A start lasts from the start of the process to its first answer, to ApiVersions; Kafka has the flags
for a fast start, a formatted folder and an archive of its classes. `in-process` is our broker in
the benchmark's own process, as in tests.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.live.clients import PARTITIONS, TIMEOUT_S, VALUE, NotAcknowledged
from benchmarks.live.frames import Log, WrongAnswer, exchange
from benchmarks.live.running import (
    BROKERS,
    OURS,
    Missing,
    Running,
    first_answer,
    prepare_brokers,
    without_missing,
)
from benchmarks.measuring import (
    Time,
    alternate,
    compare_rounds,
    count_option,
    format_ratios,
    measure_time,
    median_time,
    ratio,
    round_figures,
    run_benchmark,
)
from benchmarks.producer import WrongCount, await_arrival
from conformance.adapters.brokers.kafka.admin import create_topic, init_producer_id
from conformance.adapters.brokers.kafka.errors import KafkaError
from impl.broker.server import Server

WARM_UPS: Final = 3
RECORDS: Final = (1, 100)
"""Records in a batch: the price of a request, and that of bytes."""

IN_PROCESS: Final = "in-process"

# ---- loads


def time_load(running: Running, frames: Sequence[bytes]) -> tuple[Time, list[bytes]]:
    """Wall time, and processor time of the broker. Raises OSError, WrongAnswer."""
    return measure_time(partial(exchange, running.address, frames), running.cpu_seconds)


def produce_and_fetch(running: Running, log: Log) -> dict[str, Time]:
    """Fill a new log, and read it. Raises KafkaError, OSError, WrongAnswer."""
    with running.connect() as connection:
        create_topic(connection, log.topic, 1)
        identity = init_producer_id(connection)
    produced, answers = time_load(running, log.produce_frames(identity))
    log.check_produced(answers)
    fetched, answers = time_load(running, log.fetch_frames(identity))
    arrived = log.check_fetched(answers)
    if arrived != log.requests * log.records:
        raise WrongAnswer(f"{arrived} records arrived, not {log.requests * log.records}")
    return {"Produce": produced, "Fetch": fetched}


def measure_loads(
    brokers: Mapping[str, Running], records: int, requests: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """Both loads with batches of so many records, on each broker. Raises as above."""
    topics = itertools.count()

    def measure(name: str) -> dict[str, Time]:
        log = Log(f"of-{records}-{next(topics)}", requests, records)
        return produce_and_fetch(brokers[name], log)

    names = list(brokers)
    alternate(names, WARM_UPS, measure)
    found = alternate(names, rounds, measure)
    for load in ("Produce", "Fetch"):
        of_load = {name: [each[load] for each in found[name]] for name in names}
        yield from (summarise(load, name, of_load, requests, records) for name in names)


def summarise(
    load: str, name: str, found: Mapping[str, Sequence[Time]], requests: int, records: int
) -> dict[str, Any]:
    """Medians of one load on one broker; ratios are to ours."""
    typical = median_time(found[name])
    return {
        "load": load,
        "broker": name,
        "requests": requests,
        "records": records,
        "requests_per_second": round_figures(requests / typical.seconds),
        "records_per_second": round_figures(requests * records / typical.seconds),
        "cpu_microseconds_a_request": round_figures(1e6 * typical.cpu_seconds / requests),
        **compare_rounds(name, found),
    }


# ---- a client's load


def send_all(running: Running, topic: str, count: int) -> None:
    """Send so many records, and wait for all answers. Raises NotAcknowledged."""
    lost: list[str] = []

    def note(error: object, _message: object) -> None:
        if error is not None:
            lost.append(str(error))

    producer = import_module("confluent_kafka").Producer(
        {
            "bootstrap.servers": "{}:{}".format(*running.address),
            "enable.idempotence": True,
            "queue.buffering.max.messages": count,
            "log_level": 0,
        }
    )
    for _ in range(count):
        producer.produce(topic, VALUE, on_delivery=note)
    left = producer.flush(TIMEOUT_S)
    if left or lost:
        raise NotAcknowledged(f"{left} of {count} records wait, others failed: {lost[:1]}")


def measure_client(
    brokers: Mapping[str, Running], count: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """The client's load on each broker. Raises KafkaError, NotAcknowledged, WrongCount."""
    topics = (f"of-client-{number}" for number in itertools.count())

    def measure(name: str) -> Time:
        running, topic = brokers[name], next(topics)
        with running.connect() as connection:
            create_topic(connection, topic, PARTITIONS)
        work = partial(send_all, running, topic, count)
        spent, _ = measure_time(work, running.cpu_seconds)
        await_arrival(running, topic, count)
        return spent

    names = list(brokers)
    alternate(names, 1, measure)
    found = alternate(names, rounds, measure)
    yield from (summarise("confluent-kafka", name, found, count, 1) for name in names)


# ---- starts


def start_seconds(name: str) -> float:
    """From the start of the process to its first answer. Raises KafkaError, Missing."""
    begun = perf_counter()
    with BROKERS[name].starts_fast() as running:
        first_answer(running)
        return perf_counter() - begun


def start_in_process_seconds() -> float:
    """The same of our server in this process."""

    async def start() -> float:
        begun = perf_counter()
        async with Server() as server:
            running = Running(("127.0.0.1", server.port), 0)
            await asyncio.to_thread(first_answer, running)
            return perf_counter() - begun

    return asyncio.run(start())


def measure_starts(names: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Start each, so many times; `ratio` is its time to ours. Raises KafkaError, Missing."""
    ways: dict[str, Callable[[], float]] = {name: partial(start_seconds, name) for name in names}
    if OURS in names:
        ways[IN_PROCESS] = start_in_process_seconds
    found = alternate(list(ways), rounds, lambda name: ways[name]())
    return [
        {
            "broker": name,
            "seconds": round_figures(median(seconds)),
            "ratio": ratio(found[OURS], seconds) if OURS in found and name != OURS else None,
            "seconds_of_each_round": [round_figures(each) for each in seconds],
        }
        for name, seconds in found.items()
    ]


# ---- the command


def format_load(r: Mapping[str, Any]) -> str:
    load = f"{r['load']}, {r['records']} a batch"
    return (
        f"{load:24}{r['broker']:12}{r['requests_per_second']:>10,.0f}/s"
        f"{r['records_per_second']:>14,.0f}/s{r['cpu_microseconds_a_request']:>9,.3g} us"
        f"{format_ratios(r['ratio'], r['cpu_ratio'])}"
    )


def format_start(r: Mapping[str, Any]) -> str:
    peer = "" if r["ratio"] is None else f"{r['ratio']:>8.3g}x ours"
    return f"{'start':24}{r['broker']:12}{1e3 * r['seconds']:>10,.1f} ms{peer}"


def measure(asked: Namespace) -> dict[str, Any]:
    """Measure, and print each figure when it is there. Raises KafkaError, OSError, ..."""
    missing = prepare_brokers(asked.brokers)
    names = without_missing(asked.brokers, missing, "peer", needs_peer=True)
    print(f"{'':24}{'':12}{'requests':>12}{'records':>16}{'cpu':>12}{'ratio':>9}{'by cpu':>9}")
    loads = []
    with ExitStack() as at_end:
        brokers = {name: at_end.enter_context(BROKERS[name].serves_fast()) for name in names}
        for records in RECORDS:
            for row in measure_loads(brokers, records, asked.requests, asked.rounds):
                loads.append(row)
                print(format_load(row), flush=True)
        for row in measure_client(brokers, asked.client_records, asked.rounds):
            loads.append(row)
            print(format_load(row), flush=True)
    starts = measure_starts(names, asked.starts)
    print("\n".join(map(format_start, starts)), flush=True)
    titles = {name: BROKERS[name].title() for name in names}
    head = {"brokers": titles, "missing": missing, "rounds": asked.rounds}
    return {**head, "loads": loads, "starts": starts}


OPTIONS = {
    "--brokers": {"nargs": "+", "choices": BROKERS, "default": list(BROKERS)},
    "--rounds": count_option(5, "rounds of each load"),
    "--requests": count_option(5_000, "requests of a load"),
    "--client-records": count_option(500_000, "records of the client's load"),
    "--starts": count_option(5, "starts of each broker"),
}
REFUSALS = (KafkaError, Missing, NotAcknowledged, WrongAnswer, WrongCount, OSError)

main = partial(run_benchmark, "broker", __doc__, OPTIONS, measure, REFUSALS)

if __name__ == "__main__":
    sys.exit(main())
