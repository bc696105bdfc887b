"""Three brokers, some of them frozen: PREPARE that lasts, log writes that wait or fail."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from conformance.kafka.admin import TopicPartition
from conformance.kafka.errors import RequestRefused
from conformance.transactions.facts.lab import Lab, eventually, experiment
from conformance.transactions.reading import CONSUMER_OFFSETS, TRANSACTION_STATE, leadership
from conformance.transactions.wire import Call, Conversation, Group, Producer, error_in

COMMIT, ABORT = True, False
BUSY: Final = "CONCURRENT_TRANSACTIONS"

REPLICATED: Final = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""The log of transactions waits for two followers."""

SHORT_MS: Final = 3_000
"""A transaction's time-out is also how long a write to the log may wait."""


@experiment("v1", nodes=3)
def frozen_leader_v1(lab: Lab) -> None:
    """A partition's leader is frozen: V1 requests while its marker is missing."""
    _frozen_leader(lab, lab.v1, 1)


@experiment("v2", nodes=3)
def frozen_leader_v2(lab: Lab) -> None:
    """The same, V2 requests."""
    _frozen_leader(lab, lab.v2, 2)


def _frozen_leader(lab: Lab, c: Conversation, epoch: int) -> None:
    for committed, word in ((COMMIT, "Commit"), (ABORT, "Abort")):
        lab.rename()
        producer, near, far = _opened(lab, c)
        with frozen(lab, [lab.ground.leader_of(far)]):
            observed = lab.ask(c.end_txn(producer, committed))
            expected = "NONE" if epoch == 1 else "NONE P:2"
            lab.fact(f"Prepare{word}, EndTxn", expected, observed)
            lab.fact(f"Prepare{word}, it stays", f"Prepare{word} P:{epoch}", lab.state(producer))
            marked = f"P:1#0 P:{epoch}!{word.upper()}, stable"
            lab.fact(f"Prepare{word}, the other partition", marked, _await_stable(lab, near))
            again = producer.at(epoch)
            for what, observed in _asked(lab, c, producer, again, near):
                lab.fact(f"Prepare{word}, {what}", BUSY, observed)
        lab.fact(f"Prepare{word}, thawed", f"Complete{word} P:{epoch}", lab.settled(producer))
        lab.fact(f"Prepare{word}, thawed, the partition", marked, _await_stable(lab, far))


def _asked(
    lab: Lab, c: Conversation, producer: Producer, again: Producer, near: TopicPartition
) -> Iterator[tuple[str, str]]:
    for committed, word in ((COMMIT, "commit"), (ABORT, "abort")):
        yield f"EndTxn({word}) again", lab.ask(c.end_txn(producer, committed))
    yield "AddPartitionsToTxn", lab.ask(c.add_partitions(again, [near]))
    yield "InitProducerId", lab.ask(c.init_producer_id(producer.transactional_id))
    if c.end_txn_version >= 5:
        call = c.produce(again, near, 0, "next")
        yield "Produce of the next transaction", lab.ask_leader(near, call)


@experiment("v1", nodes=3)
def other_brokers(lab: Lab) -> None:
    """Requests to a broker that coordinates nothing."""
    producer = lab.begin(lab.v1)
    [partition] = lab.ground.topic()
    group = Group(lab.ground.fresh("group"))
    wire = lab.ground.wire(_idle(lab))
    for what, call in (
        ("InitProducerId", lab.v1.init_producer_id(producer.transactional_id)),
        ("AddPartitionsToTxn", lab.v1.add_partitions(producer, [partition])),
        ("AddOffsetsToTxn", lab.v1.add_offsets(producer, group.group_id)),
        ("EndTxn", lab.v1.end_txn(producer, COMMIT)),
    ):
        lab.fact(what, "NOT_COORDINATOR", lab.names.answer(wire.ask(call)))


@experiment("v1", nodes=3, properties=REPLICATED)
def pending_v1(lab: Lab) -> None:
    """A change waits for the log's followers: V1 requests meanwhile."""
    for what, state in CHANGES.items():
        lab.rename()
        producer = lab.begin(lab.v1)
        [partition] = lab.ground.topic(on=_log_leader(lab))
        if state == "Ongoing":
            lab.open(lab.v1, producer, partition)
        _pending(lab, what, producer, partition)


CHANGES: Final = {
    "InitProducerId": "Empty",
    "AddPartitionsToTxn": "Empty",
    "EndTxn(commit)": "Ongoing",
}
"""What is written to the log, and in which state."""


