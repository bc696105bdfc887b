"""Runs that never end, in finitely many worlds: the normal form of a world.

Theory of operation. In an `endless` scope trouble never stops, so that epochs, offsets and the log
grow for ever; where it `streams`, records too. Four rules number again what no rule of the
protocol can tell apart. A world and its normal form allow the same events and lead to worlds of
one normal form again.

1. Epochs of a producer id are compared with each other, and the next is later than all: they
   become 0, 1, 2, ... in their order.
2. A log keeps its last batch, what is not on every replica, and what a replica that replays it
   remembers: of each producer id the newest batches of its last epoch.
3. Offsets count what the log keeps. Those that the high watermark has passed are 0: it has passed
   them whatever comes.
4. Record numbers begin with the oldest that something on its way or in flight still names, less
   what keeps the sizes of the batches to come. No broker reads them: in a log they are 0.

This is so while the high watermark never falls and nothing is deleted: a scope with losses or
deletions has no normal form.
"""

from __future__ import annotations

from dataclasses import replace

from model.client import Client, PartitionEntry, is_of
from model.language import EMPTY_SET, Map, Set, fold
from model.leader import BatchMetadata, Leader, ProducerStateEntry, StoredBatch, log_end_offset
from model.messages import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Batch,
    Epoch,
    Partition,
    ProduceRequest,
    ProduceResponse,
    ProducerId,
    RecordNumber,
)
from model.network import BrokenConnection, Link
from model.setting import Setting
from model.world import World

Ranks = Map[ProducerId, Map[Epoch, Epoch]]
"""What each epoch of each producer id becomes."""

SIZES = 3
"""After so many records, batches have the same sizes again: see `records_in`."""


# Epochs


def is_used(w: World, producer_id: int, epoch: int) -> bool:
    """Something in the world is of this epoch."""
    return (
        any(is_used_by(client, producer_id, epoch) for client in w.clients.values())
        or any(is_known_to(leader, producer_id, epoch) for leader in w.leaders.values())
        or any(
            any(travels_on(link, producer_id, epoch) for link in links.values())
            for links in w.links.values()
        )
    )


def is_used_by(client: Client, producer_id: int, epoch: int) -> bool:
    """The client is there, or a batch that it has not finished."""
    here = client.producer_id == producer_id and client.producer_epoch == epoch
    return here or any(
        (entry.producer_id == producer_id and entry.producer_epoch == epoch)
        or any(is_of(b.batch, producer_id, epoch) for b in entry.in_flight)
        or any(is_of(batch, producer_id, epoch) for batch in entry.given_up)
        for entry in client.partitions.values()
    )


def is_known_to(leader: Leader, producer_id: int, epoch: int) -> bool:
    """The leader remembers it, or has a batch of it."""
    here = leader.producers[producer_id].producer_epoch == epoch
    return here or any(is_of(stored.batch, producer_id, epoch) for stored in leader.log)


def travels_on(link: Link, producer_id: int, epoch: int) -> bool:
    """A batch of it is on its way."""
    return any(is_of(r.batch, producer_id, epoch) for r in link.requests) or any(
        any(is_of(r.batch, producer_id, epoch) for r in connection.requests)
        for connection in link.broken
    )


def ranks_of(k: Setting, w: World, producer_id: int) -> Map[Epoch, Epoch]:
    """For each epoch how many earlier ones are used."""
    used = tuple(is_used(w, producer_id, epoch) for epoch in range(k.layout.max_epoch + 1))
    return Map(
        tuple(
            sum(1 if earlier else 0 for earlier in used[:epoch])
            for epoch in range(k.layout.max_epoch + 1)
        )
    )


def ranked(ranks: Ranks, producer_id: int, epoch: int) -> int:
    """What an epoch becomes; none stays none."""
    return epoch if epoch == NO_PRODUCER_EPOCH else ranks[producer_id][epoch]


def ranked_batch(ranks: Ranks, batch: Batch) -> Batch:
    """The batch at its epoch's rank."""
    epoch = ranked(ranks, batch.producer_id, batch.producer_epoch)
    return replace(batch, producer_epoch=epoch)


