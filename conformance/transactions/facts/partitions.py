"""At a partition's leader: sequences, late writes, verification, and markers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.wire import Conversation, Marker, Producer

COMMIT, ABORT = True, False
UNKNOWN_PRODUCER_ID: Final = 987_654_321
OUT_OF_ORDER: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
VERIFIED_SINCE: Final = "3.6"


@experiment("v1")
def sequences_v1(lab: Lab) -> None:
    """First sequences, and those after the end of a transaction."""
    c = lab.v1
    producer = lab.begin(c)
    [first, second] = lab.ground.topic(2)
    lab.retry(c.add_partitions(producer, [first, second]))
    lab.fact("unknown, first 5", "NONE", lab.ask_leader(first, c.produce(producer, first, 5, "a")))
    observed = lab.ask_leader(first, c.produce(producer, first, 6, "b", is_transactional=False))
    lab.fact("a plain batch in a transaction", "INVALID_TXN_STATE", observed)
    lab.ask_leader(second, c.produce(producer, second, 0, "a"))
    observed = lab.ask_leader(second, c.produce(producer, second, 2, "b"))
    lab.fact("a gap", OUT_OF_ORDER, observed)
    lab.end(c, producer, COMMIT)
    lab.retry(c.add_partitions(producer, [second]))
    observed = lab.ask_leader(second, c.produce(producer, second, 0, "x"))
    lab.fact("next transaction, from 0: a duplicate", "NONE", observed)
    expected = "P:1#0 P:1!COMMIT, stable"
    lab.fact("the partition then", expected, lab.partition(second))
    observed = lab.ask_leader(second, c.produce(producer, second, 1, "b"))
    # The duplicate left a verification entry behind: what comes first may not be above it.
    expected = lab.since({"0": "NONE", VERIFIED_SINCE: OUT_OF_ORDER})
    lab.fact("next transaction, going on after the duplicate", expected, observed)
    plain = lab.begin(c)
    observed = lab.ask_leader(first, c.produce(plain, first, 5, "a", is_transactional=False))
    lab.fact("not transactional, unknown, first 5", "NONE", observed)


@experiment("v2")
def sequences_v2(lab: Lab) -> None:
    """First sequences, and those after the end of a transaction."""
    c = lab.v2
    producer = lab.begin(c)
    [partition] = lab.ground.topic()
    expected = lab.since({"0": "NONE", "4.1": OUT_OF_ORDER})
    observed = lab.ask_leader(partition, c.produce(producer, partition, 5, "a"))
    lab.fact("unknown, first 5", expected, observed)
    lab.fact("then the coordinator shows", "Ongoing P:1", lab.state(producer))
    [other] = lab.ground.topic()
    lab.ask_leader(other, c.produce(producer, other, 0, "a"))
    producer = lab.end(c, producer, COMMIT)
    observed = lab.ask_leader(other, c.produce(producer, other, 1, "b"))
    lab.fact("next transaction, going on", OUT_OF_ORDER, observed)
    observed = lab.ask_leader(other, c.produce(producer, other, 0, "b"))
    lab.fact("next transaction, from 0", "NONE", observed)
    observed = lab.ask_leader(other, c.produce(producer.at(1), other, 1, "late"))
    lab.fact("the last transaction's epoch", "INVALID_PRODUCER_EPOCH", observed)
    observed = lab.ask_leader(other, c.produce(producer.at(3), other, 0, "early"))
    lab.fact("an epoch above", "INVALID_PRODUCER_EPOCH", observed)
    lab.fact("the partition then", "P:1#0 P:2!COMMIT P:2#0, open from 2", lab.partition(other))


@experiment("v1")
def late_produce_v1(lab: Lab) -> None:
    """A write of an aborted transaction arrives after its marker."""
    c = lab.v1
    producer = lab.begin(c)
    [partition] = lab.ground.topic()
    lab.open(c, producer, partition)
    lab.end(c, producer, ABORT)
    expected = lab.since({"0": "NONE", "3.6": "INVALID_TXN_STATE", "3.8": "TRANSACTION_ABORTABLE"})
    observed = lab.ask_leader(partition, c.produce(producer, partition, 1, "late"))
    lab.fact("before the next transaction", expected, observed)
    hangs = "P:1#0 P:1!ABORT P:1#1, open from 2"
    expected = lab.since({"0": hangs, "3.6": "P:1#0 P:1!ABORT, stable"})
    lab.fact("the partition then", expected, lab.partition(partition))
    lab.fact("the coordinator then", "CompleteAbort P:1", lab.state(producer))


@experiment("v1")
def late_produce_adopted_v1(lab: Lab) -> None:
    """It arrives in the next transaction, which has the partition and the same epoch."""
    c = lab.v1
    producer = lab.begin(c)
    [partition] = lab.ground.topic()
    lab.open(c, producer, partition)
    lab.end(c, producer, ABORT)
    lab.retry(c.add_partitions(producer, [partition]))
    observed = lab.ask_leader(partition, c.produce(producer, partition, 1, "late"))
    lab.fact("the late write", "NONE", observed)
    observed = lab.ask_leader(partition, c.produce(producer, partition, 1, "own"))
    lab.fact("the transaction's own, same sequence", "NONE", observed)
    lab.end(c, producer, COMMIT)
    expected = "P:1#0 P:1!ABORT P:1#1 P:1!COMMIT, stable"
    lab.fact("the partition then", expected, lab.partition(partition))


@experiment("v2")
def late_produce_v2(lab: Lab) -> None:
    """Each transaction has an epoch of its own."""
    c = lab.v2
    producer = lab.begin(c)
    [partition] = lab.ground.topic()
    lab.open(c, producer, partition)
    now = lab.end(c, producer, ABORT)
    observed = lab.ask_leader(partition, c.produce(producer, partition, 1, "late"))
    lab.fact("before the next transaction", "INVALID_PRODUCER_EPOCH", observed)
    [other] = lab.ground.topic()
    observed = lab.ask_leader(other, c.produce(producer, other, 0, "late"))
    lab.fact("elsewhere", "INVALID_PRODUCER_EPOCH", observed)
    lab.open(c, now, partition)
    observed = lab.ask_leader(partition, c.produce(producer, partition, 1, "late"))
    lab.fact("in the next transaction", "INVALID_PRODUCER_EPOCH", observed)
    expected = "P:1#0 P:2!ABORT P:2#0, open from 2"
    lab.fact("the partition then", expected, lab.partition(partition))


@experiment("v1")
def other_epochs_while_open_v1(lab: Lab) -> None:
    """A transaction is open here, and a batch of another epoch comes: is the coordinator asked?

    Before 4.0 what is open vouches for any epoch (KAFKA-18575).
    """
    c = lab.v1
    producer = lab.begin(c)
    [partition] = lab.ground.topic()
    lab.open(c, producer, partition)
    log = _late_while_open(lab, c, producer.at(0), producer, partition)
    observed = lab.ask_leader(partition, c.produce(producer.at(2), partition, 0, "early"))
    expected = lab.since({"0": "NONE", "4.0": "INVALID_PRODUCER_EPOCH"})
    lab.fact("epoch above", expected, observed)
    log += lab.since({"0": " P:2#0", "4.0": ""})
    lab.fact("the partition then", f"{log}, open from 0", lab.partition(partition))


@experiment("v2")
def other_epochs_while_open_v2(lab: Lab) -> None:
    """The first batch of one transaction comes again, late, while the next one is open here."""
    c = lab.v2
    producer = lab.begin(c)
    [partition] = lab.ground.topic()
    lab.open(c, producer, partition)
    now = lab.end(c, producer, COMMIT)
    lab.open(c, now, partition)
    log = _late_while_open(lab, c, producer, now, partition)
    expected = f"P:1#0 P:2!COMMIT {log}, open from 2"
    lab.fact("the partition then", expected, lab.partition(partition))


def _late_while_open(
    lab: Lab, c: Conversation, late: Producer, producer: Producer, partition: TopicPartition
) -> str:
    """What the log has of `producer` then, whose first batch is in it.

    4.0 asks the coordinator about a batch that is too old, and keeps its sequence as the lowest.
    """
    observed = lab.ask_leader(partition, c.produce(late, partition, 0, "late"))
    lab.fact("epoch below", "INVALID_PRODUCER_EPOCH", observed)
    observed = lab.ask_leader(partition, c.produce(producer, partition, 1, "more"))
    expected = lab.since({"0": "NONE", "4.0": OUT_OF_ORDER, "4.1": "NONE"})
    lab.fact("epoch below, then its own goes on", expected, observed)
    epoch = producer.producer_epoch
    return f"P:{epoch}#0" + (f" P:{epoch}#1" if expected == "NONE" else "")


@experiment("v1", properties={"transaction.partition.verification.enable": "false"})
def late_produce_unverified_v1(lab: Lab) -> None:
    """Verification is switched off: nobody will end what the late write opened."""
    c = lab.v1
    producer = lab.begin(c)
    [partition] = lab.ground.topic()
    lab.open(c, producer, partition)
    lab.end(c, producer, ABORT)
    observed = lab.ask_leader(partition, c.produce(producer, partition, 1, "late"))
    lab.fact("before the next transaction", "NONE", observed)
    expected = "P:1#0 P:1!ABORT P:1#1, open from 2"
    lab.fact("the partition then", expected, lab.partition(partition))
    lab.fact("the coordinator then", "CompleteAbort P:1", lab.state(producer))


@experiment("v1")
def unregistered_produce_v1(lab: Lab) -> None:
    """A partition that the transaction does not have, by version, state and identity."""
    for version in (3, 7, 9, 10, 11):
        if version > lab.v1.produce_version:
            continue
        c = replace(lab.v1, produce_version=version)
        producer = lab.in_state("Ongoing", lab.v1)
        refused = "TRANSACTION_ABORTABLE" if version == 11 else "INVALID_TXN_STATE"
        expected = lab.since({"0": "NONE", VERIFIED_SINCE: refused})
        lab.fact(f"Ongoing, Produce {version}", expected, _write(lab, c, producer))
    refused = lab.since({"0": "NONE", "3.6": "INVALID_TXN_STATE", "3.8": "TRANSACTION_ABORTABLE"})
    busy = lab.since({"0": "NONE", "3.6": "NOT_ENOUGH_REPLICAS"})
    for state in ("Empty", "CompleteCommit", "CompleteAbort", "PrepareCommit", "PrepareAbort"):
        producer = lab.in_state(state, lab.v1)
        expected = busy if state.startswith("Prepare") else refused
        lab.fact(f"{state}, Produce newest", expected, _write(lab, lab.v1, producer))
    producer = lab.in_state("Ongoing", lab.v1)
    fenced = lab.since({"0": "NONE", "3.6": "INVALID_PRODUCER_EPOCH"})
    unmapped = lab.since({"0": "NONE", "3.6": "INVALID_PRODUCER_ID_MAPPING"})
    for what, other, expected in _others(lab, producer, fenced, unmapped):
        lab.fact(f"Ongoing, {what}", expected, _write(lab, lab.v1, other))


@experiment("v2")
def unregistered_produce_v2(lab: Lab) -> None:
    """The leader registers the partition, by state and identity."""
    for state in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort"):
        lab.rename()
        producer = lab.in_state(state, lab.v2)
        lab.fact(f"{state}", "NONE", _write(lab, lab.v2, producer))
        expected = f"Ongoing P:{2 if state.startswith('Complete') else 1}"
        lab.fact(f"{state}, then", expected, lab.state(producer))
    for state in ("PrepareCommit", "PrepareAbort"):
        lab.rename()
        producer = lab.in_state(state, lab.v2)
        observed = _write(lab, lab.v2, producer)
        lab.fact(f"{state}, epoch before the end", "CONCURRENT_TRANSACTIONS", observed)
        observed = _write(lab, lab.v2, producer.at(2))
        lab.fact(f"{state}, epoch after the end", "CONCURRENT_TRANSACTIONS", observed)
    producer = lab.in_state("Ongoing", lab.v2)
    rows = _others(lab, producer, "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")
    for what, other, expected in rows:
        lab.fact(f"Ongoing, {what}", expected, _write(lab, lab.v2, other))


def _others(
    lab: Lab, producer: Producer, fenced: str, unmapped: str
) -> list[tuple[str, Producer, str]]:
    return [
        ("epoch below", producer.at(0), fenced),
        ("epoch above", producer.at(2), fenced),
        ("other producer id", replace(producer, producer_id=UNKNOWN_PRODUCER_ID), unmapped),
        (
            "an id that nobody knows",
            replace(producer, transactional_id=lab.ground.fresh("nobody")),
            unmapped,
        ),
    ]


def _write(lab: Lab, c: Conversation, producer: Producer) -> str:
    [partition] = lab.ground.topic()
    return lab.ask_leader(partition, c.produce(producer, partition, 0, "value"))


@experiment("v1")
def markers_v1(lab: Lab) -> None:
    """Markers without a transaction version, at a partition of epoch 1 that saw coordinator 3."""
    for is_open in (True, False):
        for what, epoch, coordinator, expected in (
            ("its epoch", 1, 3, "NONE"),
            ("an epoch below", 0, 3, "INVALID_PRODUCER_EPOCH"),
            ("an epoch above", 2, 3, "NONE"),
            ("an earlier coordinator", 1, 2, "TRANSACTION_COORDINATOR_FENCED"),
            ("a later coordinator", 1, 4, "NONE"),
            ("an epoch below, an earlier coordinator", 0, 2, "INVALID_PRODUCER_EPOCH"),
        ):
            observed = _marked(lab, lab.v1, is_open, Marker(-1, epoch, COMMIT, (), coordinator))
            lab.fact(f"{_word(is_open)}, {what}", expected, observed)
    [partition] = lab.ground.topic()
    lab.rename()
    marker = Marker(UNKNOWN_PRODUCER_ID, 4, ABORT, [partition], 0)
    lab.fact(
        "unknown producer", "NONE", lab.ask_leader(partition, lab.v1.write_txn_markers(marker))
    )
    expected = "P:4 last -1 coordinator 0"
    lab.fact("unknown producer, then", expected, lab.entry(partition, UNKNOWN_PRODUCER_ID))
    marker = replace(marker, partitions=[("nowhere", 0)])
    observed = lab.ask_leader(partition, lab.v1.write_txn_markers(marker))
    lab.fact("unknown partition", "UNKNOWN_TOPIC_OR_PARTITION", observed)


@experiment("v2")
def markers_with_transaction_version(lab: Lab) -> None:
    """WriteTxnMarkers 2 says which transaction version it is about (KIP-1228)."""
    if lab.v2.write_txn_markers_version < 2:
        return
    for version in (0, 1, 2):
        strict = "INVALID_PRODUCER_EPOCH" if version == 2 else "NONE"
        for is_open, what, epoch, expected in (
            (True, "its epoch", 1, strict),
            (True, "an epoch above", 2, "NONE"),
            (True, "an epoch below", 0, "INVALID_PRODUCER_EPOCH"),
            (False, "its epoch", 1, "NONE"),
            (False, "an epoch below", 0, "INVALID_PRODUCER_EPOCH"),
        ):
            marker = Marker(-1, epoch, COMMIT, (), 3, version)
            observed = _marked(lab, lab.v2, is_open, marker)
            lab.fact(f"transaction version {version}, {_word(is_open)}, {what}", expected, observed)


def _word(is_open: bool) -> str:
    return "open" if is_open else "not open"


def _marked(lab: Lab, c: Conversation, is_open: bool, marker: Marker) -> str:
    """Let a marker meet a partition of epoch 1 and coordinator epoch 3."""
    producer = lab.begin(lab.v1)
    [partition] = lab.ground.topic()
    before = Marker(producer.producer_id, 1, ABORT, [partition], 3)
    lab.ask_leader(partition, lab.v1.write_txn_markers(before))
    if is_open:
        lab.open(lab.v1, producer, partition)
    now = replace(marker, producer_id=producer.producer_id, partitions=[partition])
    return lab.ask_leader(partition, c.write_txn_markers(now))


@experiment("v2")
def marker_at_equal_epoch_v2(lab: Lab) -> None:
    """A marker comes again when the next transaction of V2 requests is open (KAFKA-19446)."""
    for committed, word in ((COMMIT, "commit"), (ABORT, "abort")):
        lab.rename()
        producer = lab.begin(lab.v2)
        [partition] = lab.ground.topic()
        lab.open(lab.v2, producer, partition)
        now = lab.end(lab.v2, producer, committed)
        marker = Marker(now.producer_id, now.producer_epoch, committed, [partition], 0, 2)
        observed = lab.ask_leader(partition, lab.v2.write_txn_markers(marker))
        lab.fact(f"{word} again, nothing open", "NONE", observed)
        lab.open(lab.v2, now, partition)
        observed = lab.ask_leader(partition, lab.v2.write_txn_markers(marker))
        strict = lab.since({"0": "NONE", "4.2": "INVALID_PRODUCER_EPOCH"})
        lab.fact(f"{word} again, the next one open", strict, observed)
        once = f"P:2!{word.upper()}"
        ended = f"P:1#0 {once} {once} P:2#0 {once}, stable"
        left = f"P:1#0 {once} {once} P:2#0, open from 3"
        expected = lab.since({"0": ended, "4.2": left})
        lab.fact(f"{word} again, the partition then", expected, lab.partition(partition))
