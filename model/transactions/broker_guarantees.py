"""Guarantees of the state of leaders and coordinators: it agrees with their logs.

They are part of the list in `model.transactions.guarantees`.
"""

from __future__ import annotations

from model.language import Map
from model.transactions.add_partitions import check_producer, on_verify
from model.transactions.client_state import Client, ClientState, Outcome
from model.transactions.configuration import Configuration
from model.transactions.coordinator import (
    Coordinator,
    CoordinatorLeadership,
    Metadata,
    is_prepared,
)
from model.transactions.fates import Log, asked_to_abort, is_decided
from model.transactions.faults import Faults
from model.transactions.leader import Kind, ProducerStateEntry, Stored, check_marker
from model.transactions.messages import (
    NO_BATCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    Api,
    Error,
    Marker,
    Partition,
    Request,
    speaks_v2,
)
from model.transactions.world import World

# Leaders


def leaders_know_their_logs(k: Configuration, w: World) -> bool:
    """A leader's state of a producer id agrees with its log: the epoch and the sequence of the
    newest record, and the first offset of an open transaction."""
    return all(
        all(
            knows_epoch(leader.log, producer_id, entry)
            and knows_sequence(leader.log, producer_id, entry)
            and knows_open(leader.log, producer_id, entry)
            for producer_id, entry in leader.producers.items()
        )
        for leader in w.leaders.values()
    )


def is_of(stored: Stored, producer_id: int) -> bool:
    """Whether this is a record or a marker of the producer id."""
    return stored.kind != Kind.OTHER and stored.producer_id == producer_id


def knows_epoch(log: Log, producer_id: int, entry: ProducerStateEntry) -> bool:
    """The epoch is that of the newest record or marker; -1 if the log has neither."""
    return all(
        not is_of(s, producer_id)
        or any(is_of(later, producer_id) for later in log[i + 1 :])
        or s.producer_epoch == entry.producer_epoch
        for i, s in enumerate(log)
    ) and (entry.producer_epoch == NO_PRODUCER_EPOCH or any(is_of(s, producer_id) for s in log))


def knows_sequence(log: Log, producer_id: int, entry: ProducerStateEntry) -> bool:
    """The sequence is that of the newest record of the present epoch; -1 if the log has none."""
    return all(
        not is_record_of(s, producer_id, entry)
        or any(is_record_of(later, producer_id, entry) for later in log[i + 1 :])
        or s.sequence == entry.last_sequence
        for i, s in enumerate(log)
    ) and (
        entry.last_sequence == NO_SEQUENCE or any(is_record_of(s, producer_id, entry) for s in log)
    )


def is_record_of(stored: Stored, producer_id: int, entry: ProducerStateEntry) -> bool:
    """Whether this is a record of the producer id, under the epoch that the leader knows."""
    return (
        stored.kind == Kind.DATA
        and stored.producer_id == producer_id
        and stored.producer_epoch == entry.producer_epoch
    )


def knows_open(log: Log, producer_id: int, entry: ProducerStateEntry) -> bool:
    """The open transaction begins at the first record that no marker has ended; none is open if all
    are ended."""
    first = entry.current_txn_first_offset
    return all(
        s.kind != Kind.DATA
        or s.producer_id != producer_id
        or is_decided(log, i)
        or (first != NO_OFFSET and first <= i)
        for i, s in enumerate(log)
    ) and (
        first == NO_OFFSET
        or any(
            i == first
            and s.kind == Kind.DATA
            and s.producer_id == producer_id
            and not is_decided(log, i)
            for i, s in enumerate(log)
        )
    )


def records_are_where_sent(k: Configuration, w: World) -> bool:
    """Each record is in the log of a partition that its application sent it to."""
    return all(
        all(s.kind != Kind.DATA or was_sent(w, partition, s) for s in leader.log)
        for partition, leader in w.leaders.items()
    )


def was_sent(w: World, partition: Partition, stored: Stored) -> bool:
    """Whether the application has sent this record to the partition, in its transaction."""
    there = w.clients[stored.instance].partitions[partition]
    return stored.number < there.sent[stored.transaction]


def newer_coordinators_fence(k: Configuration, w: World) -> bool:
    """A leader that has a marker of a coordinator refuses the markers of its predecessors, under
    any producer epoch. KIP-98."""
    return all(
        all(
            entry.coordinator_epoch < 1 or is_refused(k, partition, producer_id, entry)
            for producer_id, entry in leader.producers.items()
        )
        for partition, leader in w.leaders.items()
    )


