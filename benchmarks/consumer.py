"""Our consumer against aiokafka's, on the same broker, over the same topics.

    python -m benchmarks.consumer [--brokers kafka ours] [--clients ours aiokafka] [--rounds 5]
                                  [--records 50000] [--large 2000] [--json FILE]

Both read four partitions from their beginning, without a group, checksums checked; batches have at
most 16 KiB, nothing is compressed. Each log is read by `getmany`, `getone` and `async for`:

    small          records of 100 bytes, read_uncommitted
    mixed          records of 50 to 150 bytes with keys, read_uncommitted
    large          records of 10,000 bytes, read_uncommitted
    transactions   records of 100 bytes, 100 in a transaction, read_committed; beside five
                   transactions that are committed one is aborted, whose records nobody may see

Clients take turns on a broker; the first round and connecting are not counted, finding the
positions is. How many records were read, and how many bytes they have, is checked. `cpu` is the
processor time of the client in microseconds a record. `ratio` is ours to the peer's throughput,
the median of the rounds' ratios; `by cpu` the peer's processor time to ours: in both, more than 1
is better for ours. The broker is a process of its own, as in `benchmarks.producer`.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from benchmarks.live.clients import CLIENTS, PARTITIONS
from benchmarks.live.readers import CALLS, READERS, Log, MustRead, Reader, write_log
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

SMALL: Final = (100,)
MIXED: Final = range(50, 151, 7)
LARGE: Final = (10_000,)
"""Sizes of values."""


class WrongRecords(RuntimeError):
    """A client has not read what is in the log."""


def logs(records: int, large: int) -> list[Log]:
    """The four, in the order of the report."""
    return [
        Log("small", records, SMALL),
        Log("mixed", records, MIXED, has_keys=True),
        Log("large", large, LARGE),
        Log("transactions", records, SMALL, is_transactional=True),
    ]


def write(running: Running, log: Log) -> None:
    """Create its topic, and write it. Raises KafkaError, `ProducerError`."""
    with running.connect() as connection:
        create_topic(connection, log.name, PARTITIONS)
    asyncio.run(write_log(servers(running), log))


@contextmanager
def frozen_heap() -> Iterator[None]:
    """The collector leaves alone what is there already: each round collects what the one before
    left, and only that."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def servers(running: Running) -> str:
    """Its address as clients take it."""
    return "{}:{}".format(*running.address)


# ---- one round


def measure_round(running: Running, log: Log, call: str, client: str) -> Time:
    """One client reads the log. Raises its errors, WrongRecords."""
    asked = MustRead(servers(running), log.name, log.isolation_level, call, log.count)
    with closing(Reader(client, asked)) as reader:
        gc.collect()  # what others have left behind is not this client's work
        spent, found = measure_time(reader.read)
    if found != log.content:
        raise WrongRecords(f"{client} by {call} of {log.name}: {found}, not {log.content}")
    return spent


def compare_clients(
    broker: str, running: Running, log: Log, call: str, clients: Sequence[str], rounds: int
) -> Iterator[dict[str, Any]]:
    """All clients on one broker, in turns. Raises as above."""

    def measure(client: str) -> Time:
        return measure_round(running, log, call, client)

    alternate(clients, 1, measure)
    found = alternate(clients, rounds, measure)
    for client in clients:
        typical = median_time(found[client])
        yield {
            "log": log.name,
            "call": call,
            "broker": broker,
            "client": client,
            "count": log.count,
            "per_second": round_figures(log.count / typical.seconds),
            "cpu_microseconds": round_figures(1e6 * typical.cpu_seconds / log.count),
            **compare_rounds(client, found),
        }


# ---- the command


def format_row(r: Mapping[str, Any]) -> str:
    """A line of the table."""
    return (
        f"{r['log']:14}{r['call']:11}{r['broker']:7}{r['client']:10}{r['per_second']:>10,.0f}/s"
        f"{r['cpu_microseconds']:>10,.2f} us{format_ratios(r['ratio'], r['cpu_ratio'])}"
    )


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Every log by every call, by every client on every broker. Raises as above, and Missing."""
    missing = prepare_brokers(asked.brokers)
    missing |= {n: f"Type: pip install {n}" for n in asked.clients if not CLIENTS[n].is_installed}
    brokers = without_missing(asked.brokers, missing, "broker", needs_peer=False)
    clients = without_missing(asked.clients, missing, "peer", needs_peer=True)
    print(f"{'':42}{'':12}{'cpu':>13}{'ratio':>9}{'by cpu':>9}")
    rows = []
    for name in brokers:
        with BROKERS[name].serves_fast() as running, frozen_heap():
            for log in logs(asked.records, asked.large):
                write(running, log)
                for call in CALLS:
                    for row in compare_clients(name, running, log, call, clients, asked.rounds):
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
    "--clients": {"nargs": "+", "choices": READERS, "default": list(READERS)},
    "--rounds": count_option(5, "rounds of each figure"),
    "--records": count_option(50_000, "small records of a log"),
    "--large": count_option(2_000, "large records of a log"),
}
REFUSALS = (KafkaError, Missing, WrongRecords)

main = partial(run_benchmark, "consumer", __doc__, OPTIONS, measure, REFUSALS)

if __name__ == "__main__":
    sys.exit(main())
