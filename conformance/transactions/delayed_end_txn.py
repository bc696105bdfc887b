"""The story of the delayed EndTxn: it ends the next transaction of the same epoch (KAFKA-17754).

A client's EndTxn of its first transaction is delayed by the network on one connection. The client
asks again on another one, is told that the transaction is over, and begins a second one. Then the
delayed copy arrives. With V1 requests nothing in it says which transaction it is about; with V2
requests (KIP-890) each transaction has an epoch of its own.

What became of the second transaction is decided by what is read back, never by what is expected.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.transactions.ground import Ground
from conformance.transactions.names import Names
from conformance.transactions.observed import Asked, Observed, observe
from conformance.transactions.reading import describe_transactions
from conformance.transactions.wire import (
    A,
    Call,
    Conversation,
    Group,
    Identified,
    Producer,
    Requests,
    Wire,
    error_in,
)
from impl.protocol.errors import ErrorCode

SETTLE_TIMEOUT_S: Final = 5.0
"""How long a transaction may take to end once its EndTxn is answered; milliseconds are usual."""

OFFSET: Final = 7
"""What the second transaction commits of its group."""

FIRST, SECOND, THIRD = "first", "second", "third"
"""The values that are written, the first one by the first transaction."""

_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to be hurt: what the delayed copy says, what the client does after it, and wants."""

    name: str
    delayed_commits: bool
    goes_on_with: str
    then_commits: bool
    what: str


OFFSETS, PARTITION = "offsets", "partition"

SHAPES: Final = (
    Shape(
        "lost_write",
        False,
        OFFSETS,
        True,
        "a delayed abort; the client commits its group's offsets with what it wrote",
    ),
    Shape(
        "aborted_write_shown",
        True,
        OFFSETS,
        False,
        "a delayed commit; the client aborts what it wrote and its group's offsets",
    ),
    Shape(
        "torn_transaction",
        False,
        PARTITION,
        True,
        "a delayed abort; the client commits what it wrote to two partitions",
    ),
)


@dataclass(frozen=True, slots=True)
class Told:
    """One request of the story: on which connection, what it was, what was answered."""

    connection: str
    request: str
    answer: str


