"""Our broker against kfake and real Kafka: the same requests, and how long each takes to start.

    python -m benchmarks.broker [--brokers ours kfake kafka] [--rounds 5] [--requests 5000]
                                [--starts 5] [--json FILE]

A load is a number of Produce requests of one idempotent producer to one partition, acks=all, or as
many Fetch requests, each for one of these batches; records have 100 bytes, and nothing is
compressed. One connection has five requests in flight. All requests are ready before the clock
starts; answers are looked at when it has stopped: each batch must have its offset, and all records
must be there. Brokers are processes of their own and take turns, the first one changing; three
rounds of warming up are not counted. Kafka has its usual settings and JVM flags. `cpu` is the
processor time of the broker for a request, in microseconds: it hardly depends on who else uses the
machine. `ratio` is ours to the peer's throughput, the median of the rounds' ratios; `by cpu` the
peer's processor time to ours: in both, more than 1 is better for ours.

To start is: from the start of the process to its first answer, to ApiVersions; for Kafka with the
flags that let it start fast, a formatted folder and an archive of its classes. `in-process` is our
broker within the process that asks, as tests have it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.live.frames import Log, WrongAnswer, exchange
from benchmarks.live.rounds import (
    alternated,
    cpu_ratio,
    load_average,
    positive,
    ratio,
    rounded,
    shown_ratios,
    write_report,
)
from benchmarks.live.running import BROKERS, Missing, Running, first_answer, prepared
from conformance.kafka.admin import create_topic, init_producer_id
from conformance.kafka.errors import KafkaError
from impl.broker.server import Server

ROUNDS: Final = 5
WARM_UPS: Final = 3
REQUESTS: Final = 5_000
RECORDS: Final = (1, 100)
"""Records in a batch: the price of a request, and that of bytes."""

OURS: Final = "ours"
IN_PROCESS: Final = "in-process"

clock = time.perf_counter


@dataclass(frozen=True, slots=True)
class Timed:
    """One load on one broker: wall time, and processor time of the broker."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Served:
    """Medians of one load on one broker.

    `ratio` is ours to its throughput, `cpu_ratio` its processor time to ours; None: it is ours.
    """

    load: str
    broker: str
    requests: int
    records: int
    requests_per_second: float
    records_per_second: float
    cpu_microseconds_a_request: float
    ratio: float | None
    cpu_ratio: float | None
    seconds_of_each_round: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """The median time from nothing to the first answer; `ratio` is this to ours."""

    broker: str
    seconds: float
    ratio: float | None
    seconds_of_each_round: tuple[float, ...]


# ---- loads


def timed(running: Running, frames: Sequence[bytes]) -> tuple[Timed, list[bytes]]:
    """Raises OSError, WrongAnswer."""
    cpu, begun = running.cpu_seconds(), clock()
    answers = exchange(running.address, frames)
    return Timed(clock() - begun, running.cpu_seconds() - cpu), answers


def produced_and_fetched(running: Running, log: Log) -> dict[str, Timed]:
    """Fill a new log, and read it. Raises KafkaError, OSError, WrongAnswer."""
    with running.connect() as connection:
        create_topic(connection, log.topic, 1)
        identity = init_producer_id(connection)
    produced, answers = timed(running, log.produce_frames(identity))
    log.check_produced(answers)
    fetched, answers = timed(running, log.fetch_frames(identity))
    arrived = log.check_fetched(answers)
    if arrived != log.requests * log.records:
        raise WrongAnswer(f"{arrived} records arrived, not {log.requests * log.records}")
    return {"Produce": produced, "Fetch": fetched}


def served(
    brokers: Mapping[str, Running], records: int, requests: int, rounds: int
) -> Iterator[Served]:
    """Both loads with batches of so many records, on each broker. Raises as above."""
    topics = count()

    def measure(name: str) -> dict[str, Timed]:
        log = Log(f"of-{records}-{next(topics)}", requests, records)
        return produced_and_fetched(brokers[name], log)

    names = list(brokers)
    alternated(names, WARM_UPS, measure)
    found = alternated(names, rounds, measure)
    for load in ("Produce", "Fetch"):
        of_load = {name: [each[load] for each in found[name]] for name in names}
        yield from (summed(load, name, of_load, requests, records) for name in names)


