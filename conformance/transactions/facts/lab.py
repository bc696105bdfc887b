"""The bench of one experiment: fresh ids in wanted states, requests, and facts written down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.kafka.errors import RequestRefused
from conformance.transactions.ground import Ground
from conformance.transactions.names import Names
from conformance.transactions.observed import see_log
from conformance.transactions.reading import (
    TRANSACTION_STATE,
    Isolation,
    TransactionRecord,
    TransactionSeen,
    describe_producers,
    describe_transactions,
    fetch,
    leadership,
    list_latest,
    see,
)
from conformance.transactions.wire import Call, Conversation, Marker, Producer, Requests
from impl.protocol.errors import ErrorCode

SETTLE_TIMEOUT_S: Final = 5.0
"""How long an EndTxn that was answered may take to complete; milliseconds are usual."""
REACH_TIMEOUT_S: Final = 20.0
"""How long a state may take that a time-out leads to."""
GLANCE_S: Final = 4.0
"""How long what follows a marker or a time-out may take to be seen."""

_PAUSE_S: Final = 0.005

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One finding: what was asked in what state, what was expected, what was seen."""

    experiment: str
    name: str
    expected: str
    observed: str

    @property
    def agrees(self) -> bool:
        """Whether it is as expected."""
        return self.expected == self.observed


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named experiment. `requests` are those that the broker must serve; `properties` those that
    the broker must have been started with; `restarts`: it restarts the broker; `alone`: it leaves
    a broker behind that is no good for others; `seated`: as in `Ground`."""

    name: str
    run: Callable[[Lab], None]
    requests: tuple[Requests, ...]
    properties: Mapping[str, str]
    restarts: bool
    nodes: int
    alone: bool
    seated: bool


EXPERIMENTS: Final[dict[str, Experiment]] = {}


def experiment(
    *requests: Requests,
    properties: Mapping[str, str] | None = None,
    restarts: bool = False,
    nodes: int = 1,
    alone: bool = False,
    seated: bool = False,
) -> Callable[[Callable[[Lab], None]], Callable[[Lab], None]]:
    """Enter a function among the EXPERIMENTS, under its own name."""

    def enter(run: Callable[[Lab], None]) -> Callable[[Lab], None]:
        name = run.__name__
        configurations = (requests, properties or {}, restarts, nodes, alone, seated)
        EXPERIMENTS[name] = Experiment(name, run, *configurations)
        return run

    return enter


def newest_of(release: str, by_release: Mapping[str, str]) -> str:
    """The entry of the newest release that is not after `release`: `{"0": ..., "4.1": ...}`."""
    at = _numbers(release)
    return by_release[max((r for r in by_release if _numbers(r) <= at), key=_numbers)]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


@dataclass(slots=True)
class Lab:
    """A bench on a ground; each experiment has its own, and names producer ids afresh."""

    ground: Ground
    experiment: str
    facts: list[Fact] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    log_start: int = 0

    def __post_init__(self) -> None:
        """The log of transactions is read from here on."""
        self.mark_log()

    @property
    def v1(self) -> Conversation:
        """V1 requests in their newest versions."""
        return self.ground.conversation("v1")

    @property
    def v2(self) -> Conversation:
        """V2 requests."""
        return self.ground.conversation("v2")

    def since(self, by_release: Mapping[str, str]) -> str:
        """What is expected of this release."""
        return newest_of(self.ground.release.version, by_release)

    def fact(self, name: str, expected: str, observed: str) -> None:
        """Write down a finding."""
        self.facts.append(Fact(self.experiment, name, expected, observed))

    def rename(self) -> None:
        """Name producer ids afresh: the next one is P."""
        self.names = Names()

    # What is asked of whom.

    def ask(self, call: Call[object]) -> str:
        """The coordinator's answer."""
        return self.names.answer(self.ground.coordinator().ask(call))

    def retry(self, call: Call[object]) -> str:
        """The coordinator's answer once it is not busy."""
        return self.names.answer(self.ground.coordinator().retry(call))

    def ask_leader(self, partition: TopicPartition, call: Call[object]) -> str:
        """A partition leader's answer."""
        return self.names.answer(self.ground.leader(partition).ask(call))

    def ask_group(self, call: Call[object]) -> str:
        """The group coordinator's answer."""
        return self.names.answer(self.ground.group_coordinator().ask(call))

    # What is set up.

    def begin(self, conversation: Conversation, *, timeout_ms: int = 60_000) -> Producer:
        """A fresh transactional id at epoch 1, its last epoch 0. Raises RequestRefused."""
        transactional_id = self.ground.fresh("id")
        first = self._begun(conversation, transactional_id, (-1, -1), timeout_ms)
        expected = (first.producer_id, first.producer_epoch)
        return self._begun(conversation, transactional_id, expected, timeout_ms)

    def _begun(
        self, c: Conversation, transactional_id: str, expected: tuple[int, int], timeout_ms: int
    ) -> Producer:
        call = c.init_producer_id(transactional_id, expected, timeout_ms=timeout_ms)
        answer = self.ground.coordinator().retry(call)
        accept(answer.error, "InitProducerId")
        self.names.producer(answer.producer_id)
        return Producer(transactional_id, answer.producer_id, answer.producer_epoch)

    def open(
        self, c: Conversation, producer: Producer, partition: TopicPartition, sequence: int = 0
    ) -> None:
        """Register if the conversation does, and write one record. Raises RequestRefused."""
        if c.end_txn_version < 5:
            added = self.ground.coordinator().retry(c.add_partitions(producer, [partition]))
            accept(added.only, "AddPartitionsToTxn")
        produced = self.ground.leader(partition).retry(
            c.produce(producer, partition, sequence, "value")
        )
        accept(produced.error, "Produce")

    def end(self, c: Conversation, producer: Producer, committed: bool) -> Producer:
        """End the transaction and wait until it has; who the producer is then."""
        answer = self.ground.coordinator().retry(c.end_txn(producer, committed))
        accept(answer.error, "EndTxn")
        self.settle(producer.transactional_id)
        if answer.producer_id < 0:
            return producer
        return replace(
            producer, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
        )

    def hold(self, producer: Producer, partition: TopicPartition) -> None:
        """See to it that the next marker is refused here: the transaction stays in PREPARE.

        A marker of the next coordinator came before: a leader refuses those of earlier ones. After
        a restart that coordinator is there.
        """
        epoch = self.ground.coordinator().ask(leadership(TRANSACTION_STATE)).leader_epoch
        marker = Marker(
            producer.producer_id,
            producer.producer_epoch,
            False,
            [partition],
            epoch + 1,
        )
        accept(self.ground.leader(partition).ask(self.v1.write_txn_markers(marker)).only, "marker")

    def in_state(
        self, state: str, c: Conversation, *, timeout_ms: int = 60_000, on: int | None = None
    ) -> Producer:
        """A fresh id in a state, and who its producer is: what EndTxn said if it said so.

        `on` is the broker that leads the partition of the transaction.

        In PREPARE_x by V2 requests the coordinator is one epoch ahead of who began. Raises
        RequestRefused.
        """
        producer = self.begin(c, timeout_ms=timeout_ms)
        if state == "Empty":
            return producer
        [partition] = self.ground.topic(on=on)
        if state.startswith("Prepare"):
            self.hold(producer, partition)
        self.open(c, producer, partition)
        if state == "Ongoing":
            return producer
        committed = state.endswith("Commit")
        if state.startswith("Complete"):
            return self.end(c, producer, committed)
        accept(self.ground.coordinator().ask(c.end_txn(producer, committed)).error, "EndTxn")
        return producer

    # What is looked at.

    def state(self, producer: Producer) -> str:
        """`Ongoing P:3`: what the coordinator shows now, its partitions left out."""
        return self.names.state(self.described(producer))

    def settled(self, producer: Producer) -> str:
        """As `state`, once no transaction is about to end."""
        self.settle(producer.transactional_id)
        return self.state(producer)

    def settle(self, transactional_id: str) -> None:
        """Wait until the state is none of PREPARE_x. Raises RequestRefused."""
        call = describe_transactions([transactional_id])
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while self.ground.coordinator().ask(call)[transactional_id].state.startswith("Prepare"):
            if time.monotonic() > deadline:
                raise RequestRefused(f"{transactional_id}: it stays in PREPARE")
            time.sleep(_PAUSE_S)

    def await_state(self, producer: Producer, state: str) -> None:
        """Wait until the coordinator shows it. Raises RequestRefused."""
        deadline = time.monotonic() + REACH_TIMEOUT_S
        while (seen := self.described(producer).state) != state:
            if time.monotonic() > deadline:
                raise RequestRefused(f"{producer.transactional_id}: {seen}, never {state}")
            time.sleep(_PAUSE_S)

    def described(self, producer: Producer) -> TransactionSeen:
        """All that the coordinator shows."""
        name = producer.transactional_id
        return self.ground.coordinator().ask(describe_transactions([name]))[name]

    def partition(self, partition: TopicPartition) -> str:
        """`a b !ABORT` with epochs: `P:1#0 P:2!ABORT | LSO=HW` - the log and whether it is open."""
        wire = self.ground.leader(partition)
        fetched = wire.ask(fetch(partition, 0, Isolation.READ_UNCOMMITTED))
        words = [
            f"{self.names.identity(b.producer_id, b.producer_epoch)}"
            + (f"!{b.marker}" if b.marker else f"#{b.base_sequence}")
            for b in map(see, fetched.batches)
        ]
        stable = wire.ask(list_latest(partition, Isolation.READ_COMMITTED))
        is_open = "stable" if stable == fetched.high_watermark else f"open from {stable}"
        return f"{' '.join(words) or 'empty'}, {is_open}"

    def stable(self, partition: TopicPartition) -> str:
        """As `partition`, once nothing is open in it, or after GLANCE_S."""
        return eventually(lambda: self.partition(partition), lambda seen: seen.endswith("stable"))

    def entry(self, partition: TopicPartition, producer_id: int) -> str:
        """`P:1 last 0 coordinator 0 open 3`: what the leader remembers of one producer."""
        producers = self.ground.leader(partition).ask(describe_producers(partition))
        if producer_id not in producers:
            return "unknown"
        e = producers[producer_id]
        opened = "" if e.current_txn_start_offset < 0 else f" open {e.current_txn_start_offset}"
        who = self.names.identity(e.producer_id, e.producer_epoch)
        return f"{who} last {e.last_sequence} coordinator {e.coordinator_epoch}{opened}"

    def mark_log(self) -> None:
        """`log` begins here."""
        wire = self.ground.coordinator()
        self.log_start = wire.ask(list_latest(TRANSACTION_STATE, Isolation.READ_UNCOMMITTED))

    def records(self, producer: Producer) -> tuple[TransactionRecord, ...]:
        """The id's records of `__transaction_state` since `mark_log`."""
        return see_log(self.ground, [producer.transactional_id], self.log_start)

    def log(self, producer: Producer) -> str:
        """`Ongoing P:1, PrepareCommit P:2`: the id's records since `mark_log`."""
        return ", ".join(map(self._record, self.records(producer))) or "nothing"

    def _record(self, row: TransactionRecord) -> str:
        if row.status is None:
            return "tombstone"
        return f"{row.status.name} {self.names.identity(row.producer_id, row.producer_epoch)}"


def accept(error: ErrorCode, what: str) -> None:
    """Raise RequestRefused for an error: the experiment cannot be set up."""
    if error is not ErrorCode.NONE:
        raise RequestRefused(f"{what}: {error.name}")


def eventually(look: Callable[[], str], good: Callable[[str], bool]) -> str:
    """What is seen once it is good, or what is seen after GLANCE_S."""
    deadline = time.monotonic() + GLANCE_S
    while not good(seen := look()) and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    return seen
