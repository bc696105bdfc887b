"""The canonical form of a world: it makes runs that never end visit finitely many worlds.

Theory of operation. In an `unbounded` scope faults never stop. Epochs, offsets and the log grow for
ever; if the scope `streams`, record numbers do too. Two passes forget or renumber what no rule of
the protocol can tell apart. A world and its canonical form allow the same events, and the worlds
after each event have the same canonical form again.

1. A log keeps its last batch, the batches that are not on every replica, and the batches that a
   replica needs to rebuild its memory: of each producer id, the newest batches of its last epoch.
   Offsets count only what is kept. Offsets up to the high watermark become 0, because it has passed
   them whatever comes.
2. Epochs of a producer id are only compared with each other, and the next is later than all. They
   become 0, 1, 2, ... in their order.
3. Record numbers begin with the oldest that a batch in flight still names, rounded down so that the
   sizes of later batches stay the same. No broker reads record numbers: in a log they are 0.

All this holds while the high watermark never falls, nothing is deleted, and a broker that restarts
has a snapshot of its log's end: see `has_normal_form`.
"""

from __future__ import annotations

from dataclasses import replace

from model.idempotent.client import Client, InFlightBatch, PartitionEntry, is_of
from model.idempotent.configuration import Configuration
from model.idempotent.leader import (
    BatchMetadata,
    Leader,
    ProducerStateEntry,
    StoredBatch,
    log_end_offset,
)
from model.idempotent.messages import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Batch,
    Epoch,
    Error,
    Partition,
    ProduceRequest,
    ProduceResponse,
    ProducerId,
    RecordNumber,
)
from model.idempotent.network import BrokenConnection, Link
from model.idempotent.world import World
from model.language import EMPTY_SET, Map, Set, fold

Ranks = Map[ProducerId, Map[Epoch, Epoch]]
"""The canonical epoch of each epoch, by producer id."""

SIZES = 3
"""The number of records after which the sizes of batches repeat: see `records_in`."""


# Logs and offsets


def is_replicated(leader: Leader, stored: StoredBatch) -> bool:
    """Whether all replicas have the batch."""
    return stored.base_offset + stored.batch.record_count <= leader.high_watermark


def is_remembered(k: Configuration, stored: StoredBatch, later: tuple[StoredBatch, ...]) -> bool:
    """Whether a replica that replays the log remembers the batch. `later` holds the later batches
    that are on every replica."""
    same = tuple(s for s in later if s.batch.producer_id == stored.batch.producer_id)
    return (
        stored.batch.producer_id != NO_PRODUCER_ID
        and len(same) < k.bounds.window
        and all(s.batch.producer_epoch == stored.batch.producer_epoch for s in same)
    )


def is_kept(k: Configuration, leader: Leader, i: int) -> bool:
    """Whether a rule can still read batch `i` of the log."""
    stored = leader.log[i]
    later = tuple(s for s in leader.log[i + 1 :] if is_replicated(leader, s))
    return (
        i + 1 == len(leader.log)
        or not is_replicated(leader, stored)
        or (k.bounds.replicas > 1 and is_remembered(k, stored, later))
    )


def shortened(k: Configuration, leader: Leader) -> tuple[StoredBatch, ...]:
    """The batches that are kept of the log, at their new offsets."""
    kept = tuple(stored for i, stored in enumerate(leader.log) if is_kept(k, leader, i))
    return tuple(
        StoredBatch(
            batch=replace(stored.batch, first_record=0),
            base_offset=sum(s.batch.record_count for s in kept[:i]),
        )
        for i, stored in enumerate(kept)
    )


def forgotten(k: Configuration, leader: Leader) -> int:
    """The number of records that are not kept."""
    return log_end_offset(leader.log) - log_end_offset(shortened(k, leader))


def moved(k: Configuration, leader: Leader, offset: int) -> int:
    """The canonical form of an offset."""
    return 0 if offset <= leader.high_watermark else offset - forgotten(k, leader)


def moved_memory(k: Configuration, leader: Leader, remembered: BatchMetadata) -> BatchMetadata:
    """A remembered batch at its new offset."""
    end_offset = moved(k, leader, remembered.last_offset + 1)
    return replace(remembered, last_offset=max(end_offset - 1, 0))


def short_leader(k: Configuration, leader: Leader) -> Leader:
    """A leader with a short log."""
    return replace(
        leader,
        log=shortened(k, leader),
        high_watermark=leader.high_watermark - forgotten(k, leader),
        producers=Map(
            tuple(
                replace(entry, batches=tuple(moved_memory(k, leader, m) for m in entry.batches))
                for entry in leader.producers.values()
            )
        ),
    )


def moved_answer(k: Configuration, leader: Leader, answer: ProduceResponse) -> ProduceResponse:
    """An answer on its way, without its base offset, which no rule reads."""
    return replace(
        answer,
        base_offset=0 if answer.error == Error.NONE else INVALID_OFFSET,
        required_offset=moved(k, leader, answer.required_offset),
    )


