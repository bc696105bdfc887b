"""Verbs that observe a broker; each returns a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.adapters.brokers.kafka.admin import TopicPartition
from conformance.adapters.brokers.kafka.wait import poll
from conformance.adapters.brokers.observed import see_log, see_offset_log, see_partition
from conformance.adapters.brokers.reading import (
    ObservedTransaction,
    OffsetRecord,
    ReadIsolation,
    TransactionRecord,
    committed_values,
    describe_producers,
    describe_transactions,
    fetch,
    fetch_offsets,
    list_latest,
    see,
)
from conformance.adapters.brokers.wire import ClientIdentity, CoordinatorConnection, error_in
from conformance.campaigns.stories.session import EVENTUALLY_S, Session
from conformance.campaigns.stories.setup import settle
from conformance.campaigns.stories.vocabulary import Name, Node, verb
from impl.protocol.errors import ErrorCode

NOTHING: Final = "nothing"


@verb
def receive(s: Session, wire: CoordinatorConnection, only: str = "") -> str:
    """The answer to the request sent on a connection; `error`: without the identity in it."""
    answer = wire.receive(30_000)
    return error_in(answer).name if only == "error" else s.names.answer(answer)


@verb
def describe(s: Session, name: Name) -> str:
    """The error of DescribeTransactions."""
    key = name or ""
    return s.testbed.coordinator().ask(describe_transactions([key]))[key].error.name


@verb
def state(s: Session, who: ClientIdentity, *, at: Node | None = None) -> str:
    """`Ongoing P:3`: the present state at the coordinator, or at the broker `at`."""
    return s.names.state(_described(s, who, at))


@verb
def pending(s: Session, who: ClientIdentity) -> str:
    """As `state`, while a transaction is about to end."""
    seen = _described(s, who)
    return s.names.state(seen) if seen.state.startswith("Prepare") else NOTHING


@verb
def settled(s: Session, who: ClientIdentity) -> str:
    """As `state`, once no transaction is about to end."""
    settle(s, who)
    return s.names.state(_described(s, who))


@verb
def states(s: Session, producers: list) -> str:  # type: ignore[type-arg]
    """The distinct states of some ids: `Ongoing, CompleteAbort`."""
    words = {s.names.state(_described(s, who)).partition(" ")[0] for who in producers}
    return ", ".join(sorted(words, reverse=True))


@verb
def registered(s: Session, who: ClientIdentity, group: str) -> str:
    """Whether the offsets of a group belong to the transaction."""
    return str(s.testbed.offsets_log(group) in _described(s, who).partitions)


@verb
def partition(s: Session, at: TopicPartition) -> str:
    """`P:1#0 P:2!ABORT, stable`: batches with their first sequences, markers, and open
    transactions."""
    wire = s.testbed.leader(at)
    fetched = wire.ask(fetch(at, 0, ReadIsolation.READ_UNCOMMITTED))
    words = [
        f"{s.names.identity(b.producer_id, b.producer_epoch)}"
        + (f"!{b.marker}" if b.marker else f"#{b.base_sequence}")
        for b in map(see, fetched.batches)
    ]
    stable_offset = wire.ask(list_latest(at, ReadIsolation.READ_COMMITTED))
    is_stable = stable_offset == fetched.high_watermark
    return (
        f"{' '.join(words) or 'empty'}, {'stable' if is_stable else f'open from {stable_offset}'}"
    )


@verb
def stable(s: Session, at: TopicPartition) -> str:
    """As `partition`, once no transaction is open in it, or the time is up."""
    return poll(lambda: partition(s, at), lambda text: text.endswith("stable"), EVENTUALLY_S)


@verb
def readers(s: Session, at: TopicPartition, offset: int = 0) -> str:
    """`end 5, aborted Q from 1, reads plain`: a read_committed fetch from `offset` on."""
    seen = s.testbed.leader(at).ask(fetch(at, offset, ReadIsolation.READ_COMMITTED))
    aborted = [f"{s.names.producer(who)} from {first}" for who, first in sorted(seen.aborted)]
    values = " ".join(committed_values(seen)) or NOTHING
    return f"end {seen.last_stable_offset}, aborted {' '.join(aborted) or NOTHING}, reads {values}"


@verb
def committed_records(s: Session, at: TopicPartition) -> str:
    """The number of records that a reader of committed records gets."""
    count = len(see_partition(s.testbed, at).committed)
    return f"{count} record{'s' * (count != 1)}"


@verb
def entry(s: Session, at: TopicPartition, who: ClientIdentity) -> str:
    """`P:1 last 0 coordinator 0 open 3`: the leader's state of one producer."""
    producers = s.testbed.leader(at).ask(describe_producers(at))
    if who.producer_id not in producers:
        return "unknown"
    e = producers[who.producer_id]
    opened = "" if e.current_txn_start_offset < 0 else f" open {e.current_txn_start_offset}"
    identity = s.names.identity(e.producer_id, e.producer_epoch)
    return f"{identity} last {e.last_sequence} coordinator {e.coordinator_epoch}{opened}"