def summed(
    load: str, name: str, found: Mapping[str, Sequence[Timed]], requests: int, records: int
) -> Served:
    """What the rounds of one broker come to."""
    seconds = {broker: [each.seconds for each in rounds] for broker, rounds in found.items()}
    cpu = {broker: [each.cpu_seconds for each in rounds] for broker, rounds in found.items()}
    typical = median(seconds[name])
    is_peer = name != OURS and OURS in seconds
    return Served(
        load=load,
        broker=name,
        requests=requests,
        records=records,
        requests_per_second=rounded(requests / typical),
        records_per_second=rounded(requests * records / typical),
        cpu_microseconds_a_request=rounded(1e6 * median(cpu[name]) / requests),
        ratio=rounded(ratio(seconds[name], seconds[OURS])) if is_peer else None,
        cpu_ratio=cpu_ratio(cpu[OURS], cpu[name]) if is_peer else None,
        seconds_of_each_round=tuple(map(rounded, seconds[name])),
    )


# ---- starts


def start_seconds(name: str) -> float:
    """From the start of the process to its first answer. Raises KafkaError, Missing."""
    begun = clock()
    with BROKERS[name].starts_fast() as running:
        first_answer(running)
        return clock() - begun


def start_in_process_seconds() -> float:
    """The same of our server in this process."""

    async def start() -> float:
        begun = clock()
        async with Server() as server:
            running = Running(("127.0.0.1", server.port), 0)
            await asyncio.to_thread(first_answer, running)
            return clock() - begun

    return asyncio.run(start())


def started(names: Sequence[str], rounds: int) -> list[Started]:
    """Start each, so many times. Raises KafkaError, Missing."""
    ways: dict[str, Callable[[], float]] = {
        name: lambda name=name: start_seconds(name)  # type: ignore[misc]
        for name in names
    }
    if OURS in names:
        ways[IN_PROCESS] = start_in_process_seconds
    found = alternated(list(ways), rounds, lambda name: ways[name]())
    return [
        Started(
            name,
            rounded(median(seconds)),
            rounded(ratio(seconds, found[OURS])) if OURS in found and name != OURS else None,
            tuple(map(rounded, seconds)),
        )
        for name, seconds in found.items()
    ]


# ---- the command


def shown_served(r: Served) -> str:
    load = f"{r.load}, {r.records} a batch"
    return (
        f"{load:24}{r.broker:12}{r.requests_per_second:>10,.0f}/s{r.records_per_second:>14,.0f}/s"
        f"{r.cpu_microseconds_a_request:>9,.0f} us"
        f"{shown_ratios(r.ratio, r.cpu_ratio)}"
    )


def shown_started(r: Started) -> str:
    peer = "" if r.ratio is None else f"{r.ratio:>8.3g}x ours"
    return f"{'start':24}{r.broker:12}{1e3 * r.seconds:>10,.1f} ms{peer}"


def measured(names: Sequence[str], asked: argparse.Namespace) -> dict[str, object]:
    """Measure, and print each figure when it is there. Raises KafkaError, OSError, ..."""
    print(f"{'':24}{'':12}{'requests':>12}{'records':>16}{'cpu':>12}{'ratio':>9}{'by cpu':>9}")
    rows: list[Served] = []
    with ExitStack() as at_end:
        brokers = {name: at_end.enter_context(BROKERS[name].serves_fast()) for name in names}
        for records in RECORDS:
            for row in served(brokers, records, asked.requests, asked.rounds):
                rows.append(row)
                print(shown_served(row), flush=True)
    starts = started(names, asked.starts)
    print("\n".join(map(shown_started, starts)), flush=True)
    return {"loads": [asdict(row) for row in rows], "starts": [asdict(row) for row in starts]}


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--brokers", nargs="+", choices=BROKERS, default=list(BROKERS))
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="rounds of each load")
    parser.add_argument("--requests", type=positive, default=REQUESTS, help="requests of a load")
    parser.add_argument("--starts", type=positive, default=ROUNDS, help="starts of each broker")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args(words)
    names, missing = prepared(list(dict.fromkeys(asked.brokers)))
    for name, why in missing.items():
        print(f"{name} is not measured. {why}", file=sys.stderr)
    if not set(names) - {OURS} and set(asked.brokers) - {OURS}:
        parser.exit(2, "no peer is here\n")
    load_before = load_average()
    try:
        content = measured(names, asked)
    except (KafkaError, Missing, WrongAnswer, OSError) as error:
        parser.exit(2, f"{error}\n")
    if asked.json is not None:
        titles = {name: BROKERS[name].title() for name in names}
        load = [load_before, load_average()]
        head = {"brokers": titles, "missing": missing, "rounds": asked.rounds, "load_average": load}
        write_report(asked.json, "broker", {**head, **content})
    return 0


if __name__ == "__main__":
    sys.exit(main())
