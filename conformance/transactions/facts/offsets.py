"""AddOffsetsToTxn, TxnOffsetCommit, and what a group's readers see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from conformance.kafka.admin import TopicPartition
from conformance.transactions.facts.lab import STATES, Lab, eventually, experiment
from conformance.transactions.reading import CONSUMER_OFFSETS, fetch_offsets
from conformance.transactions.wire import Conversation, Group, Producer, Requests

COMMIT, ABORT = True, False
UNKNOWN_PRODUCER_ID: Final = 987_654_321
BUSY: Final = "CONCURRENT_TRANSACTIONS"
VERIFIED_SINCE: Final = "3.7"


class Open(NamedTuple):
    """A transaction to which a group belongs, and how it is to end."""

    says: Conversation
    producer: Producer
    group: Group
    at: TopicPartition
    committed: bool


def _each_end(lab: Lab, requests: Requests) -> Iterator[Open]:
    """One that is to be committed, then one that is to be aborted. V1 has to add the group."""
    says = lab.ground.conversation(requests)
    for committed in (COMMIT, ABORT):
        lab.rename()
        producer, group, at = lab.begin(says), Group(lab.ground.fresh("group")), _at(lab)
        if requests == "v1":
            lab.retry(says.add_offsets(producer, group.group_id))
        yield Open(says, producer, group, at, committed)


@experiment("v1")
def add_offsets(lab: Lab) -> None:
    """A client registers a group's offsets, by state and identity."""
    for state in STATES:
        lab.rename()
        producer = lab.in_state(state, lab.v1)
        held = state.startswith("Prepare")
        lab.mark_log()
        observed = lab.ask(lab.v1.add_offsets(producer, lab.ground.fresh("group")))
        lab.fact(f"{state}", BUSY if held else "NONE", observed)
        if not held:
            has = CONSUMER_OFFSETS in lab.described(producer).partitions
            lab.fact(f"{state}, the partition is registered", "True", str(has))
    producer = lab.in_state("Empty", lab.v1)
    other = replace(producer, producer_id=UNKNOWN_PRODUCER_ID)
    for what, who, expected in (
        ("epoch below", producer.at(0), "PRODUCER_FENCED"),
        ("epoch above", producer.at(2), "PRODUCER_FENCED"),
        ("other producer id", other, "INVALID_PRODUCER_ID_MAPPING"),
    ):
        lab.fact(f"Empty, {what}", expected, lab.ask(lab.v1.add_offsets(who, "group")))


@experiment("v1")
def commit_offsets_v1(lab: Lab) -> None:
    """A registered commit is pending until the marker: committed, then aborted."""
    for its in _each_end(lab, "v1"):
        _commit_and_end(lab, its)


@experiment("v2")
def commit_offsets_v2(lab: Lab) -> None:
    """The group's coordinator registers the partition."""
    for its in _each_end(lab, "v2"):
        _commit_and_end(lab, its)


def _commit_and_end(lab: Lab, its: Open) -> None:
    says, producer, group, at, committed = its
    word = "commit" if committed else "abort"
    observed = lab.ask_group(says.txn_offset_commit(producer, group, at, 7))
    lab.fact(f"before {word}, TxnOffsetCommit", "NONE", observed)
    lab.fact(
        f"before {word}, while it is open",
        "-1, stable UNSTABLE_OFFSET_COMMIT",
        seen(lab, group, at),
    )
    lab.end(says, producer, committed)
    offset = 7 if committed else -1
    expected = f"{offset}, stable {offset}"
    observed = eventually(lambda: seen(lab, group, at), lambda told: told == expected)
    lab.fact(f"after {word}", expected, observed)


