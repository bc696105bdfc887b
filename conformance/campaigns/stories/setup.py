"""Verbs that bring about the initial state of an experiment. Each raises RequestRefused."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.kafka.errors import RequestRefused
from conformance.adapters.brokers.kafka.wait import poll
from conformance.adapters.brokers.reading import ReadIsolation, describe_transactions, list_latest
from conformance.adapters.brokers.wire import (
    TRANSACTION_TIMEOUT_MS,
    ClientIdentity,
    CoordinatorConnection,
    TxnMarker,
    WireCall,
    error_in,
)
from conformance.campaigns.stories.session import REACH_TIMEOUT_S, Session
from conformance.campaigns.stories.vocabulary import NO_NODES, Committed, Node, Nodes, verb
from impl.protocol.errors import ErrorCode

LAST_EPOCH: Final = 32_766
"""The last epoch of a client; only the coordinator's own aborts use 32767."""
IN_FLIGHT: Final = 100
WORKERS: Final = 2


@verb
def fresh(s: Session, word: str) -> str:
    """A name that was never used."""
    return s.testbed.fresh(word)


@verb
def topic(s: Session, *, on: Node | None = None, followers: Nodes = NO_NODES) -> Any:
    """A new topic with a partition for each name that the step assigns."""
    chosen = {"followers": followers} if followers else {}  # a single broker leaves no choice
    partitions = s.testbed.topic(s.targets, on=on, **chosen)
    return partitions if s.targets > 1 else partitions[0]


@verb
def connect(s: Session, node: Node) -> CoordinatorConnection:
    """Open one more connection to a broker."""
    return s.testbed.connect(node)


@verb
def names(s: Session, *producers: ClientIdentity) -> None:
    """Name producer ids afresh: these are P, Q, ..., then all others in order of appearance."""
    s.names = type(s.names)()
    for who in producers:
        s.names.producer(who.producer_id)


@verb
def mark_log(s: Session) -> None:
    """Let `log` show the records from here on."""
    wire = s.testbed.coordinator()
    s.log_starts = {
        partition: wire.ask(list_latest(partition, ReadIsolation.READ_UNCOMMITTED))
        for partition in s.testbed.transaction_logs()
    }


@verb
def wait(s: Session, seconds: float) -> None:
    """Let time pass."""
    time.sleep(seconds)


@verb
def begin(s: Session, *, timeout: int = TRANSACTION_TIMEOUT_MS) -> ClientIdentity:
    """A fresh transactional id at epoch 1, its previous epoch 0; `timeout` in ms."""
    name = s.testbed.fresh("id")
    first = _initialize(s, name, (-1, -1), timeout)
    return _initialize(s, name, (first.producer_id, first.producer_epoch), timeout)


def _initialize(s: Session, name: str, believed: tuple[int, int], timeout: int) -> ClientIdentity:
    call = s.conversation().init_producer_id(name, believed, timeout_ms=timeout)
    answer = accepted(s.testbed.coordinator(), call, "InitProducerId")
    s.names.producer(answer.producer_id)
    return ClientIdentity(name, answer.producer_id, answer.producer_epoch)


@verb
def open_(
    s: Session,
    who: ClientIdentity,
    at: TopicPartition,
    sequence: int = 0,
    value: str = "value",
    *,
    requests: str | None = None,
) -> None:
    """Register the partition if the requests need that, and write one record."""
    c = s.conversation(requests)
    if c.end_txn_version < 5:
        accepted(s.testbed.coordinator(), c.add_partitions(who, [at]), "AddPartitionsToTxn")
    accepted(s.testbed.leader(at), c.produce(who, at, sequence, value), "Produce")
    s.acknowledged.add(value)


@verb
def end(
    s: Session, who: ClientIdentity, outcome: Committed, *, requests: str | None = None
) -> ClientIdentity:
    """End the transaction and wait until it has ended; returns the producer's identity then."""
    call = s.conversation(requests).end_txn(who, outcome)
    answer = accepted(s.testbed.coordinator(), call, "EndTxn")
    settle(s, who)
    if answer.producer_id < 0:
        return who
    return replace(who, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)


