"""AddPartitionsToTxn: a client's form, and the form between brokers that adds or verifies."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.kafka.admin import TopicPartition
from conformance.transactions.facts.lab import STATES, Lab, experiment
from conformance.transactions.wire import Conversation, Producer

UNKNOWN_PRODUCER_ID: Final = 987_654_321
NOWHERE: Final[TopicPartition] = ("nowhere", 0)
BUSY: Final = "CONCURRENT_TRANSACTIONS"
FENCED: Final = "PRODUCER_FENCED"
UNMAPPED: Final = "INVALID_PRODUCER_ID_MAPPING"

BETWEEN_BROKERS: Final = (4, 5)


@experiment("v1")
def add_partitions_by_state(lab: Lab) -> None:
    """A client registers a partition in each state."""
    for state in STATES:
        lab.rename()
        producer = lab.in_state(state, lab.v1)
        [partition] = lab.ground.topic()
        lab.mark_log()
        held = state.startswith("Prepare")
        observed = lab.ask(lab.v1.add_partitions(producer, [partition]))
        lab.fact(f"{state}", BUSY if held else "NONE", observed)
        expected = f"{state} P:1" if held else "Ongoing P:1"
        lab.fact(f"{state}, then", expected, lab.state(producer))
        lab.fact(f"{state}, the log", "nothing" if held else "Ongoing P:1", lab.log(producer))
        if not held:
            lab.mark_log()
            observed = lab.ask(lab.v1.add_partitions(producer, [partition]))
            lab.fact(f"{state}, again", "NONE", observed)
            lab.fact(f"{state}, again, the log", "nothing", lab.log(producer))


@experiment("v1")
def add_partitions_by_identity(lab: Lab) -> None:
    """Other epochs and producers, in each state; ids that nobody knows; unknown partitions."""
    for state in STATES:
        producer = lab.in_state(state, lab.v1)
        held = state.startswith("Prepare")
        for what, other, known in _others(producer):
            observed = lab.ask(lab.v1.add_partitions(other, lab.ground.topic()))
            # Since KAFKA-18660 a pending change is looked at first.
            expected = lab.since({"0": known, "4.0": BUSY}) if held else known
            lab.fact(f"{state}, {what}", expected, observed)
    producer = lab.begin(lab.v1)
    nobody = replace(producer, transactional_id=lab.ground.fresh("nobody"))
    [partition] = lab.ground.topic()
    for what, expected, call in (
        ("an id that nobody knows", UNMAPPED, lab.v1.add_partitions(nobody, [partition])),
        (
            "an empty id",
            "INVALID_REQUEST",
            lab.v1.add_partitions(replace(producer, transactional_id=""), [partition]),
        ),
        (
            "an unknown partition beside a known one",
            "UNKNOWN_TOPIC_OR_PARTITION OPERATION_NOT_ATTEMPTED",
            lab.v1.add_partitions(producer, [NOWHERE, partition]),
        ),
        (
            "version 1, epoch below",
            "INVALID_PRODUCER_EPOCH",
            replace(lab.v1, add_partitions_version=1).add_partitions(producer.at(0), [partition]),
        ),
    ):
        lab.fact(what, expected, lab.ask(call))
    lab.rename()
    lab.fact("nothing was added", "Empty P:1", lab.state(producer))


def _others(producer: Producer) -> list[tuple[str, Producer, str]]:
    at = producer.producer_epoch
    return [
        ("epoch below", producer.at(at - 1), FENCED),
        ("epoch above", producer.at(at + 1), FENCED),
        ("other producer id", replace(producer, producer_id=UNKNOWN_PRODUCER_ID), UNMAPPED),
    ]


@experiment("v2")
def add_partitions_between_brokers(lab: Lab) -> None:
    """What a partition's leader asks for a V2 client."""
    for version in BETWEEN_BROKERS:
        c = replace(lab.v2, add_partitions_version=version)
        for state in STATES:
            lab.rename()
            producer = lab.in_state(state, lab.v2)
            held = state.startswith("Prepare")
            lab.mark_log()
            observed = lab.ask(c.add_partitions(producer, lab.ground.topic()))
            lab.fact(f"{state}, version {version}", BUSY if held else "NONE", observed)
            if not held:
                versions = [row.client_transaction_version for row in lab.records(producer)]
                lab.fact(f"{state}, version {version}, told version", "[2]", str(versions))
            for what, other, expected in _others(producer):
                observed = lab.ask(c.add_partitions(other, lab.ground.topic()))
                lab.fact(
                    f"{state}, version {version}, {what}", BUSY if held else expected, observed
                )


@experiment("v1")
def verify_between_brokers(lab: Lab) -> None:
    """What a partition's leader asks for a V1 client; it never writes."""
    newest = lab.ground.newest("ADD_PARTITIONS_TO_TXN")
    for version in BETWEEN_BROKERS:
        if version <= newest:
            _verify(lab, replace(lab.v1, add_partitions_version=version))


def _verify(lab: Lab, c: Conversation) -> None:
    version = c.add_partitions_version
    absent = lab.since({"0": "INVALID_TXN_STATE", "3.8": "TRANSACTION_ABORTABLE"})
    for state in STATES:
        lab.rename()
        producer = lab.in_state(state, lab.v1)
        held = state.startswith("Prepare")
        lab.mark_log()
        [partition] = lab.ground.topic()
        call = c.add_partitions(producer, [partition], verify_only=True)
        lab.fact(f"{state}, version {version}, absent", BUSY if held else absent, lab.ask(call))
        for what, other, expected in _others(producer):
            call = c.add_partitions(other, [partition], verify_only=True)
            lab.fact(f"{state}, version {version}, {what}", expected, lab.ask(call))
        if state == "Ongoing":
            present = lab.described(producer).partitions
            call = c.add_partitions(producer, present, verify_only=True)
            lab.fact(f"{state}, version {version}, present", "NONE", lab.ask(call))
        lab.fact(f"{state}, version {version}, the log", "nothing", lab.log(producer))
    nobody = Producer(lab.ground.fresh("nobody"), 1, 0)
    call = c.add_partitions(nobody, [partition], verify_only=True)
    lab.fact(f"an id that nobody knows, version {version}", UNMAPPED, lab.ask(call))
