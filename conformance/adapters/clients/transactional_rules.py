"""The protocol's rules for any transactional producer, and policies that only Kafka's own client
keeps.

Each rule is a function that returns its first breach. RULES are the protocol's: a client that
breaks one may lose, duplicate or tear the content of a transaction. The Java client of 4.3.1 keeps
the POLICIES in all its runs; a client may differ from them, as the protocol allows. Sources:
KIP-98, KIP-360 (epochs), KIP-447 (offsets), KIP-890 (V2 requests), and `TransactionManager` of the
Java client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from conformance.adapters.clients import protocol_rules
from conformance.adapters.clients.protocol_rules import Breach, SentBatch, attempts_of
from conformance.adapters.clients.trace import (
    ClientTrace,
    ConnectionClosed,
    CoordinatorAnswered,
    ProducerIdAnswered,
    ProducerIdRequested,
)
from conformance.adapters.clients.transactional_plan import TransactionalPlan
from conformance.adapters.clients.wire_transactions import (
    FIRST_OF_V2,
    STORED,
    WireTransaction,
    is_v1,
    spans_of,
    transactions_in,
)
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey

Spans = Sequence[WireTransaction]
Rule = Callable[[ClientTrace, Spans], Breach | None]


def batches_of(spans: Spans) -> list[SentBatch]:
    """All batches, in the order in which they arrived."""
    return [batch for span in spans for batch in span.batches]


# The protocol


def batches_are_transactional(_: ClientTrace, spans: Spans) -> Breach | None:
    """A transactional producer's batches say that they are (KIP-98): others are visible at once."""
    for attempt in batches_of(spans):
        if not attempt.batch.is_transactional:
            rule = "batches_are_transactional"
            return attempt.breaks(rule, "is_transactional", True, False)
    return None


def epochs_are_given(trace: ClientTrace, spans: Spans) -> Breach | None:
    """Producer id and epoch are those that InitProducerId gave, or EndTxn of V2 (KIP-890): a
    transactional producer takes none by itself."""
    given = [
        (position, (event.producer_id, event.producer_epoch))
        for position, event in enumerate(trace.events)
        if isinstance(event, ProducerIdAnswered | CoordinatorAnswered) and not event.error
    ]
    sent = [
        (a.position, (a.batch.producer_id, a.batch.producer_epoch), a.breaks)
        for a in batches_of(spans)
    ] + [
        (r.position, (r.event.producer_id, r.event.producer_epoch), r.breaks)
        for span in spans
        for r in span.requests
    ]
    for position, ids, breaks in sorted(sent, key=lambda row: row[0]):
        known = [value for at, value in given if at < position]
        if ids not in known:
            return breaks("epochs_are_given", "producer_epoch", "one that was given", ids[1])
    return None


def partitions_are_added(trace: ClientTrace, spans: Spans) -> Breach | None:
    """With V1 requests a batch is sent once AddPartitionsToTxn for its partition was answered
    (KIP-98): else its coordinator writes no marker there, and the transaction hangs."""
    for span in spans:
        for attempt in span.batches:
            added = span.accepted(ApiKey.ADD_PARTITIONS_TO_TXN, attempt.position)
            partitions = {p for request in added for p in request.event.partitions}
            if is_v1(trace, attempt) and attempt.batch.partition not in partitions:
                rule = "partitions_are_added"
                return attempt.breaks(rule, "partition", sorted(partitions), "not added")
    return None


def offsets_are_added(_: ClientTrace, spans: Spans) -> Breach | None:
    """With V1 requests TxnOffsetCommit comes once AddOffsetsToTxn was answered (KIP-98)."""
    for span in spans:
        for request in span.of(ApiKey.TXN_OFFSET_COMMIT):
            is_old = request.event.version < FIRST_OF_V2[ApiKey.TXN_OFFSET_COMMIT.name]
            added = any(span.accepted(ApiKey.ADD_OFFSETS_TO_TXN, request.position))
            if is_old and not added:
                return request.breaks("offsets_are_added", "group", "added before", "not added")
    return None


def transactions_do_not_mix(trace: ClientTrace, spans: Spans) -> Breach | None:
    """A transaction on the wire has records of one transaction of the application."""
    assert isinstance(trace.plan, TransactionalPlan)
    known = dict(trace.plan.transaction_of)
    for span in spans:
        for n, attempt in enumerate(span.batches, start=1):
            found = transactions_in(span.batches[:n], known)
            if len(found) > 1:
                rule, field = "transactions_do_not_mix", "transactions"
                return attempt.breaks(rule, field, "those of one", sorted(found))
    return None


def commits_need_all_stored(_: ClientTrace, spans: Spans) -> Breach | None:
    """EndTxn commits only when each batch that was sent is known to be stored, by its own answer or
    by that of a later sequence: a commit holds all that was sent. (An abort may overtake a batch
    that has expired: the Java client's does.)"""
    for span in spans:
        for request in span.of(ApiKey.END_TXN):
            sent = [b for b in span.batches if b.position < request.position]
            stored = [b for b in sent if b.error in STORED and b.ended < request.position]
            lost = {r for b in sent for r in records_of(b)}
            lost -= {r for b in sent if is_shown_by(b, stored) for r in records_of(b)}
            if request.event.commits and lost:
                rule = "commits_need_all_stored"
                return request.breaks(rule, "records_not_known_to_be_stored", 0, len(lost))
    return None


