"""A transactional id that expires, and one that cannot."""

from __future__ import annotations

import time
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.transactions.facts.lab import Lab, eventually, experiment
from conformance.transactions.wire import Conversation, Producer

EXPIRATION_MS: Final = 1_500
QUICK: Final = {
    "transactional.id.expiration.ms": str(EXPIRATION_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
}
UNMAPPED: Final = "INVALID_PRODUCER_ID_MAPPING"
GONE: Final = "TRANSACTIONAL_ID_NOT_FOUND"


@experiment("v1", properties=QUICK)
def expiry_v1(lab: Lab) -> None:
    """Each state that expires; what a producer hears that slept; one that is open stays."""
    for state in ("Empty", "CompleteCommit", "CompleteAbort"):
        lab.rename()
        lab.mark_log()
        producer = lab.in_state(state, lab.v1)
        _await_expiry(lab, producer)
        lab.fact(f"{state}, expired", GONE, lab.state(producer))
        lab.fact(f"{state}, the log ends", "tombstone", lab.log(producer).rpartition(", ")[2])
        observed = lab.ask(lab.v1.end_txn(producer, True))
        lab.fact(f"{state}, then EndTxn", UNMAPPED, observed)
        observed = lab.ask(lab.v1.add_partitions(producer, lab.ground.topic()))
        lab.fact(f"{state}, then AddPartitionsToTxn", UNMAPPED, observed)
        believed = (producer.producer_id, producer.producer_epoch)
        call = lab.v1.init_producer_id(producer.transactional_id, believed)
        lab.fact(f"{state}, then InitProducerId, its identity", "NONE Q:0", lab.ask(call))
    lab.rename()
    producer = lab.in_state("Ongoing", lab.v1)
    time.sleep(2 * EXPIRATION_MS / 1000)
    lab.fact("Ongoing stays", "Ongoing P:1", lab.state(producer))


@experiment("v2", properties=QUICK)
def expiry_v2(lab: Lab) -> None:
    """What a producer of V2 requests hears that slept."""
    for what, expected in (("Produce", UNMAPPED), ("EndTxn(commit)", UNMAPPED)):
        lab.rename()
        producer = lab.in_state("CompleteCommit", lab.v2)
        _await_expiry(lab, producer)
        lab.fact(f"then {what}", expected, _asked(lab, lab.v2, producer, what))


FORGETFUL: Final = {"producer.id.expiration.ms": str(EXPIRATION_MS)}
"""Leaders forget idle producers quickly; the recipe has them look every 100 ms."""


@experiment("v1", properties=FORGETFUL)
def forgotten_producer_v1(lab: Lab) -> None:
    """A leader forgets a producer between its transactions, never in one (3.4 and later)."""
    if not lab.ground.release.has_producer_expiry:
        return
    c = lab.v1
    producer = lab.begin(c)
    [at] = lab.ground.topic()
    lab.open(c, producer, at)
    time.sleep(2 * EXPIRATION_MS / 1000)
    expected = "P:1 last 0 coordinator -1 open 0"
    lab.fact("in a transaction", expected, lab.entry(at, producer.producer_id))
    lab.end(c, producer, True)
    _await_oblivion(lab, at, producer)
    lab.fact("after it", "unknown", lab.entry(at, producer.producer_id))
    lab.retry(c.add_partitions(producer, [at]))
    observed = lab.ask_leader(at, c.produce(producer, at, 7, "value"))
    lab.fact("the next one, any first sequence", "NONE", observed)


@experiment("v2", properties=FORGETFUL)
def forgotten_producer_v2(lab: Lab) -> None:
    """The same, V2 requests: only the coordinator knows the epoch then."""
    c = lab.v2
    producer = lab.begin(c)
    [at] = lab.ground.topic()
    lab.open(c, producer, at)
    now = lab.end(c, producer, True)
    _await_oblivion(lab, at, producer)
    observed = lab.ask_leader(at, c.produce(producer, at, 1, "late"))
    lab.fact("a late write of the last transaction", "INVALID_PRODUCER_EPOCH", observed)
    observed = lab.ask_leader(at, c.produce(now, at, 7, "value"))
    expected = lab.since({"0": "NONE", "4.1": "OUT_OF_ORDER_SEQUENCE_NUMBER"})
    lab.fact("the next one, first 7", expected, observed)


def _await_oblivion(lab: Lab, at: TopicPartition, producer: Producer) -> None:
    eventually(lambda: lab.entry(at, producer.producer_id), lambda seen: seen == "unknown")


def _asked(lab: Lab, c: Conversation, producer: Producer, what: str) -> str:
    if what == "Produce":
        [partition] = lab.ground.topic()
        return lab.ask_leader(partition, c.produce(producer, partition, 0, "value"))
    return lab.ask(c.end_txn(producer, True))


def _await_expiry(lab: Lab, producer: Producer) -> None:
    deadline = time.monotonic() + 4 * EXPIRATION_MS / 1000
    while lab.state(producer) != GONE and time.monotonic() < deadline:
        time.sleep(0.05)
