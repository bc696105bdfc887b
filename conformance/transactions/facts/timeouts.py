"""A transaction that times out: what is written, and what its producer hears afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.wire import Call, Conversation, Group, Producer

TIMEOUT_MS: Final = 300

Ask = Callable[[Lab, Conversation, Producer, TopicPartition], str]

ASKED: Final[dict[str, Ask]] = {
    "Produce": lambda lab, c, p, at: lab.ask_leader(at, c.produce(p, at, 1, "late")),
    "Produce elsewhere": lambda lab, c, p, at: _elsewhere(lab, c, p),
    "EndTxn(commit)": lambda lab, c, p, at: lab.ask(c.end_txn(p, True)),
    "EndTxn(abort)": lambda lab, c, p, at: lab.ask(c.end_txn(p, False)),
    "TxnOffsetCommit": lambda lab, c, p, at: lab.ask_group(_commit(lab, c, p, at)),
    "InitProducerId, its epoch": lambda lab, c, p, at: lab.ask(
        c.init_producer_id(p.transactional_id, (p.producer_id, p.producer_epoch))
    ),
    "AddPartitionsToTxn": lambda lab, c, p, at: lab.ask(c.add_partitions(p, [at])),
    "AddOffsetsToTxn": lambda lab, c, p, at: lab.ask(c.add_offsets(p, "group")),
}


def _elsewhere(lab: Lab, c: Conversation, producer: Producer) -> str:
    [partition] = lab.ground.topic()
    return lab.ask_leader(partition, c.produce(producer, partition, 0, "late"))


def _commit(
    lab: Lab, c: Conversation, producer: Producer, partition: TopicPartition
) -> Call[object]:
    return c.txn_offset_commit(producer, Group(lab.ground.fresh("group")), partition, 7)


V1: Final = {
    "Produce": "INVALID_PRODUCER_EPOCH",
    "Produce elsewhere": "INVALID_PRODUCER_EPOCH",
    "EndTxn(commit)": "PRODUCER_FENCED",
    "EndTxn(abort)": "PRODUCER_FENCED",
    "TxnOffsetCommit": "INVALID_PRODUCER_EPOCH",
    "InitProducerId, its epoch": "PRODUCER_FENCED",
    "AddPartitionsToTxn": "PRODUCER_FENCED",
    "AddOffsetsToTxn": "PRODUCER_FENCED",
}

VERIFIED_SINCE: Final = {"Produce elsewhere": "3.6", "TxnOffsetCommit": "3.7"}

V2: Final = V1 | {
    "EndTxn(commit)": "INVALID_TXN_STATE",
    "EndTxn(abort)": "NONE P:2",
}


@experiment("v1")
def time_out_v1(lab: Lab) -> None:
    """A transaction of V1 requests."""
    _time_out(lab, lab.v1, V1)


@experiment("v2")
def time_out_v2(lab: Lab) -> None:
    """A transaction of V2 requests."""
    _time_out(lab, lab.v2, V2)


def _time_out(lab: Lab, c: Conversation, heard: dict[str, str]) -> None:
    """The coordinator aborts in the way of its level: at level 2 it remembers the last epoch."""
    if lab.ground.level == 2:
        heard = heard | {"InitProducerId, its epoch": "NONE P:2"}
    for number, (what, ask) in enumerate(ASKED.items()):
        lab.rename()
        producer = lab.begin(c, timeout_ms=TIMEOUT_MS)
        [partition] = lab.ground.topic()
        lab.mark_log()
        lab.open(c, producer, partition)
        lab.await_state(producer, "CompleteAbort")
        if number == 0:
            lab.fact("in the end", "CompleteAbort P:2", lab.state(producer))
            expected = "Ongoing P:1, PrepareAbort P:2, CompleteAbort P:2"
            lab.fact("the log", expected, lab.log(producer))
            expected = "P:1#0 P:2!ABORT, stable"
            lab.fact("the partition", expected, lab.partition(partition))
        expected = heard[what]
        if what in VERIFIED_SINCE:
            # Nothing at that partition has seen the new epoch: only verification knows it.
            expected = lab.since({"0": "NONE", VERIFIED_SINCE[what]: expected})
        lab.fact(f"then {what}", expected, ask(lab, c, producer, partition))
    lab.rename()
    producer = lab.begin(c, timeout_ms=TIMEOUT_MS)
    time.sleep(3 * TIMEOUT_MS / 1000)
    lab.fact("nothing was begun: no time-out", "Empty P:1", lab.state(producer))
