"""Throughput by requests in flight, with and without idempotence, in virtual time.

    python -m benchmarks.in_flight [--requests 2000] [--seed 0] [--json FILE] [--svg FILE]

The producer core of `impl` sends to its partition leader through a simulated network; nothing here
reads a clock, so that the same arguments give the same table and figure, byte for byte. There is
always a next record to send. A request takes half a round trip to the broker, waits for those
before it, and is handled; its answer takes the other half. A lost answer breaks its connection: all
other answers and the requests that have not reached the broker are lost with it, and the producer
connects again.

The log is compared with the sent records: `duplicates` are repeated ones, `reordered` are records
whose first copy is after a later record. Each run ends when every record is acknowledged.
"""

from __future__ import annotations

import heapq
import itertools
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.measuring import count_option, run_benchmark, write_file
from impl import (
    ErrorCode,
    IdempotentProducerCore,
    PartitionLeader,
    ProducerConfig,
    SendRequest,
    decode_batch,
)
from impl.protocol.schemas import ApiKey

TOPIC, PARTITION, NODE_ID = "orders", 0, 1
IN_FLIGHT = (1, 2, 3, 4, 5)
LOSSES = (0.0, 0.001, 0.01)
ROUND_TRIP_MS = 20
BROKER_MS = 2
LINGER_MS = 5
RECORDS_A_BATCH = 4
VALUE_BYTES = 1000
BATCH_BYTES = 4200
"""Room for four records and not for five."""
PRODUCER_ID = 7


@dataclass(frozen=True, slots=True)
class Case:
    """The parameters of a run: `loss` is the probability that an answer is lost."""

    idempotence: bool
    loss: float
    in_flight: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run; `retries` are requests sent again, the other counts are of records."""

    case: Case
    records: int
    virtual_ms: int
    records_per_second: float
    retries: int
    duplicates: int
    reordered: int
    missing: int


class Simulation:
    """One producer, one leader, and the network between them, in virtual milliseconds."""

    def __init__(self, case: Case, records: int, seed: int) -> None:
        self.case = case
        self.records = records
        self.random = Random(seed)
        self.leader = PartitionLeader()
        self.producer = IdempotentProducerCore(
            ProducerConfig.of(
                enable_idempotence=case.idempotence,
                max_in_flight_requests_per_connection=case.in_flight,
                linger_ms=LINGER_MS,
                batch_size=BATCH_BYTES,
            )
        )
        self.producer.update_metadata({(TOPIC, PARTITION): NODE_ID})
        self.now_ms = 0
        self.broker_free_ms = 0
        self.connection = 0
        self.appended = 0
        self.requests = 0
        self.pending: list[tuple[int, int, Callable[[], None]]] = []
        self.numbers = itertools.count()

    def at(self, when_ms: int, event: Callable[[], None]) -> None:
        """Schedule an event; simultaneous events happen in the order of scheduling."""
        heapq.heappush(self.pending, (when_ms, next(self.numbers), event))

    def run(self) -> Outcome:
        """Until every record is acknowledged."""
        while self.appended < self.records or not self.producer.is_idle:
            self.application_sends()
            for effect in self.producer.poll(self.now_ms):
                if isinstance(effect, SendRequest):
                    self.send(effect)
                else:
                    self.break_connection()
            self.advance()
        return self.outcome()

    def advance(self) -> None:
        """Go to the next time at which something happens."""
        wait_ms = self.producer.next_timeout_ms(self.now_ms)
        if wait_ms == 0:
            return
        due = [self.pending[0][0]] if self.pending else []
        due += [] if wait_ms is None else [self.now_ms + wait_ms]
        self.now_ms = min(due)
        while self.pending and self.pending[0][0] == self.now_ms:
            heapq.heappop(self.pending)[2]()

    def application_sends(self) -> None:
        """There is always as much queued as may be in flight, and a batch more."""
        ahead = (self.case.in_flight + 1) * RECORDS_A_BATCH
        stored = self.leader.log_end_offset
        while self.appended < min(self.records, stored + ahead):
            value = self.appended.to_bytes(VALUE_BYTES, "big")
            self.producer.append(TOPIC, PARTITION, value=value, now_ms=self.now_ms)
            self.appended += 1

    # ---- the network

    def send(self, request: SendRequest) -> None:
        """Half a round trip to the broker, if the connection lasts."""
        sent_on = self.connection
        self.requests += request.api_key == ApiKey.PRODUCE
        self.at(self.now_ms + ROUND_TRIP_MS // 2, lambda: self.arrive(request, sent_on))

    def arrive(self, request: SendRequest, sent_on: int) -> None:
        """The broker handles its requests one after the other."""
        if sent_on == self.connection:
            self.broker_free_ms = max(self.broker_free_ms, self.now_ms) + BROKER_MS
            self.at(self.broker_free_ms, lambda: self.handle(request, sent_on))

    def handle(self, request: SendRequest, sent_on: int) -> None:
        """The broker answers, even on a broken connection."""
        body = self.answer(request)
        back_ms = self.now_ms + ROUND_TRIP_MS // 2
        self.at(back_ms, lambda: self.receive(request, body, sent_on))

    def receive(self, request: SendRequest, body: dict[str, object], sent_on: int) -> None:
        """The answer reaches the producer, or is lost with its connection."""
        if sent_on != self.connection:
            return
        if self.random.random() < self.case.loss:
            self.break_connection()
            self.producer.disconnected(NODE_ID, self.now_ms)
        else:
            self.producer.receive(request.correlation_id, body, self.now_ms)

    def break_connection(self) -> None:
        """Requests under way on the old connection, and their answers, are lost."""
        self.connection += 1

    # ---- the broker

    def answer(self, request: SendRequest) -> dict[str, object]:
        """The broker's answer, once all replicas have the batch."""
        if request.api_key == ApiKey.INIT_PRODUCER_ID:
            return {"error_code": 0, "producer_id": PRODUCER_ID, "producer_epoch": 0}
        records = request.body["topics"][0]["partitions"][0]["records"]
        done = self.leader.produce(records, required_acks=-1, now_ms=self.now_ms)
        if done.error is ErrorCode.NONE:
            self.leader.advance_high_watermark(self.leader.log_end_offset)
        partition = {
            "index": PARTITION,
            "error_code": done.error,
            "base_offset": done.base_offset,
            "log_start_offset": done.log_start_offset,
        }
        return {"topics": [{"name": TOPIC, "partitions": [partition]}]}

    # ---- the outcome

    def outcome(self) -> Outcome:
        """The log beside what was sent."""
        batches = [values(stored.data) for stored in self.leader.batches]
        found = [number for batch in batches for number in batch]
        first_copies = list(dict.fromkeys(found))
        return Outcome(
            case=self.case,
            records=self.records,
            virtual_ms=self.now_ms,
            records_per_second=round(1000 * self.records / self.now_ms, 1),
            retries=self.requests - len({batch[0] for batch in batches}),
            duplicates=len(found) - len(first_copies),
            reordered=behind_a_later_one(first_copies),
            missing=self.records - len(first_copies),
        )


