"""Our producer against aiokafka, kafka-python and confluent-kafka, on the same broker.

    python -m benchmarks.producer [--brokers kafka ours] [--clients ours aiokafka ...] [--rounds 5]
                                  [--records 20000] [--singles 300] [--transactions 100]
                                  [--json FILE]

All are idempotent, acks=all, batches of at most 16 KiB, nothing compressed, five requests in flight
(aiokafka: one to a broker, it has no such setting); records have 100 bytes. Three figures:

    burst          records to four partitions in turn, as fast as `send` takes them, until all are
                   acknowledged; linger 5 ms
    single         one record, the next one when it is acknowledged; linger 0
    transactions   10 records each, begun, sent and committed, one after the other; linger 0

Clients take turns on a broker, the first one changing; one round is not counted, nor is starting a
client, nor the first record of each. How many records arrived is asked of the broker each time.
`cpu` is the processor time of the client, all its threads, in microseconds a record or transaction:
it hardly depends on who else uses the machine. `ratio` is ours to the peer's throughput, the median
of the rounds' ratios; `by cpu` the peer's processor time to ours: in both, more than 1 is better
for ours. The broker is a process of its own: real Kafka with its usual settings and JVM flags, or
ours.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Final

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.live.clients import CLIENTS, PARTITIONS, Client, NotAcknowledged, Settings
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
from benchmarks.live.running import BROKERS, Missing, Running, prepared
from conformance.kafka.admin import create_topic
from conformance.kafka.errors import KafkaError
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

ROUNDS: Final = 5
RECORDS: Final = 20_000
SINGLES: Final = 300
TRANSACTIONS: Final = 100
RECORDS_OF_A_TRANSACTION: Final = 10
BURST_LINGER_MS: Final = 5
OURS: Final = "ours"

ARRIVAL_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.01
_LIST_OFFSETS_VERSION: Final = 2
_LATEST: Final = -1

Work = Callable[[Client, int], Sequence[float] | None]

clock = time.perf_counter


class WrongCount(RuntimeError):
    """Other records are at the broker than the client says that it has sent."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One round of one client: wall time, its processor time, and of singles each latency."""

    seconds: float
    cpu_seconds: float
    latencies: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """What is measured: `work` does it and may give latencies; each of its `count` leaves
    `offsets_each` more offsets in the log, a marker included."""

    name: str
    count: int
    offsets_each: int
    linger_ms: int
    is_transactional: bool
    work: Work


@dataclass(frozen=True, slots=True)
class Produced:
    """Medians of one client on one broker.

    `ratio` is ours to its throughput, `cpu_ratio` its processor time to ours; None: it is ours.
    `p50_ms` and `p99_ms` are those of a round's latencies, for singles.
    """

    figure: str
    broker: str
    client: str
    count: int
    per_second: float
    cpu_microseconds: float
    p50_ms: float | None
    p99_ms: float | None
    ratio: float | None
    cpu_ratio: float | None
    seconds_of_each_round: tuple[float, ...]


def figures(records: int, singles: int, transactions: int) -> list[Figure]:
    """The three, in the order of the report."""
    size = RECORDS_OF_A_TRANSACTION
    rows: Sequence[tuple[str, int, int, int, bool, Work]] = (
        ("burst", records, 1, BURST_LINGER_MS, False, lambda c, n: c.burst(n)),
        ("single", singles, 1, 0, False, lambda c, n: c.one_by_one(n)),
        ("transactions", transactions, size + 1, 0, True, lambda c, n: c.transactions(n, size)),
    )
    return [Figure(*row) for row in rows]


# ---- what arrived


def end_offsets(running: Running, topic: str) -> int:
    """How many offsets its partitions have given. Raises KafkaError, WrongCount."""
    partitions = [{"partition_index": index, "timestamp": _LATEST} for index in range(PARTITIONS)]
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]}
    with running.connect() as connection:
        answer = connection.ask(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, body)
    rows = [row for found in answer["topics"] for row in found["partitions"]]
    errors = {ErrorCode(row["error_code"]).name for row in rows if row["error_code"]}
    if errors:
        raise WrongCount(f"ListOffsets of {topic}: {', '.join(sorted(errors))}")
    return sum(row["offset"] for row in rows)


def await_arrival(running: Running, topic: str, expected: int) -> None:
    """Wait until the log is that long: markers may follow the answer. Raises WrongCount."""
    deadline = clock() + ARRIVAL_TIMEOUT_S
    while (found := end_offsets(running, topic)) != expected:
        if found > expected or clock() > deadline:
            raise WrongCount(f"{topic} has {found} offsets, not {expected}")
        time.sleep(_PAUSE_S)


# ---- one round