@experiment("v1")
def late_offset_commit_v1(lab: Lab) -> None:
    """TxnOffsetCommit after the marker, and without registration (KAFKA-15449)."""
    for what, registers in (("after the marker", True), ("never registered", False)):
        lab.rename()
        producer, group, at = lab.begin(lab.v1), Group(lab.ground.fresh("group")), _at(lab)
        if registers:
            lab.retry(lab.v1.add_offsets(producer, group.group_id))
            lab.ask_group(lab.v1.txn_offset_commit(producer, group, at, 7))
            lab.end(lab.v1, producer, COMMIT)
        refused = {"0": "NONE", "3.7": "INVALID_TXN_STATE", "3.8": "TRANSACTION_ABORTABLE"}
        observed = lab.ask_group(lab.v1.txn_offset_commit(producer, group, at, 9))
        lab.fact(f"{what}", lab.since(refused), observed)
        before = "7" if registers else "-1"
        pending = f"{before}, stable UNSTABLE_OFFSET_COMMIT"
        expected = lab.since({"0": pending, "3.7": f"{before}, stable {before}"})
        lab.fact(f"{what}, then", expected, seen(lab, group, at))
    if lab.v1.txn_offset_commit_version >= 4:
        old = replace(lab.v1, txn_offset_commit_version=3)
        producer, group, at = lab.begin(lab.v1), Group(lab.ground.fresh("group")), _at(lab)
        observed = lab.ask_group(old.txn_offset_commit(producer, group, at, 9))
        lab.fact("never registered, version 3", "INVALID_TXN_STATE", observed)


@experiment("v2")
def late_offset_commit_v2(lab: Lab) -> None:
    """TxnOffsetCommit of the last transaction's epoch."""
    producer, group, at = lab.begin(lab.v2), Group(lab.ground.fresh("group")), _at(lab)
    lab.ask_group(lab.v2.txn_offset_commit(producer, group, at, 7))
    now = lab.end(lab.v2, producer, COMMIT)
    observed = lab.ask_group(lab.v2.txn_offset_commit(producer, group, at, 9))
    lab.fact("after the marker", "INVALID_PRODUCER_EPOCH", observed)
    lab.fact("after the marker, then", "7, stable 7", seen(lab, group, at))
    lab.open(lab.v2, now, _at(lab))
    observed = lab.ask_group(lab.v2.txn_offset_commit(producer, group, at, 9))
    lab.fact("in the next transaction", "INVALID_PRODUCER_EPOCH", observed)


@experiment("v1")
def offset_commit_refusals_v1(lab: Lab) -> None:
    """Groups, generations, partitions and identities that are none."""
    c = lab.v1
    producer, group, at = lab.begin(c), Group(lab.ground.fresh("group")), _at(lab)
    lab.retry(c.add_offsets(producer, group.group_id))
    verified = {"0": "NONE", VERIFIED_SINCE: "INVALID_PRODUCER_EPOCH"}
    above = {"0": "NONE", "4.0": "INVALID_PRODUCER_EPOCH"}
    unmapped = {"0": "NONE", VERIFIED_SINCE: "INVALID_PRODUCER_ID_MAPPING"}
    other = replace(producer, producer_id=UNKNOWN_PRODUCER_ID)
    unknown = lab.since({"0": "UNKNOWN_MEMBER_ID", "4.0": "ILLEGAL_GENERATION"})
    for what, who, which, where, expected in (
        ("an empty group", producer, Group(""), at, "INVALID_GROUP_ID"),
        ("generation 0", producer, replace(group, generation_id=0), at, unknown),
        ("nowhere", producer, group, ("nowhere", 0), "UNKNOWN_TOPIC_OR_PARTITION"),
        ("epoch below", producer.at(0), group, at, lab.since(verified)),
        ("other producer id", other, group, at, lab.since(unmapped)),
        ("its own", producer, group, at, "NONE"),
        # The group exists now, without members.
        ("then generation 0", producer, replace(group, generation_id=0), at, "UNKNOWN_MEMBER_ID"),
        ("then a member", producer, replace(group, member_id="m"), at, "NONE"),
        # Its own commit is open there: before 4.0 that is enough, whatever the epoch.
        ("then epoch above", producer.at(2), group, at, lab.since(above)),
    ):
        lab.fact(what, expected, lab.ask_group(c.txn_offset_commit(who, which, where, 7)))