FAILED: Final = {
    "InitProducerId": ("Empty P:2", "Empty P:1"),
    "AddPartitionsToTxn": ("Ongoing P:1", "Empty P:1"),
    "EndTxn(commit)": (
        "PrepareCommit P:1, PrepareAbort P:2, CompleteAbort P:2",
        "CompleteAbort P:2",
    ),
}
"""What a write that failed leaves in the log, and what the coordinator goes on with.

The transaction has timed out by then: the coordinator aborts what a log's reader saw committed.
"""


def _change(
    c: Conversation, what: str, producer: Producer, at: TopicPartition, timeout_ms: int = 60_000
) -> Call[Any]:
    calls: dict[str, Call[Any]] = {
        "InitProducerId": c.init_producer_id(producer.transactional_id, timeout_ms=timeout_ms),
        "AddPartitionsToTxn": c.add_partitions(producer, [at]),
        "EndTxn(commit)": c.end_txn(producer, COMMIT),
        "EndTxn(abort)": c.end_txn(producer, ABORT),
    }
    return calls[what]


def _pending(lab: Lab, what: str, producer: Producer, partition: TopicPartition) -> None:
    c = lab.v1
    waiting = lab.ground.connect(_log_leader(lab))
    with frozen(lab, _followers(lab)):
        waiting.send(_change(c, what, producer, partition))
        time.sleep(0.3)
        lab.fact(f"{what} waits, the state", f"{CHANGES[what]} P:1", lab.state(producer))
        for name in (*CHANGES, "EndTxn(abort)"):
            observed = lab.ask(_change(c, name, producer, partition))
            lab.fact(f"{what} waits, {name}", BUSY, observed)
    answer = waiting.receive(30_000)
    lab.fact(f"{what} waited, its answer", "NONE", error_in(answer).name)


@experiment("v1", nodes=3, properties=REPLICATED)
def failed_write_v1(lab: Lab) -> None:
    """The log's followers do not come back in time: the write failed, and is in the log."""
    c = lab.v1
    for what, state in CHANGES.items():
        lab.rename()
        [partition] = lab.ground.topic(on=_log_leader(lab))
        # Long enough that it is not aborted by its time-out before the log's write is.
        producer = lab.begin(c, timeout_ms=SHORT_MS)
        if state == "Ongoing":
            lab.open(c, producer, partition)
        lab.mark_log()
        with frozen(lab, _followers(lab)):
            waiting = lab.ground.connect(_log_leader(lab))
            answer = lab.names.answer(waiting.ask(_change(c, what, producer, partition, SHORT_MS)))
            lab.fact(f"{what}, its answer", "COORDINATOR_NOT_AVAILABLE", answer)
            shown = lab.state(producer)
            lab.fact(f"{what}, the state", f"{state} P:1", shown)
        time.sleep(0.5)
        written, end = FAILED[what]
        lab.fact(f"{what}, the log", written, lab.log(producer))
        lab.fact(f"{what}, in the end", end, lab.settled(producer))


ALL_WANTED: Final = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "3",
    "replica.lag.time.max.ms": "1500",
    "controller.socket.timeout.ms": "1000",  # the frozen broker may be the active controller
}
"""One frozen follower leaves the set of those in sync: what is written to the log is refused."""

IN_SYNC_TIMEOUT_S: Final = 60.0

UNAVAILABLE: Final = "COORDINATOR_NOT_AVAILABLE"


@experiment("v1", nodes=3, properties=ALL_WANTED)
def refused_write_v1(lab: Lab) -> None:
    """A log that refuses what is written to it: V1 requests."""
    _refused_write(lab, lab.v1)


@experiment("v2", nodes=3, properties=ALL_WANTED)
def refused_write_v2(lab: Lab) -> None:
    """The same, V2 requests."""
    _refused_write(lab, lab.v2)


