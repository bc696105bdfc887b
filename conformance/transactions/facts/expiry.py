"""A transactional id that expires, and one that cannot."""

from __future__ import annotations

import time
from typing import Final

from conformance.transactions.facts.lab import Lab, experiment
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


def _asked(lab: Lab, c: Conversation, producer: Producer, what: str) -> str:
    if what == "Produce":
        [partition] = lab.ground.topic()
        return lab.ask_leader(partition, c.produce(producer, partition, 0, "value"))
    return lab.ask(c.end_txn(producer, True))


def _await_expiry(lab: Lab, producer: Producer) -> None:
    deadline = time.monotonic() + 4 * EXPIRATION_MS / 1000
    while lab.state(producer) != GONE and time.monotonic() < deadline:
        time.sleep(0.05)