def values(batch: bytes) -> list[int]:
    """The numbers of a stored batch's records."""
    return [int.from_bytes(r.value or b"", "big") for r in decode_batch(batch).records]


def behind_a_later_one(numbers: Sequence[int]) -> int:
    """How many numbers follow a greater one."""
    highest = itertools.accumulate(numbers, max)
    return sum(number < most for number, most in zip(numbers, highest, strict=True))


def cases() -> Iterator[Case]:
    """All cases that are compared."""
    for idempotence in (True, False):
        for loss in LOSSES:
            for in_flight in IN_FLIGHT:
                yield Case(idempotence, loss, in_flight)


def simulate_cases(requests: int, seed: int) -> tuple[Outcome, ...]:
    """Each case, with the same records and the same random numbers."""
    records = requests * RECORDS_A_BATCH
    return tuple(Simulation(case, records, seed).run() for case in cases())


# The table


def format_table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of the table."""
    yield (
        f"{'idempotence':<12}{'answers lost':>13}{'in flight':>11}{'records/s':>11}"
        f"{'retries':>9}{'duplicates':>12}{'reordered':>11}"
    )
    for o in outcomes:
        name = "on" if o.case.idempotence else "off"
        yield (
            f"{name:<12}{o.case.loss:>13.1%}{o.case.in_flight:>11}{o.records_per_second:>11,.1f}"
            f"{o.retries:>9,}{o.duplicates:>12,}{o.reordered:>11,}"
        )


# The figure

WIDTH, HEIGHT = 760, 330
PANEL_WIDTH, TOP, BOTTOM = 290, 60, 260
STEP = PANEL_WIDTH / (len(IN_FLIGHT) - 1)
LINES = {0.0: "#1b7837", 0.001: "#2166ac", 0.01: "#b2182b"}
"""A colour for each share of answers lost."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram over the number in flight: its left edge, its title, and what it shows."""

    left: int
    title: str
    most: float
    value: Callable[[Outcome], float]

    def draw(self, outcomes: Sequence[Outcome]) -> Iterator[str]:
        """A scale, and a line for each share of answers lost: dashed without idempotence."""
        middle = self.left + PANEL_WIDTH / 2
        yield text(middle, TOP - 20, self.title)
        for quarter in range(5):
            y = BOTTOM - (BOTTOM - TOP) * quarter / 4
            yield f'<path d="M{self.left} {y:g}H{self.left + PANEL_WIDTH}" stroke="#ddd"/>'
            yield text(self.left - 8, y + 4, f"{self.most * quarter / 4:,.0f}", "end")
        for i, in_flight in enumerate(IN_FLIGHT):
            yield text(self.left + STEP * i, BOTTOM + 18, str(in_flight))
        yield text(middle, BOTTOM + 36, "requests in flight")
        for idempotence, (loss, colour) in itertools.product((True, False), LINES.items()):
            row = [o for o in outcomes if (o.case.idempotence, o.case.loss) == (idempotence, loss)]
            dashes = "" if idempotence else ' stroke-dasharray="5 4"'
            yield (
                f'<polyline points="{" ".join(map(self.point, row))}" fill="none"'
                f' stroke="{colour}" stroke-width="2"{dashes}/>'
            )

    def point(self, outcome: Outcome) -> str:
        """Where an outcome is drawn."""
        across = self.left + STEP * IN_FLIGHT.index(outcome.case.in_flight)
        return f"{across:.1f},{BOTTOM - (BOTTOM - TOP) * self.value(outcome) / self.most:.1f}"


