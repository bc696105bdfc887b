"""The whole: producers, leaders, the connections between them, and every event that can happen.

Each rule is one event. It moves one actor by that actor's own rule and carries messages; what an
actor does is never decided here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.idempotent import client as producer_rules
from model.idempotent import leader as leader_rules
from model.idempotent import network
from model.idempotent import recovery as recovery_rules
from model.idempotent import responses as answer_rules
from model.idempotent.client import Client, InFlight
from model.idempotent.configuration import Acks, Configuration, Expiry
from model.idempotent.leader import Leader, log_end_offset
from model.idempotent.messages import (
    Error,
    Flag,
    Partition,
    Producer,
    ProduceRequest,
    ProduceResponse,
    ProducerId,
    StoredCount,
)
from model.idempotent.network import SILENT_LINK, Link
from model.language import Map, Range, Step, record, require, rule, within_scope

Survivors = Annotated[int, Range(0, "in_flight")]
BrokenIndex = Annotated[int, Range(0, "last_broken")]


@record
class Spent:
    """How often each event that a budget limits has happened."""

    breaks: Annotated[int, Range(0, "max_breaks")]
    refusals: Annotated[int, Range(0, "max_refusals")]
    restarts: Annotated[int, Range(0, "max_restarts")]
    failovers: Annotated[int, Range(0, "max_failovers")]
    losses: Annotated[int, Range(0, "max_losses")]
    crashes: Annotated[int, Range(0, "max_crashes")]
    expiries: Annotated[int, Range(0, "max_expiries")]
    deletions: Annotated[int, Range(0, "max_deletions")]
    late_errors: Annotated[int, Range(0, "max_late_errors")]
    timeouts: Annotated[int, Range(0, "max_timeouts")]


@record
class World:
    """All actors and all that travels between them. Producer ids are given out in their order:
    that none is given twice is what `model.producer_ids` guarantees."""

    clients: Map[Producer, Client]
    leaders: Map[Partition, Leader]
    links: Map[Producer, Map[Partition, Link]]
    given_producer_ids: Annotated[int, Range(0, "producer_ids")]
    spent: Spent


def allows(most: int, budget: int, spent: int) -> bool:
    """Whether the scope lets an event happen once more. `most` is the bounds's."""
    return most > 0 and spent < budget


def spend(k: Configuration, spent: int) -> int:
    """The event has happened once more; an endless scope does not count."""
    return spent if k.bounds.endless else spent + 1


def records_in(k: Configuration, first_record: int) -> int:
    """How many records the application's next batch has: 1, 2, 1, 2, ..."""
    return 2 if first_record % 3 == 1 else 1


def with_link(w: World, producer: Producer, partition: Partition, link: Link) -> World:
    """The world with one link replaced."""
    return replace(w, links=w.links.put(producer, w.links[producer].put(partition, link)))


def can_append(k: Configuration, leader: Leader) -> bool:
    """The log has room in this scope."""
    return len(leader.log) < k.bounds.log


def nothing_awaits_replication(leader: Leader, link: Link) -> bool:
    """A broker reads a connection's next request once it has answered the one before."""
    return all(a.required_offset <= leader.high_watermark for a in link.answers)


# Producers


def sent(
    w: World, producer: Producer, partition: Partition, step: Step[Client, ProduceRequest]
) -> World:
    """The producer has moved, and its request is on its way."""
    link = network.send(w.links[producer][partition], step.sends[0])
    moved = replace(w, clients=w.clients.put(producer, step.actor))
    return with_link(moved, producer, partition, link)


def may_write(k: Configuration, link: Link) -> bool:
    """Without answers nothing but the scope limits what is on its way."""
    return k.variant.acks != Acks.NONE or len(link.requests) < k.bounds.in_flight