def is_refused(
    k: Configuration, partition: Partition, producer_id: int, entry: ProducerStateEntry
) -> bool:
    """Whether the newest marker that the known coordinator's predecessor could send is refused."""
    marker = Marker(
        producer_id=producer_id,
        producer_epoch=k.bounds.max_epoch,
        committed=True,
        coordinator_epoch=entry.coordinator_epoch - 1,
        partition=partition,
    )
    return check_marker(k, entry, marker) != Error.NONE


# Coordinators


def coordinator_epochs_rise(k: Configuration, w: World) -> bool:
    """Each coordinator has an epoch of its own, newer than all before, so that leaders can refuse
    the markers of a former coordinator."""
    former = w.placement.former
    present = w.coordinator.coordinator_epoch
    is_newer = former.leadership != CoordinatorLeadership.REPLACED or (
        former.coordinator_epoch < present
    )
    return (
        is_newer
        and present >= w.faults.moves
        and all(
            all(e.coordinator_epoch <= present for e in leader.producers.values())
            for leader in w.leaders.values()
        )
    )


def coordinator_knows_its_log(k: Configuration, w: World) -> bool:
    """The memory of a coordinator that leads, and appends nothing, agrees with its log: the next
    coordinator finds the same there. TransactionStateManager."""
    c = w.coordinator
    leads = c.leadership == CoordinatorLeadership.LEADS and not c.is_appending
    return not leads or is_logged(c.known.metadata, c.log.metadata)


def is_logged(known: Metadata, logged: Metadata) -> bool:
    """Whether both are the same, except that the log still has the partitions that already have
    their marker."""
    return (
        known.state == logged.state
        and known.producer_id == logged.producer_id
        and known.producer_epoch == logged.producer_epoch
        and all(
            logged.partitions[p] == is_in or (logged.partitions[p] and is_prepared(known))
            for p, is_in in known.partitions.items()
        )
    )


def nothing_joins_prepared(k: Configuration, w: World) -> bool:
    """Once the end of a transaction is prepared, its coordinator lets no batch and no partition
    join the transaction. KIP-890."""
    c = w.coordinator
    return not is_prepared(c.known.metadata) or not any(
        lets_join(k, c, partition) for partition, _ in c.known.metadata.partitions.items()
    )


def lets_join(k: Configuration, c: Coordinator, partition: Partition) -> bool:
    """Whether the coordinator lets a batch of the present epoch into the transaction: V1 verifies,
    V2 adds."""
    metadata = c.known.metadata
    request = Request(
        api=Api.ADD_PARTITIONS_TO_TXN,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        partitions=Map.filled(k.bounds.partitions, False).put(partition, True),
        committed=False,
        partition=partition,
        batch=NO_BATCH,
        guard=NO_OFFSET,
    )
    verified = not speaks_v2(k) and on_verify(k, c, request, partition) == Error.NONE
    return verified or check_producer(k, c, request) == Error.NONE


# Epochs


def epochs_have_causes(k: Configuration, w: World) -> bool:
    """A producer epoch begins only if an instance begins, if that ends the transaction of an
    instance before, if a transaction ends, or after a fault."""
    begun = tuple(c for c in w.clients.values() if c.state != ClientState.UNINITIALIZED)
    fences = len(begun) - 1
    ends = sum(epochs_of_ends(k, w.faults, c) for c in begun)
    causes = len(begun) + fences + ends + trouble(w.faults)
    return w.coordinator.known.metadata.producer_epoch < max(causes, 0)


def epochs_of_ends(k: Configuration, faults: Faults, client: Client) -> int:
    """The number of epochs that ends take: with V2 one for each end that an application has asked
    for; with V1 one for each abort, if a batch may have failed."""
    outcomes = client.outcomes.values()
    failed = trouble(faults) + faults.expirations + faults.rejections > 0
    if speaks_v2(k):
        return sum(1 for outcome in outcomes if outcome != Outcome.OPEN)
    return sum(1 for outcome in outcomes if failed and asked_to_abort(outcome))


def trouble(faults: Faults) -> int:
    """A bound on how many requests are handled twice, and on how often a coordinator bumps the
    epoch itself."""
    unanswered = faults.unheard + faults.delays + faults.moves + faults.failures
    return unanswered + faults.timeouts