def moved_links(k: Configuration, w: World, links: Map[Partition, Link]) -> Map[Partition, Link]:
    """The links of a producer, with canonical offsets."""
    return Map(
        tuple(
            replace(
                link, answers=tuple(moved_answer(k, w.leaders[partition], a) for a in link.answers)
            )
            for partition, link in links.items()
        )
    )


def without_offset(entry: PartitionEntry) -> PartitionEntry:
    """The entry, which keeps only whether it has a last acknowledged offset: without deletions no
    rule reads more."""
    return replace(entry, last_acked_offset=min(entry.last_acked_offset, 0))


def without_offsets(client: Client) -> Client:
    """The client, with no offset other than 0."""
    return replace(
        client,
        partitions=Map(tuple(without_offset(entry) for entry in client.partitions.values())),
    )


def with_short_logs(k: Configuration, w: World) -> World:
    """The world after the first pass, over logs and offsets."""
    return replace(
        w,
        clients=Map(tuple(without_offsets(client) for client in w.clients.values())),
        leaders=Map(tuple(short_leader(k, leader) for leader in w.leaders.values())),
        links=Map(tuple(moved_links(k, w, links) for links in w.links.values())),
    )


# Epochs


def is_used_by(client: Client, producer_id: int, epoch: int) -> bool:
    """Whether the client, or a batch that it has not finished, has this epoch."""
    here = client.producer_id == producer_id and client.producer_epoch == epoch
    return here or any(
        (entry.producer_id == producer_id and entry.producer_epoch == epoch)
        or any(is_of(b.batch, producer_id, epoch) for b in entry.in_flight)
        or any(is_of(b.batch, producer_id, epoch) for b in entry.given_up)
        for entry in client.partitions.values()
    )


def is_known_to(leader: Leader, producer_id: int, epoch: int) -> bool:
    """Whether the leader remembers this epoch, or has a batch of it."""
    here = leader.producers[producer_id].producer_epoch == epoch
    return here or any(is_of(stored.batch, producer_id, epoch) for stored in leader.log)


def travels_on(link: Link, producer_id: int, epoch: int) -> bool:
    """Whether a batch of this epoch is on its way."""
    return any(is_of(r.batch, producer_id, epoch) for r in link.requests) or any(
        any(is_of(r.batch, producer_id, epoch) for r in connection.requests)
        for connection in link.broken
    )


def is_used(w: World, producer_id: int, epoch: int) -> bool:
    """Whether anything in the world has this epoch."""
    return (
        any(is_used_by(client, producer_id, epoch) for client in w.clients.values())
        or any(is_known_to(leader, producer_id, epoch) for leader in w.leaders.values())
        or any(
            any(travels_on(link, producer_id, epoch) for link in links.values())
            for links in w.links.values()
        )
    )


def ranks_of(k: Configuration, w: World, producer_id: int) -> Map[Epoch, Epoch]:
    """The canonical epochs of a producer id: for each epoch, the number of earlier ones in use."""
    used = tuple(is_used(w, producer_id, epoch) for epoch in range(k.bounds.max_epoch + 1))
    return Map(
        tuple(
            sum(1 if earlier else 0 for earlier in used[:epoch])
            for epoch in range(k.bounds.max_epoch + 1)
        )
    )


def all_ranks(k: Configuration, w: World) -> Ranks:
    """The canonical epochs of all producer ids."""
    return Map(tuple(ranks_of(k, w, producer_id) for producer_id in range(k.bounds.producer_ids)))


def rank(ranks: Ranks, producer_id: int, epoch: int) -> int:
    """The canonical epoch; NO_PRODUCER_EPOCH stays as it is."""
    return epoch if epoch == NO_PRODUCER_EPOCH else ranks[producer_id][epoch]


# Records


def is_named(entry: PartitionEntry, link: Link, number: int) -> bool:
    """Whether a batch in flight, or a message on its way, begins with this record or an earlier
    one."""
    return (
        any(b.batch.first_record <= number for b in entry.in_flight)
        or any(b.batch.first_record <= number for b in entry.given_up)
        or any(r.batch.first_record <= number for r in link.requests)
        or any(a.first_record <= number for a in link.answers)
        or any(any(r.batch.first_record <= number for r in b.requests) for b in link.broken)
    )


def finished(k: Configuration, entry: PartitionEntry, link: Link) -> int:
    """The number of records at the beginning that nothing names any more, in whole rounds of sizes;
    0 unless producers send for ever."""
    if not k.bounds.streams:
        return 0
    unnamed = sum(
        1
        for number in range(k.bounds.records)
        if number < entry.records_sent and not is_named(entry, link, number)
    )
    return unnamed - unnamed % SIZES


def with_record(k: Configuration, records: Set[RecordNumber], number: int) -> Set[RecordNumber]:
    """The set with one more record."""
    return records.plus(number)