@verb
def hold(s: Session, who: ClientIdentity, at: TopicPartition) -> None:
    """Make this partition refuse the next marker: the transaction stays in PREPARE.

    A marker of the next coordinator is written first: a leader refuses markers of earlier
    coordinators. After a restart that next coordinator is there.
    """
    epoch = s.testbed.coordinator_epoch(who.transactional_id)
    marker = TxnMarker(who.producer_id, who.producer_epoch, False, [at], epoch + 1)
    call = s.conversation("v1").write_txn_markers(marker)
    accepted(s.testbed.leader(at), call, "WriteTxnMarkers")


@verb
def in_state(
    s: Session,
    state: str,
    *,
    timeout: int = TRANSACTION_TIMEOUT_MS,
    on: Node | None = None,
    requests: str | None = None,
) -> ClientIdentity:
    """A fresh id in a state, and its producer: the identity that EndTxn returned, if any.

    `on` leads the partition of the transaction. In PREPARE_x by V2 requests the coordinator is one
    epoch ahead of the producer that began.
    """
    who = begin(s, timeout=timeout)
    if state == "Empty":
        return who
    [at] = s.testbed.topic(on=on)
    if state.startswith("Prepare"):
        hold(s, who, at)
    open_(s, who, at, requests=requests)
    if state == "Ongoing":
        return who
    committed = Committed(state.endswith("Commit"))
    if state.startswith("Complete"):
        return end(s, who, committed, requests=requests)
    accepted(s.testbed.coordinator(), s.conversation(requests).end_txn(who, committed), "EndTxn")
    return who


@verb
def begin_many(s: Session, count: int, at: TopicPartition, *, timeout: int) -> list[ClientIdentity]:
    """This many ids with a transaction that has written to the partition."""
    found = [begin(s, timeout=timeout) for _ in range(count)]
    for who in found:
        open_(s, who, at)
    return found


@verb
def exhaust(s: Session, *, timeout: int = TRANSACTION_TIMEOUT_MS) -> Any:
    """Fresh ids at LAST_EPOCH, their previous epoch below it: one for each name."""
    fresh_names = [s.testbed.fresh("exhausted") for _ in range(s.targets)]
    coordinator = s.node("coordinator")  # looked up once: a connection serves only one thread
    with ThreadPoolExecutor(WORKERS) as pool:
        wires = [s.testbed.connect(coordinator) for _ in fresh_names]
        found = list(
            pool.map(lambda wire, name: _exhausted(s, wire, name, timeout), wires, fresh_names)
        )
    return found if s.targets > 1 else found[0]


def _exhausted(s: Session, wire: CoordinatorConnection, name: str, timeout: int) -> ClientIdentity:
    c = s.conversation()
    accepted(wire, c.init_producer_id(name), "InitProducerId")
    answers = wire.pipeline([c.init_producer_id(name)] * (LAST_EPOCH - 1), IN_FLIGHT)
    believed = (answers[-1].producer_id, LAST_EPOCH - 1)
    call = c.init_producer_id(name, believed, timeout_ms=timeout)
    answer = accepted(wire, call, f"InitProducerId at {answers[-1]}")
    if answer.producer_epoch != LAST_EPOCH:
        raise RequestRefused(f"InitProducerId: {answer} is not at epoch {LAST_EPOCH}")
    return ClientIdentity(name, answer.producer_id, answer.producer_epoch)


@verb
def settle(s: Session, who: ClientIdentity) -> None:
    """Wait until the state is no PREPARE_x."""
    _await_state(s, who, lambda state: not state.startswith("Prepare"))


@verb
def await_state(s: Session, who: ClientIdentity, state: str) -> None:
    """Wait until the coordinator shows it."""
    _await_state(s, who, lambda shown: shown == state)


def _await_state(s: Session, who: ClientIdentity, suffices: Callable[[str], bool]) -> None:
    name = who.transactional_id
    call = describe_transactions([name])
    shown = poll(lambda: s.testbed.coordinator().ask(call)[name].state, suffices, REACH_TIMEOUT_S)
    if not suffices(shown):
        raise RequestRefused(f"{name} stays in {shown}")


def accepted(wire: CoordinatorConnection, call: WireCall[Any], what: str) -> Any:
    """The answer of a broker that is not busy, and accepts the call."""
    answer = wire.retry(call)
    if (error := error_in(answer)) is not ErrorCode.NONE:
        raise RequestRefused(f"{what}: {error.name}")
    return answer