@verb
def offsets(s: Session, group: str, at: TopicPartition) -> str:
    """`7, stable UNSTABLE_OFFSET_COMMIT`: the answers to both kinds of readers."""
    wire = s.testbed.group_coordinator()
    plain = wire.ask(fetch_offsets(group, [at], require_stable=False))[at]
    stable = wire.ask(fetch_offsets(group, [at], require_stable=True))[at]
    answered = stable.error.name if stable.error else str(stable.committed_offset)
    return f"{plain.committed_offset}, stable {answered}"


# The log of transactions


@verb
def log(s: Session, who: ClientIdentity) -> str:
    """`Ongoing P:1, PrepareCommit P:2`: the id's records since `mark_log`."""
    return _each_record(s, who, ", ", lambda row: _record(s, row)) or NOTHING


@verb
def last_record(s: Session, who: ClientIdentity) -> str:
    """The last of them."""
    return log(s, who).rpartition(", ")[2]


@verb
def client_versions(s: Session, who: ClientIdentity) -> str:
    """`[0, 2]`: the transaction versions of the clients that wrote the records (KIP-890)."""
    return f"[{_each_record(s, who, ', ', lambda row: str(row.client_transaction_version))}]"


@verb
def producer_id_links(s: Session, who: ClientIdentity) -> str:
    """`P/Q P/-`: the previous and the next producer id in each record (KAFKA-20310)."""
    name = s.names.producer
    return _each_record(
        s, who, " ", lambda row: f"{name(row.previous_producer_id)}/{name(row.next_producer_id)}"
    )


def _each_record(
    s: Session, who: ClientIdentity, between: str, tell: Callable[[TransactionRecord], str]
) -> str:
    rows = see_log(s.testbed, [who.transactional_id], s.log_starts)
    return between.join(map(tell, rows))


def _record(s: Session, row: TransactionRecord) -> str:
    if row.status is None:
        return "tombstone"
    return f"{row.status.name} {s.names.identity(row.producer_id, row.producer_epoch)}"


def _described(s: Session, who: ClientIdentity, at: int | None = None) -> ObservedTransaction:
    name = who.transactional_id
    wire = s.testbed.coordinator() if at is None else s.testbed.wire(at)
    return wire.ask(describe_transactions([name]))[name]


# Writes that readers of committed records see: `VALUE@PARTITION`, `OFFSET@GROUP/PARTITION`


@verb
def lost(s: Session, *writes: str) -> str:
    """The acknowledged writes that readers do not see."""
    kept = [write for write in writes if _value(write) in s.acknowledged]
    return " ".join(_value(w) for w in kept if not _is_seen(s, w)) or NOTHING


@verb
def shown(s: Session, *writes: str) -> str:
    """The writes that readers see."""
    return " ".join(_value(write) for write in writes if _is_seen(s, write)) or NOTHING


@verb
def torn(s: Session, *writes: str) -> str:
    """The acknowledged writes that readers see although they do not see others."""
    kept = [write for write in writes if _value(write) in s.acknowledged]
    seen = [write for write in kept if _is_seen(s, write)]
    return " ".join(map(_value, seen)) if seen and len(seen) < len(kept) else NOTHING


@verb
def writes(s: Session, place: str) -> str:
    """`P:0=first P:0!ABORT`: the values and markers of a partition, or of a group's offsets."""
    return " ".join(_entries(s, place))


@verb
def behind_marker(s: Session, place: str) -> str:
    """The values after the last marker, if there is one."""
    entries = _entries(s, place)
    marked = [number for number, entry in enumerate(entries) if "!" in entry]
    values = [entry.partition("=")[2] for entry in entries[marked[-1] + 1 :]] if marked else []
    return " ".join(values) or NOTHING


def _entries(s: Session, place: str) -> list[str]:
    name = s.names.identity
    if place in s.things:
        batches = see_partition(s.testbed, s.partition(place)).batches
        return [
            f"{name(b.producer_id, b.producer_epoch)}"
            + (f"!{b.marker}" if b.marker else f"={','.join(b.values)}")
            for b in batches
        ]
    return [
        f"{name(row.producer_id, row.producer_epoch)}"
        + (f"={row.committed_offset}" if isinstance(row, OffsetRecord) else f"!{row.marker}")
        for row in see_offset_log(s.testbed, [place])
    ]


@verb
def stable_offset(s: Session, group: str, at: TopicPartition) -> str:
    """The error for a reader that requires a group's stable offset."""
    call = fetch_offsets(group, [at], require_stable=True)
    return s.testbed.group_coordinator().ask(call)[at].error.name


@verb
def waiting(s: Session, *partitions: TopicPartition) -> str:
    """The lag of readers of committed records behind the ends of logs: `offset 2 of 3`."""
    seen = [see_partition(s.testbed, at) for at in partitions]
    ends = [(one.last_stable_offset, one.high_watermark) for one in seen]
    behind = [f"offset {stable} of {end}" for stable, end in ends if stable < end]
    return ", ".join(behind) or NOTHING


def _value(write: str) -> str:
    return write.partition("@")[0]


def _is_seen(s: Session, write: str) -> bool:
    value, _, place = write.partition("@")
    group, slash, where = place.rpartition("/")
    at = s.partition(where)
    if not slash:
        return value in see_partition(s.testbed, at).committed
    call = fetch_offsets(group, [at], require_stable=True)
    seen = s.testbed.group_coordinator().ask(call)[at]
    return seen.error is ErrorCode.NONE and str(seen.committed_offset) == value