def measured(running: Running, figure: Figure, client: str, topic: str) -> Timed:
    """One client, from nothing to all arrived. Raises its errors, KafkaError, WrongCount."""
    with running.connect() as connection:
        create_topic(connection, topic, PARTITIONS)
    name = f"{client}-{topic}" if figure.is_transactional else None
    servers = "{}:{}".format(*running.address)
    settings = Settings(servers, topic, figure.linger_ms, name)
    with closing(CLIENTS[client].open(settings)) as producer:
        figure.work(producer, 1)
        cpu, begun = time.process_time(), clock()
        latencies = figure.work(producer, figure.count)
        seconds, cpu_seconds = clock() - begun, time.process_time() - cpu
    await_arrival(running, topic, (figure.count + 1) * figure.offsets_each)
    return Timed(seconds, cpu_seconds, tuple(latencies or ()))


def compared(
    broker: str, running: Running, figure: Figure, clients: Sequence[str], rounds: int
) -> list[Produced]:
    """All clients on one broker, in turns. Raises as above."""
    topics = count()

    def measure(client: str) -> Timed:
        return measured(running, figure, client, f"{figure.name}-{next(topics)}")

    alternated(clients, 1, measure)
    found = alternated(clients, rounds, measure)
    return [summed(broker, figure, client, found) for client in clients]


def summed(
    broker: str, figure: Figure, client: str, found: Mapping[str, Sequence[Timed]]
) -> Produced:
    """What the rounds of one client come to."""
    mine, ours = found[client], found.get(OURS, [])
    seconds, cpu = [each.seconds for each in mine], [each.cpu_seconds for each in mine]
    is_peer = client != OURS and bool(ours)
    p50, p99 = (median_ms(mine, percent) for percent in (50, 99))
    return Produced(
        figure=figure.name,
        broker=broker,
        client=client,
        count=figure.count,
        per_second=rounded(figure.count / median(seconds)),
        cpu_microseconds=rounded(1e6 * median(cpu) / figure.count),
        p50_ms=p50,
        p99_ms=p99,
        ratio=rounded(ratio(seconds, [each.seconds for each in ours])) if is_peer else None,
        cpu_ratio=cpu_ratio([each.cpu_seconds for each in ours], cpu) if is_peer else None,
        seconds_of_each_round=tuple(map(rounded, seconds)),
    )


def median_ms(rounds: Sequence[Timed], percent: int) -> float | None:
    """The median of the rounds' percentiles, in milliseconds; None without latencies."""
    if any(len(each.latencies) < 2 for each in rounds):
        return None
    of_each = [quantiles(each.latencies, n=100)[percent - 1] for each in rounds]
    return rounded(1e3 * median(of_each))


# ---- the command


def shown(r: Produced) -> str:
    p50, p99 = (f"{ms:>8.2f}" if ms is not None else f"{'':8}" for ms in (r.p50_ms, r.p99_ms))
    return (
        f"{r.figure:14}{r.broker:7}{r.client:17}{r.per_second:>9,.0f}/s"
        f"{r.cpu_microseconds:>10,.1f} us{p50}{p99}"
        f"{shown_ratios(r.ratio, r.cpu_ratio)}"
    )


def run(
    brokers: Sequence[str], clients: Sequence[str], asked: argparse.Namespace
) -> Iterator[Produced]:
    """Every figure of every client on every broker. Raises as `measured`."""
    for name in brokers:
        with BROKERS[name].serves_fast() as running:
            for figure in figures(asked.records, asked.singles, asked.transactions):
                yield from compared(name, running, figure, clients, asked.rounds)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--brokers", nargs="+", choices=BROKERS, default=["kafka", "ours"])
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    for name, default, what in (
        ("rounds", ROUNDS, "rounds of each figure"),
        ("records", RECORDS, "records of a burst"),
        ("singles", SINGLES, "records sent one by one"),
        ("transactions", TRANSACTIONS, "transactions"),
    ):
        parser.add_argument(f"--{name}", type=positive, default=default, help=f"{what} ({default})")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = arguments()
    asked = parser.parse_args(words)
    brokers, missing = prepared(list(dict.fromkeys(asked.brokers)))
    clients = [name for name in dict.fromkeys(asked.clients) if CLIENTS[name].is_installed]
    missing |= {n: f"Type: pip install {n}" for n in asked.clients if n not in clients}
    for name, why in missing.items():
        print(f"{name} is not measured. {why}", file=sys.stderr)
    if not brokers:
        parser.exit(2, "no broker is here\n")
    if not set(clients) - {OURS} and set(asked.clients) - {OURS}:
        parser.exit(2, "no peer is here\n")
    print(f"{'':38}{'':11}{'cpu':>13}{'p50 ms':>8}{'p99 ms':>8}{'ratio':>9}{'by cpu':>9}")
    rows: list[Produced] = []
    load_before = load_average()
    try:
        for row in run(brokers, clients, asked):
            rows.append(row)
            print(shown(row), flush=True)
    except (KafkaError, Missing, NotAcknowledged, WrongCount) as error:
        parser.exit(2, f"{error}\n")
    if asked.json is not None:
        content = {
            "brokers": {name: BROKERS[name].title() for name in brokers},
            "clients": {name: version(name) for name in clients if name != OURS},
            "missing": missing,
            "rounds": asked.rounds,
            "load_average": [load_before, load_average()],
            "figures": [asdict(row) for row in rows],
        }
        write_report(asked.json, "producer", content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