def _refused_write(lab: Lab, c: Conversation) -> None:
    """The record is in no log: memory is as before, but for the epoch of a fence by V1 rules."""
    at = lab.ground.topic(4, on=_log_leader(lab))
    begun = [lab.begin(c) for _ in range(4)]
    for producer, partition in zip(begun, at, strict=True):
        lab.open(c, producer, partition)
    ended, fenced, timed, empty = *begun[:2], lab.begin(c, timeout_ms=SHORT_MS), lab.begin(c)
    [late] = lab.ground.topic(on=_log_leader(lab))
    lab.mark_log()
    with frozen(lab, [_idle(lab)]):
        _await_in_sync(lab, 2)
        lab.rename()
        observed = lab.ask(c.init_producer_id(empty.transactional_id))
        lab.fact("InitProducerId", UNAVAILABLE, observed)
        lab.fact("InitProducerId, the state", "Empty P:1", lab.state(empty))
        lab.rename()
        for word in ("", " again"):
            observed = lab.ask(c.end_txn(ended, COMMIT))
            lab.fact(f"EndTxn(commit){word}", UNAVAILABLE, observed)
        lab.fact("EndTxn(commit), the state", "Ongoing P:1", lab.state(ended))
        lab.rename()
        bumped = "P:1" if lab.ground.level == 2 else "P:2"
        for word in ("", " again"):
            observed = lab.ask(c.init_producer_id(fenced.transactional_id))
            lab.fact(f"fence{word}", UNAVAILABLE, observed)
            lab.fact(f"fence{word}, the state", f"Ongoing {bumped}", lab.state(fenced))
        heard = lab.ask(c.end_txn(fenced, COMMIT))
        lab.fact("fence, then EndTxn", UNAVAILABLE if bumped == "P:1" else "PRODUCER_FENCED", heard)
    lab.rename()
    lab.fact("EndTxn(commit), the log", "nothing", lab.log(ended))
    _await_in_sync(lab, 3)
    told = "NONE" if c.end_txn_version < 5 else "NONE P:2"
    lab.fact("EndTxn(commit), thawed", told, lab.retry(c.end_txn(ended, COMMIT)))
    lab.rename()
    observed = lab.ask(c.init_producer_id(fenced.transactional_id))
    lab.fact("fence, thawed", "CONCURRENT_TRANSACTIONS", observed)
    lab.fact("fence, in the end", "CompleteAbort P:2", lab.settled(fenced))
    lab.open(c, timed, late)
    with frozen(lab, [_idle(lab)]):
        _await_in_sync(lab, 2)
        time.sleep(1.5 * SHORT_MS / 1000)
        lab.rename()
        lab.fact("timed out meanwhile, the state", f"Ongoing {bumped}", lab.state(timed))
    _await_in_sync(lab, 3)
    lab.await_state(timed, "CompleteAbort")
    lab.fact("timed out, in the end", "CompleteAbort P:2", lab.state(timed))


def _await_in_sync(lab: Lab, count: int) -> None:
    """Until so many have the log of transactions; one that misses nothing stays in sync.

    Raises RequestRefused.
    """
    missed = lab.v1.init_producer_id(lab.ground.fresh("scratch"), timeout_ms=500)
    lab.ground.coordinator().ask(missed)
    call = leadership(TRANSACTION_STATE)
    deadline = time.monotonic() + IN_SYNC_TIMEOUT_S
    while len(seen := lab.ground.coordinator().ask(call).in_sync) != count:
        if time.monotonic() > deadline:
            raise RequestRefused(f"{sorted(seen)} are in sync, never {count}")
        time.sleep(0.05)


@contextmanager
def frozen(lab: Lab, nodes: Sequence[int]) -> Iterator[None]:
    """Freeze brokers for a while."""
    brokers = [lab.ground.brokers[node] for node in nodes]
    try:
        for broker in brokers:
            broker.pause()
        yield
    finally:
        for broker in brokers:
            broker.resume()


def _opened(lab: Lab, c: Conversation) -> tuple[Producer, TopicPartition, TopicPartition]:
    """A transaction with a partition at the coordinator and one at a broker that is idle."""
    producer = lab.begin(c)
    [near] = lab.ground.topic(on=_log_leader(lab))
    [far] = lab.ground.topic(on=_idle(lab))
    lab.open(c, producer, near)
    lab.open(c, producer, far)
    return producer, near, far


def _log_leader(lab: Lab) -> int:
    return lab.ground.leader_of(TRANSACTION_STATE)


def _idle(lab: Lab) -> int:
    """A broker that coordinates nothing."""
    busy = {_log_leader(lab), lab.ground.leader_of(CONSUMER_OFFSETS)}
    return max(set(lab.ground.brokers) - busy)


def _followers(lab: Lab) -> list[int]:
    return [node for node in lab.ground.brokers if node != _log_leader(lab)]


def _await_stable(lab: Lab, partition: TopicPartition) -> str:
    """The partition's log, once nothing is open in it or a second has passed."""
    return eventually(lambda: lab.partition(partition), lambda seen: seen.endswith("stable"))