def is_shown_by(batch: SentBatch, stored: Sequence[SentBatch]) -> bool:
    """Whether a batch is stored, or a later one is: a leader leaves no sequence out."""
    return batch in stored or any(
        other.numbering == batch.numbering
        and other.batch.base_sequence > batch.batch.base_sequence
        and (batch.error is None or batch.error in protocol_rules.MAY_BE_STORED)
        for other in stored
    )


def records_of(attempt: SentBatch) -> frozenset[tuple[int, int]]:
    """The records of a batch, by partition and number."""
    return frozenset((attempt.batch.partition, number) for number in attempt.batch.records)


def ends_keep_their_outcome(_: ClientTrace, spans: Spans) -> Breach | None:
    """After an EndTxn that was not answered, the next one of the same epoch decides the same: the
    first may have been done, or arrive later (KAFKA-17754)."""
    for span in spans:
        for before, after in pairwise(span.of(ApiKey.END_TXN)):
            is_same = before.event.producer_epoch == after.event.producer_epoch
            changed = before.event.commits != after.event.commits
            if is_same and changed and (before.error is None or before.ended > after.position):
                rule, expected = "ends_keep_their_outcome", before.event.commits
                return after.breaks(rule, "commits", expected, after.event.commits)
    return None


def fenced_stays_fenced(trace: ClientTrace, _: Spans) -> Breach | None:
    """Who is told PRODUCER_FENCED does not initialize again: it would fence the one that replaced
    it."""
    told = False
    for position, event in enumerate(trace.events):
        if isinstance(event, ProducerIdRequested) and told:
            rule, path = "fenced_stays_fenced", "INIT_PRODUCER_ID.after"
            return Breach(rule, position, {path: "no request"}, {path: "PRODUCER_FENCED"})
        if isinstance(event, ProducerIdAnswered | CoordinatorAnswered):
            told |= event.error == ErrorCode.PRODUCER_FENCED
    return None


RULES: Final[tuple[Rule, ...]] = (
    batches_are_transactional,
    epochs_are_given,
    partitions_are_added,
    offsets_are_added,
    transactions_do_not_mix,
    commits_need_all_stored,
    ends_keep_their_outcome,
    fenced_stays_fenced,
)

OF_IDEMPOTENT: Final = tuple(
    rule for rule in protocol_rules.RULES if rule is not protocol_rules.ids_are_given
)
"""The rules of idempotent producers hold, too; ids have a stricter rule here."""


# The policies of Kafka's own client


def empty_transactions_are_not_ended(trace: ClientTrace, spans: Spans) -> Breach | None:
    """The Java client sends no EndTxn where nothing was added to a transaction, as far as it knows;
    of V2 it sends an abort. A coordinator that has no transaction refuses: INVALID_TXN_STATE."""
    for span in spans:
        for request in span.of(ApiKey.END_TXN):
            if request.event.version >= FIRST_OF_V2[ApiKey.END_TXN.name]:
                continue
            added = [
                one
                for one in span.of(ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN)
                if one.position < request.position and not one.error
            ]
            is_empty = not added and not any(b.position < request.position for b in span.batches)
            if is_empty and not may_repeat(trace, request.position):
                rule = "empty_transactions_are_not_ended"
                return request.breaks(rule, "for", "a transaction with content", "an empty one")
    return None


def may_repeat(trace: ClientTrace, position: int) -> bool:
    """Whether an EndTxn may be a retry: the answer to it was written to a connection that the
    client had given up."""
    return any(
        isinstance(event, ConnectionClosed)
        for event in trace.events[max(position - 3, 0) : position]
    )


def level_2_is_used(trace: ClientTrace, spans: Spans) -> Breach | None:
    """At transaction.version 2 the Java client of 4.0 and later sends V2 requests (KIP-890)."""
    if trace.plan.level < 2:
        return None
    for span in spans:
        for request in span.of(ApiKey.END_TXN):
            if request.event.version < FIRST_OF_V2[ApiKey.END_TXN.name]:
                rule, least = "level_2_is_used", FIRST_OF_V2[ApiKey.END_TXN.name]
                version = request.event.version
                return request.breaks(rule, "version", f"{least} or later", version)
    return None


POLICIES: Final[tuple[Rule, ...]] = (
    level_2_is_used,
    empty_transactions_are_not_ended,
)


def broken_rules(trace: ClientTrace) -> list[Breach]:
    """The first breach of each rule of the protocol, in their order in the run."""
    spans, attempts = spans_of(trace), attempts_of(trace)
    found = [rule(trace, spans) for rule in RULES]
    found += [rule(trace, attempts) for rule in OF_IDEMPOTENT]
    return sorted((one for one in found if one is not None), key=lambda one: one.position)


def differing_policies(trace: ClientTrace) -> list[Breach]:
    """The first of each policy that is not the Java client's."""
    spans = spans_of(trace)
    return [one for policy in POLICIES if (one := policy(trace, spans)) is not None]
