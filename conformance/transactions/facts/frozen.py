"""Three brokers, one of them frozen: PREPARE that lasts; and brokers that coordinate nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.reading import CONSUMER_OFFSETS, TRANSACTION_STATE
from conformance.transactions.wire import Conversation, Group, Marker, Producer

COMMIT, ABORT = True, False
BUSY: Final = "CONCURRENT_TRANSACTIONS"


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
            lab.fact(f"Prepare{word}, the other partition", marked, lab.stable(near))
            again = producer.at(epoch)
            for what, observed in _asked(lab, c, producer, again, near):
                lab.fact(f"Prepare{word}, {what}", BUSY, observed)
        lab.fact(f"Prepare{word}, thawed", f"Complete{word} P:{epoch}", lab.settled(producer))
        lab.fact(f"Prepare{word}, thawed, the partition", marked, lab.stable(far))


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
    wire = lab.ground.wire(idle(lab))
    for what, call in (
        ("InitProducerId", lab.v1.init_producer_id(producer.transactional_id)),
        ("AddPartitionsToTxn", lab.v1.add_partitions(producer, [partition])),
        ("AddOffsetsToTxn", lab.v1.add_offsets(producer, group.group_id)),
        ("EndTxn", lab.v1.end_txn(producer, COMMIT)),
    ):
        lab.fact(what, "NOT_COORDINATOR", lab.names.answer(wire.ask(call)))


VERIFIED_SINCE: Final = "3.6"
VERIFY_S: Final = 0.5
"""How long a leader may take to ask the coordinator."""


@experiment("v1", nodes=3)
def verification_overtaken_v1(lab: Lab) -> None:
    """The coordinator says yes, and a marker was there before its answer (KAFKA-14884).

    An older epoch is what is told if it is one, also by 3.9.2, 4.0.2 and 4.1.2 (KAFKA-19690).
    """
    for epoch, refused in {1: "INVALID_TXN_STATE", 2: "INVALID_PRODUCER_EPOCH"}.items():
        _overtaken(lab, lab.v1, epoch, lab.since({"0": "NONE", VERIFIED_SINCE: refused}))


@experiment("v2", nodes=3)
def verification_overtaken_v2(lab: Lab) -> None:
    """The same, V2 requests.

    The marker of the last transaction has the epoch of the next one, whose verification it may
    meet: it leaves that alone (KAFKA-18575).
    """
    for epoch, expected in {1: "NONE", 2: "INVALID_PRODUCER_EPOCH"}.items():
        _overtaken(lab, lab.v2, epoch, expected)


def _overtaken(lab: Lab, c: Conversation, epoch: int, expected: str) -> None:
    """A marker of `epoch` meets the partition while its leader waits for the frozen coordinator."""
    lab.rename()
    coordinator = log_leader(lab)
    producer = lab.begin(c)
    [partition] = lab.ground.topic(on=followers(lab)[0])
    if c.end_txn_version < 5:
        lab.retry(c.add_partitions(producer, [partition]))
    waiting = lab.ground.connect(lab.ground.leader_of(partition))
    with frozen(lab, [coordinator]):
        waiting.send(c.produce(producer, partition, 0, "value"))
        time.sleep(VERIFY_S)
        marker = Marker(producer.producer_id, epoch, ABORT, [partition], 0)
        marked = lab.ask_leader(partition, lab.v1.write_txn_markers(marker))
        lab.fact(f"a marker of epoch {epoch} meanwhile", "NONE", marked)
    answer = lab.names.answer(waiting.receive(30_000))
    lab.fact(f"a marker of epoch {epoch}, the write", expected, answer)


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
    [near] = lab.ground.topic(on=log_leader(lab))
    [far] = lab.ground.topic(on=idle(lab))
    lab.open(c, producer, near)
    lab.open(c, producer, far)
    return producer, near, far


def log_leader(lab: Lab) -> int:
    """The broker that coordinates transactions."""
    return lab.ground.leader_of(TRANSACTION_STATE)


def idle(lab: Lab) -> int:
    """A broker that coordinates nothing."""
    busy = {log_leader(lab), lab.ground.leader_of(CONSUMER_OFFSETS)}
    return max(set(lab.ground.brokers) - busy)


def followers(lab: Lab) -> list[int]:
    """The others, which have the log of transactions where it is replicated."""
    return [node for node in lab.ground.brokers if node != log_leader(lab)]