# Logs


def is_remembered(k: Setting, stored: StoredBatch, later: tuple[StoredBatch, ...]) -> bool:
    """Who replays the log to its end knows the batch; `later` is replicated too."""
    same = tuple(s for s in later if s.batch.producer_id == stored.batch.producer_id)
    return (
        stored.batch.producer_id != NO_PRODUCER_ID
        and len(same) < k.layout.window
        and all(s.batch.producer_epoch == stored.batch.producer_epoch for s in same)
    )


def is_replicated(leader: Leader, stored: StoredBatch) -> bool:
    """All replicas have the batch."""
    return stored.base_offset + stored.batch.record_count <= leader.high_watermark


def is_kept(k: Setting, leader: Leader, i: int) -> bool:
    """Some rule can still read batch `i` of the log."""
    stored = leader.log[i]
    later = tuple(s for s in leader.log[i + 1 :] if is_replicated(leader, s))
    return (
        i + 1 == len(leader.log)
        or not is_replicated(leader, stored)
        or (k.layout.replicas > 1 and is_remembered(k, stored, later))
    )


def shortened(k: Setting, leader: Leader) -> tuple[StoredBatch, ...]:
    """The log with what is kept of it, at the offsets that this leaves."""
    kept = tuple(stored for i, stored in enumerate(leader.log) if is_kept(k, leader, i))
    return tuple(
        replace(stored, base_offset=sum(s.batch.record_count for s in kept[:i]))
        for i, stored in enumerate(kept)
    )


def moved(leader: Leader, forgotten: int, offset: int) -> int:
    """An offset after `forgotten` records have gone from the log."""
    return 0 if offset <= leader.high_watermark else offset - forgotten


# Records


def is_named(entry: PartitionEntry, link: Link, number: int) -> bool:
    """A batch in flight or on its way begins with this record, or with an earlier one."""
    return (
        any(b.batch.first_record <= number for b in entry.in_flight)
        or any(batch.first_record <= number for batch in entry.given_up)
        or any(r.batch.first_record <= number for r in link.requests)
        or any(a.first_record <= number for a in link.answers)
        or any(any(r.batch.first_record <= number for r in b.requests) for b in link.broken)
    )


def finished(k: Setting, entry: PartitionEntry, link: Link) -> int:
    """How many of the first records nothing names any more, in whole rounds of sizes."""
    unnamed = sum(
        1
        for number in range(k.layout.records)
        if number < entry.records_sent and not is_named(entry, link, number)
    )
    return unnamed - unnamed % SIZES if k.layout.streams else 0


def later_batch(ranks: Ranks, gone: int, batch: Batch) -> Batch:
    """A batch at its epoch's rank, `gone` records earlier."""
    ranked_now = ranked_batch(ranks, batch)
    return replace(ranked_now, first_record=batch.first_record - gone)


def with_record(k: Setting, records: Set[RecordNumber], number: int) -> Set[RecordNumber]:
    """The set with one more."""
    return records.plus(number)


def renumbered(k: Setting, gone: int, records: Set[RecordNumber]) -> Set[RecordNumber]:
    """A set of records without the first `gone`."""
    left = tuple(number for number in range(k.layout.records) if number + gone in records)
    return fold(k, with_record, left, EMPTY_SET)


# The whole


def normal_entry(k: Setting, ranks: Ranks, entry: PartitionEntry, link: Link) -> PartitionEntry:
    """What a client knows of a partition."""
    gone = finished(k, entry, link)
    return replace(
        entry,
        producer_epoch=ranked(ranks, entry.producer_id, entry.producer_epoch),
        last_acked_offset=min(entry.last_acked_offset, 0),
        in_flight=tuple(
            replace(b, batch=later_batch(ranks, gone, b.batch)) for b in entry.in_flight
        ),
        given_up=tuple(later_batch(ranks, gone, batch) for batch in entry.given_up),
        records_sent=entry.records_sent - gone,
        acknowledged=renumbered(k, gone, entry.acknowledged),
        failed=renumbered(k, gone, entry.failed),
    )