@experiment("v2")
def offset_commit_by_state_v2(lab: Lab) -> None:
    """The implicit registration of a group's offsets, by state and identity."""
    for state in STATES:
        lab.rename()
        producer = lab.in_state(state, lab.v2)
        held = state.startswith("Prepare")
        group, at = Group(lab.ground.fresh("group")), _at(lab)
        observed = lab.ask_group(lab.v2.txn_offset_commit(producer, group, at, 7))
        lab.fact(f"{state}", BUSY if held else "NONE", observed)
        lab.fact(f"{state}, then", _then(state), lab.state(producer))
    producer = lab.in_state("Ongoing", lab.v2)
    other = replace(producer, producer_id=UNKNOWN_PRODUCER_ID)
    for what, who, expected in (
        ("epoch below", producer.at(0), "INVALID_PRODUCER_EPOCH"),
        ("epoch above", producer.at(2), "INVALID_PRODUCER_EPOCH"),
        ("other producer id", other, "INVALID_PRODUCER_ID_MAPPING"),
    ):
        group = Group(lab.ground.fresh("group"))
        observed = lab.ask_group(lab.v2.txn_offset_commit(who, group, _at(lab), 7))
        lab.fact(f"Ongoing, {what}", expected, observed)


def _then(state: str) -> str:
    if state.startswith("Prepare"):
        return f"{state} P:2"
    return f"Ongoing P:{2 if state.startswith('Complete') else 1}"


@experiment("v1")
def offsets_come_in_order_v1(lab: Lab) -> None:
    """A TxnOffsetCommit that its sender gave up arrives behind a newer one of its transaction."""
    for its in _each_end(lab, "v1"):
        _come_in_order(lab, its)


@experiment("v2")
def offsets_come_in_order_v2(lab: Lab) -> None:
    """The same, V2 requests."""
    for its in _each_end(lab, "v2"):
        _come_in_order(lab, its)


def _come_in_order(lab: Lab, its: Open) -> None:
    """The last in the log counts: a group coordinator compares no offsets. What is late comes over
    a connection of its own."""
    says, producer, group, at, committed = its
    word = "committed" if committed else "aborted"
    newer = lab.ask_group(says.txn_offset_commit(producer, group, at, 9))
    lab.fact(f"{word}: offset 9", "NONE", newer)
    other = lab.ground.connect(lab.ground.leader_of(CONSUMER_OFFSETS))
    late = lab.names.answer(other.ask(says.txn_offset_commit(producer, group, at, 5)))
    lab.fact(f"{word}: then offset 5, late", "NONE", late)
    lab.fact(f"{word}: both, open", "-1, stable UNSTABLE_OFFSET_COMMIT", seen(lab, group, at))
    lab.end(says, producer, committed)
    expected = "5, stable 5" if committed else "-1, stable -1"
    observed = eventually(lambda: seen(lab, group, at), lambda told: told == expected)
    lab.fact(f"{word}: in the end", expected, observed)


@experiment("v1")
def offsets_of_two_producers(lab: Lab) -> None:
    """The later commit wins, whichever transaction ends first."""
    group, at = Group(lab.ground.fresh("group")), _at(lab)
    first, second = lab.begin(lab.v1), lab.begin(lab.v1)
    for producer, offset in ((first, 7), (second, 8)):
        lab.retry(lab.v1.add_offsets(producer, group.group_id))
        lab.ask_group(lab.v1.txn_offset_commit(producer, group, at, offset))
    lab.end(lab.v1, second, COMMIT)
    expected = "8, stable UNSTABLE_OFFSET_COMMIT"
    lab.fact("the second is committed, the first open", expected, seen(lab, group, at))
    lab.end(lab.v1, first, COMMIT)
    lab.fact("both are committed", "8, stable 8", seen(lab, group, at))


def _at(lab: Lab) -> TopicPartition:
    [partition] = lab.ground.topic()
    return partition


def seen(lab: Lab, group: Group, at: TopicPartition) -> str:
    """`7, stable UNSTABLE_OFFSET_COMMIT`: what both kinds of readers are told."""
    wire = lab.ground.group_coordinator()
    plain = wire.ask(fetch_offsets(group.group_id, [at], require_stable=False))[at]
    stable = wire.ask(fetch_offsets(group.group_id, [at], require_stable=True))[at]
    told = stable.error.name if stable.error else str(stable.committed_offset)
    return f"{plain.committed_offset}, stable {told}"