@rule
def client_sends(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The application's next batch goes out."""
    client = w.clients[producer]
    records_sent = client.partitions[partition].records_sent
    record_count = records_in(k, records_sent)
    within_scope(records_sent + record_count <= k.budgets.records)
    within_scope(may_write(k, w.links[producer][partition]))
    step = producer_rules.send_new(k, client, partition, record_count)
    return sent(w, producer, partition, step)


@rule
def client_retries(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The first batch that waits goes out again."""
    step = producer_rules.send_again(k, w.clients[producer], partition)
    return sent(w, producer, partition, step)


@rule
def client_bumps_epoch(k: Configuration, w: World, producer: Producer) -> World:
    """The producer takes the next epoch by itself."""
    bumped = recovery_rules.bump_epoch(k, w.clients[producer])
    return replace(w, clients=w.clients.put(producer, bumped))


@rule
def client_receives_producer_id(k: Configuration, w: World, producer: Producer) -> World:
    """The answer to InitProducerId: a producer id that nobody had before."""
    require(k.bounds.without_producer_id)
    within_scope(w.given_producer_ids < k.bounds.producer_ids)
    client = w.clients[producer]
    begun = recovery_rules.receive_producer_id(k, client, w.given_producer_ids)
    clients = w.clients.put(producer, begun)
    return replace(w, clients=clients, given_producer_ids=w.given_producer_ids + 1)


def oldest(k: Configuration, client: Client, partition: Partition) -> InFlight:
    """The oldest batch whose time can be up, if any."""
    in_flight = client.partitions[partition].in_flight
    if k.variant.expiry == Expiry.QUEUED_ONLY:
        return tuple(b for b in in_flight if not b.outstanding)[:1]
    return in_flight[:1]


@rule
def client_gives_up(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The time of the oldest batch is up."""
    within_scope(allows(k.bounds.max_timeouts, k.budgets.timeouts, w.spent.timeouts))
    client = w.clients[producer]
    in_flight = oldest(k, client, partition)
    require(len(in_flight) > 0)
    first_record = in_flight[0].batch.first_record
    told = recovery_rules.expire_batch(k, client, partition, first_record)
    spent = replace(w.spent, timeouts=spend(k, w.spent.timeouts))
    return replace(w, clients=w.clients.put(producer, told), spent=spent)


@rule
def client_resolves(k: Configuration, w: World, producer: Producer) -> World:
    """All in flight has ended after a batch of unknown outcome was given up."""
    require(k.bounds.max_timeouts > 0)
    resolved = recovery_rules.resolve_sequences(k, w.clients[producer])
    return replace(w, clients=w.clients.put(producer, resolved))


def answer_heard(
    k: Configuration, w: World, producer: Producer, partition: Partition, overdue: Flag
) -> World:
    """The producer has the next answer."""
    link = w.links[producer][partition]
    client = w.clients[producer]
    moved = answer_rules.on_answer(k, client, partition, link.answers[0], overdue)
    clients = w.clients.put(producer, moved)
    return with_link(replace(w, clients=clients), producer, partition, network.received(link))


@rule
def answer_arrives(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The next answer reaches its producer, once the high watermark lets it go."""
    link = w.links[producer][partition]
    require(len(link.answers) > 0)
    arriving = link.answers[0]
    require(arriving.required_offset <= w.leaders[partition].high_watermark)
    return answer_heard(k, w, producer, partition, 0)


@rule
def answer_arrives_late(
    k: Configuration, w: World, producer: Producer, partition: Partition
) -> World:
    """The next answer is an error, and the time of its batch, the oldest, is up."""
    link = w.links[producer][partition]
    in_flight = w.clients[producer].partitions[partition].in_flight
    within_scope(allows(k.bounds.max_timeouts, k.budgets.timeouts, w.spent.timeouts))
    require(len(link.answers) > 0)
    arriving = link.answers[0]
    require(arriving.required_offset <= w.leaders[partition].high_watermark)
    require(arriving.error != Error.NONE)
    require(len(in_flight) > 0)
    require(in_flight[0].batch.first_record == arriving.first_record)
    spent = replace(w.spent, timeouts=spend(k, w.spent.timeouts))
    return answer_heard(k, replace(w, spent=spent), producer, partition, 1)


# Leaders


def handled(
    k: Configuration,
    w: World,
    producer: Producer,
    partition: Partition,
    step: Step[Leader, ProduceResponse],
) -> World:
    """The leader has handled the next request of the open connection; acks=0 asks no answer."""
    answers = step.sends if k.variant.acks != Acks.NONE else ()
    link = network.answered(w.links[producer][partition], answers)
    moved = replace(w, leaders=w.leaders.put(partition, step.actor))
    return with_link(moved, producer, partition, link)


@rule
def request_arrives(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The leader handles the next request of the open connection."""
    leader = w.leaders[partition]
    link = w.links[producer][partition]
    require(len(link.requests) > 0)
    require(nothing_awaits_replication(leader, link))
    within_scope(can_append(k, leader))
    step = leader_rules.on_produce(k, leader, link.requests[0])
    return handled(k, w, producer, partition, step)


@rule
def request_is_refused(
    k: Configuration, w: World, producer: Producer, partition: Partition
) -> World:
    """Too few replicas are in sync when the next request arrives."""
    leader = w.leaders[partition]
    link = w.links[producer][partition]
    require(len(link.requests) > 0)
    require(nothing_awaits_replication(leader, link))
    require(k.variant.acks == Acks.ALL)
    within_scope(allows(k.bounds.max_refusals, k.budgets.refusals, w.spent.refusals))
    step = leader_rules.on_produce_without_replicas(k, leader, link.requests[0])
    spent = replace(w.spent, refusals=spend(k, w.spent.refusals))
    return handled(k, replace(w, spent=spent), producer, partition, step)


@rule
def request_outlives_replicas(
    k: Configuration, w: World, producer: Producer, partition: Partition, timed_out: Flag
) -> World:
    """The next request's batch is stored, and then its replicas are lost, or slow."""
    leader = w.leaders[partition]
    link = w.links[producer][partition]
    require(len(link.requests) > 0)
    require(nothing_awaits_replication(leader, link))
    require(k.variant.acks == Acks.ALL)
    within_scope(can_append(k, leader))
    within_scope(allows(k.bounds.max_late_errors, k.budgets.late_errors, w.spent.late_errors))
    step = leader_rules.on_produce_then_unreplicated(k, leader, link.requests[0], timed_out)
    require(step.sends[0].error == leader_rules.late_error(timed_out))
    spent = replace(w.spent, late_errors=spend(k, w.spent.late_errors))
    return handled(k, replace(w, spent=spent), producer, partition, step)


@rule
def late_request_arrives(
    k: Configuration, w: World, producer: Producer, partition: Partition, connection: BrokenIndex
) -> World:
    """The leader handles the next request of a broken connection; its answer is lost."""
    leader = w.leaders[partition]
    link = w.links[producer][partition]
    require(connection < len(link.broken))
    within_scope(can_append(k, leader))
    request = link.broken[connection].requests[0]
    step = leader_rules.on_produce(k, leader, request)
    moved = replace(w, leaders=w.leaders.put(partition, step.actor))
    return with_link(moved, producer, partition, network.arrived_late(link, connection))


@rule
def high_watermark_advances(k: Configuration, w: World, partition: Partition) -> World:
    """The followers catch up."""
    leader = w.leaders[partition]
    require(k.bounds.replicas > 1)
    require(leader.high_watermark < log_end_offset(leader.log))
    caught_up = leader_rules.advance_high_watermark(k, leader)
    return replace(w, leaders=w.leaders.put(partition, caught_up))


@rule
def producer_id_expires(
    k: Configuration, w: World, partition: Partition, producer_id: ProducerId
) -> World:
    """The leader forgets a producer id that it has not heard of for long."""
    within_scope(allows(k.bounds.max_expiries, k.budgets.expiries, w.spent.expiries))
    forgetful = leader_rules.expire_producer(k, w.leaders[partition], producer_id)
    spent = replace(w.spent, expiries=spend(k, w.spent.expiries))
    return replace(w, leaders=w.leaders.put(partition, forgetful), spent=spent)


@rule
def records_are_deleted(
    k: Configuration, w: World, partition: Partition, deleted: StoredCount
) -> World:
    """The head of the log goes, by retention or by request."""
    require(deleted <= len(w.leaders[partition].log))
    within_scope(allows(k.bounds.max_deletions, k.budgets.deletions, w.spent.deletions))
    shorter = leader_rules.delete_records(k, w.leaders[partition], deleted)
    spent = replace(w.spent, deletions=spend(k, w.spent.deletions))
    return replace(w, leaders=w.leaders.put(partition, shorter), spent=spent)


# What goes wrong


def disconnected(
    k: Configuration, w: World, producer: Producer, partition: Partition, link: Link, overdue: int
) -> World:
    """The producer sees its connection break; `link` is what is left of it."""
    moved = answer_rules.on_disconnect(k, w.clients[producer], partition, overdue)
    clients = w.clients.put(producer, moved)
    return with_link(replace(w, clients=clients), producer, partition, link)


@rule
def connection_breaks(
    k: Configuration, w: World, producer: Producer, partition: Partition, survivors: Survivors
) -> World:
    """An open connection breaks, or its client gives it up; `survivors` requests still arrive."""
    link = w.links[producer][partition]
    require(not network.is_idle(link))
    require(survivors <= len(link.requests))
    within_scope(survivors == 0 or len(link.broken) < k.bounds.broken_connections)
    within_scope(allows(k.bounds.max_breaks, k.budgets.breaks, w.spent.breaks))
    spent = replace(w.spent, breaks=spend(k, w.spent.breaks))
    left = network.broken(link, survivors)
    return disconnected(k, replace(w, spent=spent), producer, partition, left, 0)


@rule
def connection_breaks_late(
    k: Configuration, w: World, producer: Producer, partition: Partition, survivors: Survivors
) -> World:
    """An open connection breaks when the time of the oldest batch, which awaits its answer, is
    up."""
    link = w.links[producer][partition]
    in_flight = w.clients[producer].partitions[partition].in_flight
    within_scope(allows(k.bounds.max_timeouts, k.budgets.timeouts, w.spent.timeouts))
    require(len(in_flight) > 0)
    require(in_flight[0].outstanding)
    require(survivors <= len(link.requests))
    within_scope(survivors == 0 or len(link.broken) < k.bounds.broken_connections)
    within_scope(allows(k.bounds.max_breaks, k.budgets.breaks, w.spent.breaks))
    spent = replace(w.spent, breaks=spend(k, w.spent.breaks), timeouts=spend(k, w.spent.timeouts))
    left = network.broken(link, survivors)
    return disconnected(k, replace(w, spent=spent), producer, partition, left, 1)


def hung_up(k: Configuration, client: Client, partition: Partition) -> Client:
    """The producer's side when the broker that leads `partition` is gone."""
    return answer_rules.on_disconnect(k, client, partition, 0)


def without_connections(k: Configuration, w: World, partition: Partition, leader: Leader) -> World:
    """The broker that led `partition` is gone, with all its connections; `leader` comes next."""
    return replace(
        w,
        clients=Map(tuple(hung_up(k, client, partition) for client in w.clients.values())),
        leaders=w.leaders.put(partition, leader),
        links=Map(tuple(links.put(partition, SILENT_LINK) for links in w.links.values())),
    )


@rule
def leader_restarts(k: Configuration, w: World, partition: Partition) -> World:
    """The leader's broker stops and comes back."""
    within_scope(allows(k.bounds.max_restarts, k.budgets.restarts, w.spent.restarts))
    spent = replace(w.spent, restarts=spend(k, w.spent.restarts))
    restarted = leader_rules.restart(k, w.leaders[partition])
    return without_connections(k, replace(w, spent=spent), partition, restarted)


@rule
def leader_crashes(k: Configuration, w: World, partition: Partition, covered: StoredCount) -> World:
    """The leader's broker is killed and comes back; its last snapshot has `covered` batches."""
    require(covered <= len(w.leaders[partition].log))
    within_scope(allows(k.bounds.max_crashes, k.budgets.crashes, w.spent.crashes))
    spent = replace(w.spent, crashes=spend(k, w.spent.crashes))
    recovered = leader_rules.recover(k, w.leaders[partition], covered)
    return without_connections(k, replace(w, spent=spent), partition, recovered)


@rule
def leader_fails_over(k: Configuration, w: World, partition: Partition, kept: StoredCount) -> World:
    """A replica leads that has the first `kept` batches, all below the high watermark in them."""
    leader = w.leaders[partition]
    require(k.bounds.replicas > 1)
    require(kept <= len(leader.log))
    require(log_end_offset(leader.log[:kept]) >= leader.high_watermark)
    within_scope(allows(k.bounds.max_failovers, k.budgets.failovers, w.spent.failovers))
    spent = replace(w.spent, failovers=spend(k, w.spent.failovers))
    elected = leader_rules.fail_over(k, leader, kept)
    return without_connections(k, replace(w, spent=spent), partition, elected)


@rule
def leader_fails_over_uncleanly(
    k: Configuration, w: World, partition: Partition, kept: StoredCount
) -> World:
    """A replica leads that was not in sync: it lacks what was below the high watermark."""
    leader = w.leaders[partition]
    require(k.bounds.replicas > 1)
    require(kept <= len(leader.log))
    require(log_end_offset(leader.log[:kept]) < leader.high_watermark)
    require(log_end_offset(leader.log[:kept]) >= leader.log_start_offset)
    within_scope(allows(k.bounds.max_losses, k.budgets.losses, w.spent.losses))
    spent = replace(w.spent, losses=spend(k, w.spent.losses))
    elected = leader_rules.fail_over(k, leader, kept)
    return without_connections(k, replace(w, spent=spent), partition, elected)
