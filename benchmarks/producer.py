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

Clients take turns on a broker; the first round, starting a client and its first record are not
counted. After each round the broker is asked how many records arrived.
`cpu` is the processor time of the client, all its threads, in microseconds a record or transaction:
it hardly depends on who else uses the machine. `ratio` is ours to the peer's throughput, the median
of the rounds' ratios; `by cpu` the peer's processor time to ours: in both, more than 1 is better
for ours. The broker is a process of its own: real Kafka with its usual settings and JVM flags, or
ours.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import count
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

from benchmarks.live.clients import CLIENTS, PARTITIONS, Client, NotAcknowledged, Settings
from benchmarks.live.running import (
    BROKERS,
    OURS,
    Missing,
    Running,
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
    round_figures,
    run_benchmark,
)
from conformance.adapters.brokers.kafka.admin import create_topic
from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.adapters.brokers.kafka.wait import poll
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

RECORDS_OF_A_TRANSACTION: Final = 10
BURST_LINGER_MS: Final = 5

ARRIVAL_TIMEOUT_S: Final = 10.0
_LIST_OFFSETS_VERSION: Final = 2
_LATEST: Final = -1


class WrongCount(RuntimeError):
    """The broker does not have as many records as the client sent."""


class Round(NamedTuple):
    """One round of one client: its time, and of singles each latency, in seconds."""

    time: Time
    latencies: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """What is measured: `work` does it and may give latencies; each of its `count` leaves
    `offsets_each` more offsets in the log, a marker included."""

    name: str
    count: int
    offsets_each: int
    linger_ms: int
    is_transactional: bool
    work: Callable[[Client, int], Sequence[float] | None]


def figures(records: int, singles: int, transactions: int) -> list[Figure]:
    """The three, in the order of the report."""
    size = RECORDS_OF_A_TRANSACTION
    return [
        Figure("burst", records, 1, BURST_LINGER_MS, False, lambda c, n: c.burst(n)),
        Figure("single", singles, 1, 0, False, lambda c, n: c.one_by_one(n)),
        Figure(
            "transactions", transactions, size + 1, 0, True, lambda c, n: c.transactions(n, size)
        ),
    ]


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
    found = poll(
        lambda: end_offsets(running, topic), lambda end: end >= expected, ARRIVAL_TIMEOUT_S
    )
    if found != expected:
        raise WrongCount(f"{topic} has {found} offsets, not {expected}")


# ---- one round


def measure_round(running: Running, figure: Figure, client: str, topic: str) -> Round:
    """One client, from nothing to all arrived. Raises its errors, KafkaError, WrongCount."""
    with running.connect() as connection:
        create_topic(connection, topic, PARTITIONS)
    name = f"{client}-{topic}" if figure.is_transactional else None
    servers = "{}:{}".format(*running.address)
    settings = Settings(servers, topic, figure.linger_ms, name)
    with closing(CLIENTS[client].open(settings)) as producer:
        figure.work(producer, 1)
        spent, latencies = measure_time(lambda: figure.work(producer, figure.count))
    await_arrival(running, topic, (figure.count + 1) * figure.offsets_each)
    return Round(spent, latencies or ())


def compare_clients(
    broker: str, running: Running, figure: Figure, clients: Sequence[str], rounds: int
) -> Iterator[dict[str, Any]]:
    """All clients on one broker, in turns. Raises as above."""
    topics = count()

    def measure(client: str) -> Round:
        return measure_round(running, figure, client, f"{figure.name}-{next(topics)}")

    alternate(clients, 1, measure)
    found = alternate(clients, rounds, measure)
    for client in clients:
        yield summarise(broker, figure, client, found)


def summarise(
    broker: str, figure: Figure, client: str, found: Mapping[str, Sequence[Round]]
) -> dict[str, Any]:
    """Medians of one client on one broker; ratios are to ours.

    `p50_ms` and `p99_ms` are those of a round's latencies, for singles.
    """
    times = {name: [each.time for each in rounds] for name, rounds in found.items()}
    typical = median_time(times[client])
    return {
        "figure": figure.name,
        "broker": broker,
        "client": client,
        "count": figure.count,
        "per_second": round_figures(figure.count / typical.seconds),
        "cpu_microseconds": round_figures(1e6 * typical.cpu_seconds / figure.count),
        "p50_ms": median_ms(found[client], 50),
        "p99_ms": median_ms(found[client], 99),
        **compare_rounds(client, times),
    }


def median_ms(rounds: Sequence[Round], percent: int) -> float | None:
    """The median of the rounds' percentiles, in milliseconds; None without latencies."""
    if any(len(each.latencies) < 2 for each in rounds):
        return None
    of_each = [quantiles(each.latencies, n=100)[percent - 1] for each in rounds]
    return round_figures(1e3 * median(of_each))


# ---- the command


def format_row(r: Mapping[str, Any]) -> str:
    p50, p99 = (f"{ms:>8.2f}" if ms is not None else f"{'':8}" for ms in (r["p50_ms"], r["p99_ms"]))
    return (
        f"{r['figure']:14}{r['broker']:7}{r['client']:17}{r['per_second']:>9,.0f}/s"
        f"{r['cpu_microseconds']:>10,.1f} us{p50}{p99}{format_ratios(r['ratio'], r['cpu_ratio'])}"
    )


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Every figure of every client on every broker. Raises as `measure_round`, and Missing."""
    missing = prepare_brokers(asked.brokers)
    missing |= {n: f"Type: pip install {n}" for n in asked.clients if not CLIENTS[n].is_installed}
    brokers = without_missing(asked.brokers, missing, "broker", needs_peer=False)
    clients = without_missing(asked.clients, missing, "peer", needs_peer=True)
    print(f"{'':38}{'':11}{'cpu':>13}{'p50 ms':>8}{'p99 ms':>8}{'ratio':>9}{'by cpu':>9}")
    rows = []
    for name in brokers:
        with BROKERS[name].serves_fast() as running:
            for figure in figures(asked.records, asked.singles, asked.transactions):
                for row in compare_clients(name, running, figure, clients, asked.rounds):
                    rows.append(row)
                    print(format_row(row), flush=True)
    return {
        "brokers": {name: BROKERS[name].title() for name in brokers},
        "clients": {name: version(name) for name in clients if name != OURS},
        "missing": missing,
        "rounds": asked.rounds,
        "figures": rows,
    }


OPTIONS = {
    "--brokers": {"nargs": "+", "choices": BROKERS, "default": ["kafka", "ours"]},
    "--clients": {"nargs": "+", "choices": CLIENTS, "default": list(CLIENTS)},
    "--rounds": count_option(5, "rounds of each figure"),
    "--records": count_option(20_000, "records of a burst"),
    "--singles": count_option(300, "records sent one by one"),
    "--transactions": count_option(100, "transactions"),
}
REFUSALS = (KafkaError, Missing, NotAcknowledged, WrongCount)

main = partial(run_benchmark, "producer", __doc__, OPTIONS, measure, REFUSALS)

if __name__ == "__main__":
    sys.exit(main())