def normal_client(k: Setting, ranks: Ranks, client: Client, links: Map[Partition, Link]) -> Client:
    """A client at its epoch's rank."""
    return replace(
        client,
        producer_epoch=ranked(ranks, client.producer_id, client.producer_epoch),
        partitions=Map(
            tuple(
                normal_entry(k, ranks, entry, links[partition])
                for partition, entry in client.partitions.items()
            )
        ),
    )


def normal_memory(leader: Leader, forgotten: int, remembered: BatchMetadata) -> BatchMetadata:
    """A remembered batch at its new offset."""
    end_offset = moved(leader, forgotten, remembered.last_offset + 1)
    return replace(remembered, last_offset=max(end_offset - 1, 0))


def normal_state(
    ranks: Ranks, leader: Leader, forgotten: int, producer_id: int
) -> ProducerStateEntry:
    """What a leader knows of a producer id."""
    entry = leader.producers[producer_id]
    return ProducerStateEntry(
        producer_epoch=ranked(ranks, producer_id, entry.producer_epoch),
        batches=tuple(normal_memory(leader, forgotten, m) for m in entry.batches),
    )


def normal_leader(k: Setting, ranks: Ranks, leader: Leader) -> Leader:
    """A leader with a short log."""
    log = shortened(k, leader)
    forgotten = log_end_offset(leader.log) - log_end_offset(log)
    return replace(
        leader,
        log=tuple(replace(s, batch=later_batch(ranks, s.batch.first_record, s.batch)) for s in log),
        high_watermark=leader.high_watermark - forgotten,
        producers=Map(
            tuple(
                normal_state(ranks, leader, forgotten, producer_id)
                for producer_id in range(k.layout.producer_ids)
            )
        ),
    )


def normal_request(ranks: Ranks, gone: int, request: ProduceRequest) -> ProduceRequest:
    """A request on its way."""
    return ProduceRequest(batch=later_batch(ranks, gone, request.batch))


def normal_answer(
    leader: Leader, forgotten: int, gone: int, answer: ProduceResponse
) -> ProduceResponse:
    """An answer on its way; no rule reads where the batch is."""
    return replace(
        answer,
        first_record=answer.first_record - gone,
        base_offset=INVALID_OFFSET if answer.base_offset == INVALID_OFFSET else 0,
        required_offset=moved(leader, forgotten, answer.required_offset),
    )


def normal_link(
    k: Setting, ranks: Ranks, entry: PartitionEntry, leader: Leader, link: Link
) -> Link:
    """What travels between a producer and a leader."""
    forgotten = log_end_offset(leader.log) - log_end_offset(shortened(k, leader))
    gone = finished(k, entry, link)
    return Link(
        requests=tuple(normal_request(ranks, gone, r) for r in link.requests),
        answers=tuple(normal_answer(leader, forgotten, gone, a) for a in link.answers),
        broken=tuple(
            BrokenConnection(requests=tuple(normal_request(ranks, gone, r) for r in b.requests))
            for b in link.broken
        ),
    )


def normal_links(
    k: Setting, ranks: Ranks, w: World, client: Client, links: Map[Partition, Link]
) -> Map[Partition, Link]:
    """All that travels to and from a producer."""
    return Map(
        tuple(
            normal_link(k, ranks, client.partitions[partition], w.leaders[partition], link)
            for partition, link in links.items()
        )
    )


def normal(k: Setting, w: World) -> World:
    """The world that stands for all those that are like this one."""
    ranks = Map(tuple(ranks_of(k, w, producer_id) for producer_id in range(k.layout.producer_ids)))
    return replace(
        w,
        clients=Map(
            tuple(
                normal_client(k, ranks, client, w.links[producer])
                for producer, client in w.clients.items()
            )
        ),
        leaders=Map(tuple(normal_leader(k, ranks, leader) for leader in w.leaders.values())),
        links=Map(
            tuple(
                normal_links(k, ranks, w, w.clients[producer], links)
                for producer, links in w.links.items()
            )
        ),
    )
