"""What a client should not do, or a server should survive: both kinds of requests in one
transaction, markers that are refused for ever, partitions that are deleted."""

from __future__ import annotations

import time
from dataclasses import replace

from conformance.kafka.admin import TopicPartition
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.wire import Conversation, Marker, Producer

COMMIT, ABORT = True, False


@experiment("v1", "v2")
def mixed_writes(lab: Lab) -> None:
    """V1 and V2 writes of one epoch (KAFKA-18227), ended by either."""
    for ended, expected in (("v1", "NONE"), ("v2", "NONE P:2")):
        lab.rename()
        c = lab.v1 if ended == "v1" else lab.v2
        producer = lab.begin(lab.v1)
        [first, second, third] = lab.ground.topic(3)
        lab.mark_log()
        lab.open(lab.v1, producer, first)
        observed = lab.ask_leader(second, lab.v2.produce(producer, second, 0, "v2"))
        lab.fact(f"V1 open, Produce 12 elsewhere, to be ended {ended}", "NONE", observed)
        observed = lab.ask_leader(first, lab.v2.produce(producer, first, 1, "v2"))
        lab.fact(
            f"V1 open, Produce 12 to the same partition, to be ended {ended}", "NONE", observed
        )
        observed = lab.ask_leader(third, lab.v1.produce(producer, third, 0, "v1"))
        lab.fact(
            f"Produce 11 to a third, unregistered, to be ended {ended}",
            "TRANSACTION_ABORTABLE",
            observed,
        )
        lab.ask(lab.v1.add_partitions(producer, [third]))
        versions = [row.client_transaction_version for row in lab.records(producer)]
        lab.fact(f"client versions in the log, to be ended {ended}", "[0, 2, 0]", str(versions))
        lab.fact(f"EndTxn {ended}", expected, lab.ask(c.end_txn(producer, COMMIT)))
        epoch = 1 if ended == "v1" else 2
        lab.fact(f"EndTxn {ended}, in the end", f"CompleteCommit P:{epoch}", lab.settled(producer))
        expected_log = f"P:1#0 P:1#1 P:{epoch}!COMMIT, stable"
        lab.fact(f"EndTxn {ended}, the partition", expected_log, lab.partition(first))


@experiment("v1", "v2")
def move_from_v1_to_v2(lab: Lab) -> None:
    """A client whose next transaction is of the other kind, at the epoch that it has."""
    producer = lab.begin(lab.v1)
    [at] = lab.ground.topic()
    lab.open(lab.v1, producer, at)
    lab.end(lab.v1, producer, COMMIT)
    observed = lab.ask_leader(at, lab.v2.produce(producer, at, 0, "value"))
    lab.fact("V2 after V1, sequence 0: a duplicate", "NONE", observed)
    lab.fact("the coordinator then", "Ongoing P:1", lab.state(producer))
    observed = lab.ask_leader(at, lab.v2.produce(producer, at, 1, "value"))
    lab.fact("V2 after V1, going on", "OUT_OF_ORDER_SEQUENCE_NUMBER", observed)
    producer = lab.end(lab.v2, producer, COMMIT)
    observed = lab.ask(lab.v1.add_partitions(producer, [at]))
    lab.fact("V1 after V2, AddPartitionsToTxn", "NONE", observed)
    observed = lab.ask_leader(at, lab.v1.produce(producer, at, 0, "value"))
    lab.fact("V1 after V2, Produce from 0", "NONE", observed)
    lab.fact("V1 after V2, EndTxn", "NONE", lab.ask(lab.v1.end_txn(producer, COMMIT)))
    lab.fact("V1 after V2, in the end", "CompleteCommit P:2", lab.settled(producer))