def rounded_up(value: float) -> float:
    """The next number that begins with one digit and goes on with zeros; 1 at least."""
    step = 10 ** (len(str(int(max(value, 1)))) - 1)
    return float(step * (int(max(value, 1)) // step + 1))


def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    """A word in the figure."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


def legend() -> Iterator[str]:
    """What colours and dashes mean."""
    for i, (loss, colour) in enumerate(LINES.items()):
        x = 60 + 155 * i
        yield f'<path d="M{x} {HEIGHT - 14}h24" stroke="{colour}" stroke-width="2"/>'
        yield text(x + 30, HEIGHT - 10, f"{loss:.1%} of answers lost", "start")
    yield text(540, HEIGHT - 10, "dashed: without idempotence", "start")


def figure(outcomes: Sequence[Outcome]) -> str:
    """The figure as SVG."""
    diagrams: Mapping[str, Callable[[Outcome], float]] = {
        "records a second": lambda o: o.records_per_second,
        "records in the log twice, or out of order": lambda o: o.duplicates + o.reordered,
    }
    panels = [
        Panel(left, title, rounded_up(max(map(value, outcomes))), value)
        for left, (title, value) in zip((70, 440), diagrams.items(), strict=True)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        "<title>Requests in flight: throughput, duplicates and order</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    )
    drawn = [part for panel in panels for part in panel.draw(outcomes)]
    return "\n".join((*head, *drawn, *legend(), "</svg>")) + "\n"


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Simulate all cases."""
    outcomes = simulate_cases(asked.requests, asked.seed)
    print("\n".join(format_table(outcomes)))
    if asked.svg is not None:
        write_file(asked.svg, figure(outcomes))
    return {
        "seed": asked.seed,
        "round_trip_ms": ROUND_TRIP_MS,
        "broker_ms": BROKER_MS,
        "linger_ms": LINGER_MS,
        "records_a_batch": RECORDS_A_BATCH,
        "outcomes": [asdict(o) for o in outcomes],
    }


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--requests": count_option(2000, "batches of each run"),
    "--seed": {"type": int, "default": 0},
    "--svg": {"type": Path, "metavar": "FILE", "help": "write the figure"},
}

main = partial(run_benchmark, "in_flight", __doc__, OPTIONS, measure, ())

if __name__ == "__main__":
    sys.exit(main())