@dataclass(frozen=True, slots=True)
class Written:
    """A write of the second transaction that was acknowledged, and whether it is committed."""

    what: str
    is_visible: bool


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of one shape.

    `end_answer` is what the client heard when it ended its second transaction. `broken` are
    guarantees by their names, from what was read back. `refused` is the request that ended the
    story early, empty if it was told to its end: nothing is decided then.
    """

    shape: Shape
    told: tuple[Told, ...]
    delayed_answer: str
    end_answer: str
    written: tuple[Written, ...]
    broken: tuple[str, ...]
    refused: str
    observed: Observed

    @property
    def verdict(self) -> str:
        """As the verbs have it."""
        if self.refused:
            return "undecided"
        return "violated" if self.broken else "holds"


class Refused(Exception):
    """A server refused what this story is made of; what it refused."""


class Story:
    """One shape, step by step, on fresh partitions, ids and connections."""

    def __init__(self, ground: Ground, requests: Requests, shape: Shape) -> None:
        self._ground = ground
        self._registers = requests == "v1"
        self._conversation: Conversation = ground.conversation(requests)
        self._shape = shape
        self._names = Names()
        self._told: list[Told] = []
        self._acknowledged: list[str] = []
        self._one, self._other = ground.topic(2)
        self._group = Group(ground.fresh("group"))
        self._id = ground.fresh("id")
        node = next(n for n, _ in ground.brokers.items() if ground.wire(n) is ground.coordinator())
        self._a, self._b = ground.connect(node), ground.connect(node)

    def play(self) -> Ending:
        """The whole story, or its beginning. Raises what a `Wire` raises."""
        try:
            producer, delayed = self._first_transaction()
            return self._second_transaction(producer, delayed)
        except Refused as refused:
            return Ending(
                self._shape, tuple(self._told), "", "", (), (), str(refused), self._observe()
            )

    def _first_transaction(self) -> tuple[Producer, Call[Identified]]:
        """Begin, write, end; who the client is then, and the copy that the network still has."""
        shape, c = self._shape, self._conversation
        told = self._accepted("InitProducerId", c.init_producer_id(self._id))
        producer = Producer(self._id, told.producer_id, told.producer_epoch)
        self._write(producer, self._one, 0, FIRST)
        delayed = c.end_txn(producer, shape.delayed_commits)
        what = f"{_end(shape.delayed_commits)} of transaction 1"
        self._told.append(Told("A", what, "(delayed by the network)"))
        told = self._accepted(f"{what}, again", delayed)
        self._settle()
        if told.producer_id >= 0:
            producer = Producer(self._id, told.producer_id, told.producer_epoch)
        return producer, delayed

    def _second_transaction(self, producer: Producer, delayed: Call[Identified]) -> Ending:
        """Begin and write, hear nothing of the delayed copy, write more, end."""
        shape, c = self._shape, self._conversation
        self._acknowledged.clear()
        self._write(producer, self._one, 1 if self._registers else 0, SECOND)
        arrived = self._a.ask(delayed)
        self._tell("A", "the delayed copy arrives", arrived)
        self._settle()
        self._go_on(producer)
        what = f"{_end(shape.then_commits)} of transaction 2"
        end = self._retry(self._b, "B", what, c.end_txn(producer, shape.then_commits))
        return self._ending(arrived.error, end.error, self._settle())

    def _write(self, producer: Producer, partition: TopicPartition, sequence: int, v: str) -> None:
        """Raises Refused where the first write is."""
        if self._registers:
            call = self._conversation.add_partitions(producer, [partition])
            self._retry(self._b, "B", f"AddPartitionsToTxn {_label(partition)}", call)
        leader = self._ground.leader(partition)
        what = f"Produce {v!r} to {_label(partition)}"
        produce = self._conversation.produce(producer, partition, sequence, v)
        error = self._retry(leader, "leader", what, produce).error
        if error is ErrorCode.NONE:
            self._acknowledged.append(v)
        elif v == FIRST:
            raise Refused(f"{what}: {error.name}")

    def _go_on(self, producer: Producer) -> None:
        """Register and write more, as a client does that knows nothing of the delayed copy."""
        if self._shape.goes_on_with == PARTITION:
            self._write(producer, self._other, 0, THIRD)
            return
        c, group = self._conversation, self._group
        if self._registers:
            call = c.add_offsets(producer, group.group_id)
            self._retry(self._b, "B", "AddOffsetsToTxn", call)
        wire = self._ground.group_coordinator()
        commit = c.txn_offset_commit(producer, group, self._one, OFFSET)
        if self._retry(wire, "group", "TxnOffsetCommit", commit).only is ErrorCode.NONE:
            self._acknowledged.append(OFFSETS)

    def _observe(self) -> Observed:
        offsets = {self._group.group_id: (self._one,)}
        return observe(self._ground, Asked((self._id,), (self._one, self._other), offsets))

    def _ending(self, delayed: ErrorCode, end: ErrorCode, settled: bool) -> Ending:
        observed = self._observe()
        written = tuple(
            Written(what, self._is_visible(what, observed)) for what in self._acknowledged
        )
        stable = all(
            partition.last_stable_offset == partition.high_watermark
            for partition in observed.partitions.values()
        )
        found = broken(self._shape, written, end is ErrorCode.NONE, settled, stable)
        told = tuple(self._told)
        return Ending(self._shape, told, delayed.name, end.name, written, found, "", observed)

    def _is_visible(self, what: str, observed: Observed) -> bool:
        if what == OFFSETS:
            seen = observed.stable[self._group.group_id, self._one]
            return seen.committed_offset == OFFSET
        return any(what in partition.committed for partition in observed.partitions.values())

    def _settle(self) -> bool:
        """Wait until the coordinator is not about to end a transaction; whether that came."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        call = describe_transactions([self._id])
        while self._ground.coordinator().ask(call)[self._id].state.startswith("Prepare"):
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE_S)
        return True

    def _tell(self, connection: str, request: str, answer: object) -> None:
        self._told.append(Told(connection, request, self._names.answer(answer)))

    def _retry(self, wire: Wire, connection: str, request: str, call: Call[A]) -> A:
        answer = wire.retry(call)
        self._tell(connection, request, answer)
        return answer

    def _accepted(self, request: str, call: Call[A]) -> A:
        """Asked on B. Raises Refused."""
        answer = self._retry(self._b, "B", request, call)
        if error_in(answer) is not ErrorCode.NONE:
            raise Refused(f"{request}: {error_in(answer).name}")
        return answer


def _label(partition: TopicPartition) -> str:
    return f"partition {partition[1]}"


def _end(commits: bool) -> str:
    return "EndTxn(commit)" if commits else "EndTxn(abort)"


def broken(
    shape: Shape, written: Sequence[Written], acknowledged: bool, settled: bool, stable: bool
) -> tuple[str, ...]:
    """The guarantees that the second transaction saw broken.

    `acknowledged`: its client was told that it ended; `settled`: its coordinator is done with it;
    `stable`: readers are past it.
    """
    visible = {write.is_visible for write in written}
    findings = {
        "no_lost_write": shape.then_commits and acknowledged and False in visible,
        "no_aborted_read": not shape.then_commits and True in visible,
        "all_or_none": len(visible) == 2,
        "completes": not settled,
        "last_stable_offset_moves": settled and not stable,
    }
    return tuple(name for name, is_broken in findings.items() if is_broken)