@experiment("v1", restarts=True)
def marker_refused(lab: Lab) -> None:
    """The partition has seen a higher epoch: the coordinator's marker is refused, for ever."""
    producer = lab.begin(lab.v1)
    [at] = lab.ground.topic()
    lab.open(lab.v1, producer, at)
    marker = Marker(producer.producer_id, 5, ABORT, [at], 0)
    lab.fact("a marker of epoch 5", "NONE", lab.ask_leader(at, lab.v1.write_txn_markers(marker)))
    lab.fact("EndTxn", "NONE", lab.ask(lab.v1.end_txn(producer, COMMIT)))
    time.sleep(0.5)
    lab.fact("half a second later", "PrepareCommit P:1", lab.state(producer))
    lab.ground.restart()
    time.sleep(0.5)
    lab.fact("after a restart", "PrepareCommit P:1", lab.state(producer))
    observed = lab.ask(lab.v1.init_producer_id(producer.transactional_id))
    lab.fact("InitProducerId", "CONCURRENT_TRANSACTIONS", observed)


@experiment("v1", restarts=True)
def writes_in_prepare_v1(lab: Lab) -> None:
    """The transaction is decided, and the partition does not know it yet."""
    producer, at = _decided(lab, lab.v1)
    observed = lab.ask_leader(at, lab.v1.produce(producer, at, 1, "more"))
    lab.fact("one more write, its partition still open", "NONE", observed)
    lab.ground.restart()
    lab.fact("in the end", "CompleteCommit P:1", lab.settled(producer))
    lab.fact("the partition", "P:1!ABORT P:1#0 P:1#1 P:1!COMMIT, stable", lab.partition(at))


@experiment("v2", restarts=True)
def writes_in_prepare_v2(lab: Lab) -> None:
    """The same, V2 requests; and the next transaction's first write (KAFKA-18575)."""
    producer, at = _decided(lab, lab.v2)
    observed = lab.ask_leader(at, lab.v2.produce(producer, at, 1, "more"))
    lab.fact("one more write, its partition still open", "NONE", observed)
    observed = lab.ask_leader(at, lab.v2.produce(producer.at(2), at, 0, "next"))
    lab.fact("the next transaction's write", "CONCURRENT_TRANSACTIONS", observed)
    # That write left a verification entry: what comes may not be above its sequence, 0.
    observed = lab.ask_leader(at, lab.v2.produce(producer, at, 2, "more"))
    lab.fact("and one more", "OUT_OF_ORDER_SEQUENCE_NUMBER", observed)
    lab.ground.restart()
    lab.fact("in the end", "CompleteCommit P:2", lab.settled(producer))
    lab.fact("the partition", "P:1!ABORT P:1#0 P:1#1 P:2!COMMIT, stable", lab.partition(at))


def _decided(lab: Lab, c: Conversation) -> tuple[Producer, TopicPartition]:
    """In PrepareCommit, its partition without a marker."""
    producer = lab.begin(c)
    [at] = lab.ground.topic()
    lab.hold(producer, at)
    lab.open(c, producer, at)
    lab.ask(c.end_txn(producer, COMMIT))
    return producer, at


@experiment("v1")
def duplicates_after_the_end(lab: Lab) -> None:
    """A batch that is in the log comes again: in its transaction, and after it."""
    c = lab.v1
    producer = lab.begin(c)
    [at] = lab.ground.topic()
    lab.open(c, producer, at)
    again = c.produce(producer, at, 0, "value")
    lab.fact("in its transaction", "NONE", lab.ask_leader(at, again))
    lab.end(c, producer, COMMIT)
    refused = {"0": "NONE", "3.6": "INVALID_TXN_STATE", "3.8": "TRANSACTION_ABORTABLE"}
    lab.fact("after it", lab.since(refused), lab.ask_leader(at, again))
    older = replace(c, produce_version=9)
    refused = {"0": "NONE", "3.6": "INVALID_TXN_STATE"}
    observed = lab.ask_leader(at, older.produce(producer, at, 0, "value"))
    lab.fact("after it, Produce 9", lab.since(refused), observed)
    lab.fact("the partition", "P:1#0 P:1!COMMIT, stable", lab.partition(at))
