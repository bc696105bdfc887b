"""The log of transactions: writes that wait for followers, fail after a while, or are refused."""

from __future__ import annotations

import time
from typing import Any, Final

from conformance.kafka.admin import TopicPartition
from conformance.kafka.errors import RequestRefused
from conformance.transactions.facts.exhaustion import LAST, OTHERS, exhausted, states
from conformance.transactions.facts.frozen import followers, frozen, idle, log_leader
from conformance.transactions.facts.lab import Lab, eventually, experiment
from conformance.transactions.reading import TRANSACTION_STATE, leadership
from conformance.transactions.wire import Call, Conversation, Producer, error_in

COMMIT, ABORT = True, False
BUSY: Final = "CONCURRENT_TRANSACTIONS"

REPLICATED: Final = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""The log of transactions waits for two followers."""

SHORT_MS: Final = 3_000
"""A transaction's time-out is also how long a write to the log may wait."""


@experiment("v1", nodes=3, properties=REPLICATED)
def pending_v1(lab: Lab) -> None:
    """A change waits for the log's followers: V1 requests meanwhile."""
    for what, state in CHANGES.items():
        lab.rename()
        producer = lab.begin(lab.v1)
        [partition] = lab.ground.topic(on=log_leader(lab))
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
    waiting = lab.ground.connect(log_leader(lab))
    with frozen(lab, followers(lab)):
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
        [partition] = lab.ground.topic(on=log_leader(lab))
        # Long enough that it is not aborted by its time-out before the log's write is.
        producer = lab.begin(c, timeout_ms=SHORT_MS)
        if state == "Ongoing":
            lab.open(c, producer, partition)
        lab.mark_log()
        with frozen(lab, followers(lab)):
            waiting = lab.ground.connect(log_leader(lab))
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
    ended, fenced, empty = lab.begin(c), lab.begin(c), lab.begin(c)
    for producer in (ended, fenced):
        [partition] = lab.ground.topic(on=log_leader(lab))
        lab.open(c, producer, partition)
    lab.mark_log()
    with frozen(lab, [idle(lab)]):
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
        _refused_fence(lab, c, fenced)
    _await_in_sync(lab, 3)
    lab.rename()
    lab.names.producer(ended.producer_id)
    lab.fact("EndTxn(commit), the log", "nothing", lab.log(ended))
    told = "NONE" if c.end_txn_version < 5 else "NONE P:2"
    lab.fact("EndTxn(commit), thawed", told, lab.retry(c.end_txn(ended, COMMIT)))
    lab.rename()
    observed = lab.ask(c.init_producer_id(fenced.transactional_id))
    lab.fact("fence, thawed", BUSY, observed)
    lab.fact("fence, in the end", "CompleteAbort P:2", lab.settled(fenced))
    _refused_time_out(lab, c)


def _bumped(lab: Lab) -> str:
    """Who the producer is after a fence that failed: below level 2 memory keeps the new epoch."""
    return "P:1" if lab.ground.level == 2 else "P:2"


def _refused_fence(lab: Lab, c: Conversation, producer: Producer) -> None:
    lab.rename()
    for word in ("", " again"):
        observed = lab.ask(c.init_producer_id(producer.transactional_id))
        lab.fact(f"fence{word}", UNAVAILABLE, observed)
        lab.fact(f"fence{word}, the state", f"Ongoing {_bumped(lab)}", lab.state(producer))
    heard = UNAVAILABLE if lab.ground.level == 2 else "PRODUCER_FENCED"
    lab.fact("fence, then EndTxn", heard, lab.ask(c.end_txn(producer, COMMIT)))


def _refused_time_out(lab: Lab, c: Conversation) -> None:
    producer = lab.begin(c, timeout_ms=SHORT_MS)
    [partition] = lab.ground.topic(on=log_leader(lab))
    lab.open(c, producer, partition)
    with frozen(lab, [idle(lab)]):
        _await_in_sync(lab, 2)
        time.sleep(1.5 * SHORT_MS / 1000)
        lab.rename()
        lab.fact("timed out meanwhile", f"Ongoing {_bumped(lab)}", lab.state(producer))
    _await_in_sync(lab, 3)
    lab.await_state(producer, "CompleteAbort")
    lab.fact("timed out, in the end", "CompleteAbort P:2", lab.state(producer))


WORN_MS: Final = 20_000
"""Longer than a log may refuse here: it is a client's fence that fails."""


@experiment("v1", nodes=3, properties=ALL_WANTED, alone=True)
def refused_fence_at_the_last_epoch_v1(lab: Lab) -> None:
    """The log refuses a fence at the last epoch, and then takes all again: below level 2 memory
    keeps epoch 32767, behind which there is none. 4.3 does not ask for one to fence again."""
    c = lab.v1
    [worn] = exhausted(lab, c, 1, WORN_MS)
    [partition] = lab.ground.topic(on=log_leader(lab))
    lab.rename()
    lab.names.producer(worn.producer_id)
    lab.open(c, worn, partition)
    fence = c.init_producer_id(worn.transactional_id)
    with frozen(lab, [idle(lab)]):
        _await_in_sync(lab, 2)
        lab.fact("fence", UNAVAILABLE, lab.ask(fence))
        kept = LAST if lab.ground.level == 2 else LAST + 1
        lab.fact("fence, the state", f"Ongoing P:{kept}", lab.state(worn))
    _await_in_sync(lab, 3)
    is_stuck = kept > LAST and bool(lab.since({"0": "yes", "4.3": ""}))
    expected = "UNKNOWN_SERVER_ERROR" if is_stuck else BUSY
    lab.fact("thawed, fence", expected, lab.ask(fence))
    if kept > LAST:
        _long_after(lab, worn, partition, is_stuck)


def _long_after(lab: Lab, worn: Producer, partition: TopicPartition, is_stuck: bool) -> None:
    """The last epoch's transaction when its time is up, and then others'."""
    c, ended = lab.v1, "CompleteAbort"
    lab.fact("thawed, EndTxn(abort)", "PRODUCER_FENCED", lab.ask(c.end_txn(worn, ABORT)))
    time.sleep(1.5 * WORN_MS / 1000)
    expected = f"{'Ongoing' if is_stuck else ended} P:{LAST + 1}"
    lab.fact("long after its time-out", expected, lab.state(worn))
    others = [lab.begin(c, timeout_ms=SHORT_MS) for _ in range(OTHERS)]
    for other in others:
        lab.open(c, other, partition)
    observed = eventually(lambda: states(lab, others), lambda seen: seen == ended)
    name = f"the transactions of {OTHERS} others, long after their time-outs"
    lab.fact(name, f"Ongoing, {ended}" if is_stuck else ended, observed)


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