def earlier_records(k: Configuration, gone: int, records: Set[RecordNumber]) -> Set[RecordNumber]:
    """The set without the first `gone` records, and the others renumbered."""
    if not k.bounds.streams:
        return records
    left = tuple(number for number in range(k.bounds.records) if number + gone in records)
    return fold(k, with_record, left, EMPTY_SET)


# Epochs and records, renumbered: `ranks` is what each epoch becomes, `gone` how many of the first
# records do not count


def renumbered_batch(ranks: Ranks, gone: int, batch: Batch) -> Batch:
    """The batch with its canonical epoch and record number."""
    epoch = rank(ranks, batch.producer_id, batch.producer_epoch)
    return replace(batch, producer_epoch=epoch, first_record=batch.first_record - gone)


def renumbered_requests(
    ranks: Ranks, gone: int, requests: tuple[ProduceRequest, ...]
) -> tuple[ProduceRequest, ...]:
    """The requests, renumbered."""
    return tuple(ProduceRequest(batch=renumbered_batch(ranks, gone, r.batch)) for r in requests)


def renumbered_link(ranks: Ranks, gone: int, link: Link) -> Link:
    """The link with its open and broken connections, renumbered."""
    return Link(
        requests=renumbered_requests(ranks, gone, link.requests),
        answers=tuple(replace(a, first_record=a.first_record - gone) for a in link.answers),
        broken=tuple(
            BrokenConnection(requests=renumbered_requests(ranks, gone, b.requests))
            for b in link.broken
        ),
    )


def renumbered_links(
    k: Configuration, ranks: Ranks, client: Client, links: Map[Partition, Link]
) -> Map[Partition, Link]:
    """The links of a producer, renumbered."""
    return Map(
        tuple(
            renumbered_link(ranks, finished(k, client.partitions[partition], link), link)
            for partition, link in links.items()
        )
    )


def renumbered_batches(
    ranks: Ranks, gone: int, batches: tuple[InFlightBatch, ...]
) -> tuple[InFlightBatch, ...]:
    """The batches of a client, renumbered."""
    return tuple(replace(b, batch=renumbered_batch(ranks, gone, b.batch)) for b in batches)


def renumbered_entry(
    k: Configuration, ranks: Ranks, gone: int, entry: PartitionEntry
) -> PartitionEntry:
    """The entry of a partition, renumbered."""
    return replace(
        entry,
        producer_epoch=rank(ranks, entry.producer_id, entry.producer_epoch),
        in_flight=renumbered_batches(ranks, gone, entry.in_flight),
        given_up=renumbered_batches(ranks, gone, entry.given_up),
        records_sent=entry.records_sent - gone,
        acknowledged=earlier_records(k, gone, entry.acknowledged),
        failed=earlier_records(k, gone, entry.failed),
    )


def renumbered_client(
    k: Configuration, ranks: Ranks, client: Client, links: Map[Partition, Link]
) -> Client:
    """The client, renumbered; its partitions begin with the oldest records that are still named."""
    return replace(
        client,
        producer_epoch=rank(ranks, client.producer_id, client.producer_epoch),
        partitions=Map(
            tuple(
                renumbered_entry(k, ranks, finished(k, entry, links[partition]), entry)
                for partition, entry in client.partitions.items()
            )
        ),
    )


def ranked_state(ranks: Ranks, leader: Leader, producer_id: int) -> ProducerStateEntry:
    """The leader's state of a producer id, with the canonical epoch."""
    entry = leader.producers[producer_id]
    return replace(entry, producer_epoch=rank(ranks, producer_id, entry.producer_epoch))


def ranked_leader(k: Configuration, ranks: Ranks, leader: Leader) -> Leader:
    """The leader, with canonical epochs in its log and in its memory."""
    return replace(
        leader,
        log=tuple(replace(s, batch=renumbered_batch(ranks, 0, s.batch)) for s in leader.log),
        producers=Map(
            tuple(
                ranked_state(ranks, leader, producer_id)
                for producer_id in range(k.bounds.producer_ids)
            )
        ),
    )


def with_first_numbers(k: Configuration, w: World) -> World:
    """The world after the second pass, over epochs and record numbers."""
    ranks = all_ranks(k, w)
    return replace(
        w,
        clients=Map(
            tuple(
                renumbered_client(k, ranks, client, w.links[p]) for p, client in w.clients.items()
            )
        ),
        leaders=Map(tuple(ranked_leader(k, ranks, leader) for leader in w.leaders.values())),
        links=Map(
            tuple(renumbered_links(k, ranks, w.clients[p], links) for p, links in w.links.items())
        ),
    )


# The whole


def has_normal_form(k: Configuration) -> bool:
    """Whether the scope lacks the events that read what the canonical form forgets."""
    faults = k.bounds.faults
    return faults.losses == 0 and faults.deletions == 0 and faults.crashes == 0


def normal(k: Configuration, w: World) -> World:
    """The canonical form of the world."""
    return with_first_numbers(k, with_short_logs(k, w))
