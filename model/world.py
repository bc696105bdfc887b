"""The whole: producers, leaders, the connections between them, and every event that can happen.

Each rule is one event. It moves one actor by that actor's own rule and carries messages; what an
actor does is never decided here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model import client as producer_rules
from model import leader as leader_rules
from model import network
from model.client import Client
from model.language import Map, Range, Step, record, require, rule, within_scope
from model.leader import Leader, log_end_offset
from model.messages import Partition, Producer, ProduceRequest
from model.network import SILENT_LINK, Link
from model.setting import Setting

Survivors = Annotated[int, Range(0, "in_flight")]
Kept = Annotated[int, Range(0, "log")]
BrokenIndex = Annotated[int, Range(0, "last_broken")]


@record
class Spent:
    """How often each event that a budget limits has happened."""

    breaks: Annotated[int, Range(0, "max_breaks")]
    refusals: Annotated[int, Range(0, "max_refusals")]
    restarts: Annotated[int, Range(0, "max_restarts")]
    failovers: Annotated[int, Range(0, "max_failovers")]


@record
class World:
    """All actors and all that travels between them."""

    clients: Map[Producer, Client]
    leaders: Map[Partition, Leader]
    links: Map[Producer, Map[Partition, Link]]
    spent: Spent


def with_link(w: World, producer: Producer, partition: Partition, link: Link) -> World:
    """The world with one link replaced."""
    return replace(w, links=w.links.put(producer, w.links[producer].put(partition, link)))


def can_append(k: Setting, leader: Leader) -> bool:
    """The log has room in this scope."""
    return len(leader.log) < k.layout.log


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


@rule
def client_sends(k: Setting, w: World, producer: Producer, partition: Partition) -> World:
    """The application's next batch goes out."""
    step = producer_rules.send_new(k, w.clients[producer], partition)
    return sent(w, producer, partition, step)


@rule
def client_retries(k: Setting, w: World, producer: Producer, partition: Partition) -> World:
    """The first batch that waits goes out again."""
    step = producer_rules.send_again(k, w.clients[producer], partition)
    return sent(w, producer, partition, step)


@rule
def client_bumps_epoch(k: Setting, w: World, producer: Producer) -> World:
    """The producer takes the next epoch by itself."""
    bumped = producer_rules.bump_epoch(k, w.clients[producer])
    return replace(w, clients=w.clients.put(producer, bumped))


@rule
def answer_arrives(k: Setting, w: World, producer: Producer, partition: Partition) -> World:
    """The next answer reaches its producer, once the high watermark lets it go."""
    link = w.links[producer][partition]
    require(len(link.answers) > 0)
    arriving = link.answers[0]
    require(arriving.required_offset <= w.leaders[partition].high_watermark)
    moved = producer_rules.on_answer(k, w.clients[producer], partition, arriving)
    return with_link(
        replace(w, clients=w.clients.put(producer, moved)),
        producer,
        partition,
        network.received(link),
    )


# Leaders


@rule
def request_arrives(k: Setting, w: World, producer: Producer, partition: Partition) -> World:
    """The leader handles the next request of the open connection."""
    leader = w.leaders[partition]
    link = w.links[producer][partition]
    require(len(link.requests) > 0)
    require(nothing_awaits_replication(leader, link))
    within_scope(can_append(k, leader))
    step = leader_rules.on_produce(k, leader, link.requests[0])
    moved = replace(w, leaders=w.leaders.put(partition, step.actor))
    return with_link(moved, producer, partition, network.answered(link, step.sends))


@rule
def request_is_refused(k: Setting, w: World, producer: Producer, partition: Partition) -> World:
    """Too few replicas are in sync when the next request arrives."""
    leader = w.leaders[partition]
    link = w.links[producer][partition]
    require(len(link.requests) > 0)
    require(nothing_awaits_replication(leader, link))
    within_scope(w.spent.refusals < k.budgets.refusals)
    step = leader_rules.on_produce_without_replicas(k, leader, link.requests[0])
    spent = replace(w.spent, refusals=w.spent.refusals + 1)
    moved = replace(w, leaders=w.leaders.put(partition, step.actor), spent=spent)
    return with_link(moved, producer, partition, network.answered(link, step.sends))


@rule
def late_request_arrives(
    k: Setting, w: World, producer: Producer, partition: Partition, connection: BrokenIndex
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
def high_watermark_advances(k: Setting, w: World, partition: Partition) -> World:
    """The followers catch up."""
    leader = w.leaders[partition]
    require(k.layout.replicas > 1)
    require(leader.high_watermark < log_end_offset(leader.log))
    caught_up = leader_rules.advance_high_watermark(k, leader)
    return replace(w, leaders=w.leaders.put(partition, caught_up))


# What goes wrong


def disconnected(
    k: Setting, w: World, producer: Producer, partition: Partition, link: Link
) -> World:
    """The producer sees its connection break; `link` is what is left of it."""
    moved = producer_rules.on_disconnect(k, w.clients[producer], partition)
    clients = w.clients.put(producer, moved)
    return with_link(replace(w, clients=clients), producer, partition, link)


@rule
def connection_breaks(
    k: Setting, w: World, producer: Producer, partition: Partition, survivors: Survivors
) -> World:
    """An open connection breaks, or its client gives it up; `survivors` requests still arrive."""
    link = w.links[producer][partition]
    require(not network.is_idle(link))
    require(survivors <= len(link.requests))
    within_scope(survivors == 0 or len(link.broken) < k.layout.broken_connections)
    within_scope(w.spent.breaks < k.budgets.breaks)
    spent = replace(w.spent, breaks=w.spent.breaks + 1)
    left = network.broken(link, survivors)
    return disconnected(k, replace(w, spent=spent), producer, partition, left)


def hung_up(k: Setting, client: Client, partition: Partition) -> Client:
    """The producer's side when the broker that leads `partition` is gone."""
    return producer_rules.on_disconnect(k, client, partition)


def without_connections(k: Setting, w: World, partition: Partition, leader: Leader) -> World:
    """The broker that led `partition` is gone, with all its connections; `leader` comes next."""
    return replace(
        w,
        clients=Map(tuple(hung_up(k, client, partition) for client in w.clients.values())),
        leaders=w.leaders.put(partition, leader),
        links=Map(tuple(links.put(partition, SILENT_LINK) for links in w.links.values())),
    )


@rule
def leader_restarts(k: Setting, w: World, partition: Partition) -> World:
    """The leader's broker stops and comes back."""
    within_scope(w.spent.restarts < k.budgets.restarts)
    spent = replace(w.spent, restarts=w.spent.restarts + 1)
    restarted = leader_rules.restart(k, w.leaders[partition])
    return without_connections(k, replace(w, spent=spent), partition, restarted)


@rule
def leader_fails_over(k: Setting, w: World, partition: Partition, kept: Kept) -> World:
    """A replica leads that has the first `kept` batches, all below the high watermark in them."""
    leader = w.leaders[partition]
    require(k.layout.replicas > 1)
    require(kept <= len(leader.log))
    require(log_end_offset(leader.log[:kept]) >= leader.high_watermark)
    within_scope(w.spent.failovers < k.budgets.failovers)
    spent = replace(w.spent, failovers=w.spent.failovers + 1)
    elected = leader_rules.fail_over(k, leader, kept)
    return without_connections(k, replace(w, spent=spent), partition, elected)
