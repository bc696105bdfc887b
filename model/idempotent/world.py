"""The world of the idempotent producer: its actors, and every event that can happen.

Each rule is one event. It moves one actor by that actor's own rule, and carries messages. It never
decides what an actor does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.faults import spend
from model.idempotent import client as producer_rules
from model.idempotent import leader as leader_rules
from model.idempotent import network
from model.idempotent import recovery as recovery_rules
from model.idempotent import responses as answer_rules
from model.idempotent.client import Client, InFlight
from model.idempotent.configuration import Acks, Configuration, Expiry
from model.idempotent.faults import Faults
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
from model.language import (
    Incident,
    Map,
    Range,
    Step,
    Thread,
    Wire,
    event,
    record,
    require,
    within_scope,
)

Survivors = Annotated[int, Range(0, "in_flight")]
BrokenIndex = Annotated[int, Range(0, "last_broken")]


@record
class World:
    """The actors, and the messages between them. Producer ids are given out in order, each once:
    `model.producer_ids` guarantees it."""

    clients: Map[Producer, Client]
    leaders: Map[Partition, Leader]
    links: Map[Producer, Map[Partition, Link]]
    given_producer_ids: Annotated[int, Range(0, "producer_ids")]
    faults: Faults


def records_in(k: Configuration, first_record: int) -> int:
    """The number of records in the application's next batch: 1, 2, 1, 2, ..."""
    return 2 if first_record % 3 == 1 else 1


def with_link(w: World, producer: Producer, partition: Partition, link: Link) -> World:
    """The world with one link replaced."""
    return replace(w, links=w.links.put(producer, w.links[producer].put(partition, link)))


def can_append(k: Configuration, leader: Leader) -> bool:
    """Whether the log has room in this scope."""
    return len(leader.log) < k.bounds.log


def nothing_awaits_replication(leader: Leader, link: Link) -> bool:
    """Whether no answer on the connection awaits the high watermark: only then does a broker read
    the next request."""
    return all(a.required_offset <= leader.high_watermark for a in link.answers)


# Threads of several events

CLIENT = Thread("client", ("producer",))
DELIVERY_TIME = Thread("delivery time", ("producer", "partition"))
LOST_REPLICAS = Thread("lost replicas", ("partition",))
RESTARTS = Thread("restarts", ("partition",))
ELECTIONS = Thread("elections", ("partition",))


# When an event is an incident


def is_at_last_epoch(k: Configuration, w: World, producer: Producer) -> bool:
    """Whether the producer has used up its epochs."""
    return k.bounds.epochs_end and w.clients[producer].producer_epoch == k.bounds.max_epoch


def is_too_large(k: Configuration, w: World, producer: Producer, partition: Partition) -> bool:
    """Whether the first request's batch has more records than the leader accepts."""
    return w.links[producer][partition].requests[0].batch.record_count > k.bounds.max_message


def has_answers(w: World, producer: Producer, partition: Partition) -> bool:
    """Whether answers are on the connection."""
    return len(w.links[producer][partition].answers) > 0


def loses_requests(
    w: World, producer: Producer, partition: Partition, survivors: Survivors
) -> bool:
    """Whether some requests on the connection will not arrive."""
    return survivors < len(w.links[producer][partition].requests)


# Producers


def sent(
    w: World, producer: Producer, partition: Partition, step: Step[Client, ProduceRequest]
) -> World:
    """The world after the producer has moved and its request is on its way."""
    link = network.send(w.links[producer][partition], step.sends[0])
    moved = replace(w, clients=w.clients.put(producer, step.actor))
    return with_link(moved, producer, partition, link)


def may_write(k: Configuration, link: Link) -> bool:
    """Whether the scope lets another request go out; it limits only requests without answers."""
    return k.variant.acks != Acks.NONE or len(link.requests) < k.bounds.in_flight


@event(CLIENT, wire=Wire.REQUESTS)
def client_sends(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The producer sends the application's next batch."""
    client = w.clients[producer]
    records_sent = client.partitions[partition].records_sent
    record_count = records_in(k, records_sent)
    within_scope(records_sent + record_count <= k.budgets.records)
    within_scope(may_write(k, w.links[producer][partition]))
    step = producer_rules.send_new(k, client, partition, record_count)
    return sent(w, producer, partition, step)


@event(CLIENT, wire=Wire.REQUESTS)
def client_retries(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The producer sends the first waiting batch again."""
    step = producer_rules.send_again(k, w.clients[producer], partition)
    return sent(w, producer, partition, step)


@event(CLIENT, Incident("exhausted_epochs", is_at_last_epoch), wire=Wire.REQUESTS)
def client_bumps_epoch(k: Configuration, w: World, producer: Producer) -> World:
    """The producer takes the next epoch by itself."""
    bumped = recovery_rules.bump_epoch(k, w.clients[producer])
    return replace(w, clients=w.clients.put(producer, bumped))


@event(Thread("producer ids", ("producer",)), wire=Wire.REQUESTS, excluded_by="id_for_life")
def client_receives_producer_id(k: Configuration, w: World, producer: Producer) -> World:
    """The producer receives a new producer id, in the answer to InitProducerId."""
    require(k.bounds.without_producer_id)
    within_scope(w.given_producer_ids < k.bounds.producer_ids)
    client = w.clients[producer]
    begun = recovery_rules.receive_producer_id(k, client, w.given_producer_ids)
    clients = w.clients.put(producer, begun)
    return replace(w, clients=clients, given_producer_ids=w.given_producer_ids + 1)


def oldest(k: Configuration, client: Client, partition: Partition) -> InFlight:
    """The oldest batch whose delivery time can be up, or none."""
    in_flight = client.partitions[partition].in_flight
    if k.variant.expiry == Expiry.QUEUED_ONLY:
        return tuple(b for b in in_flight if not b.outstanding)[:1]
    return in_flight[:1]


@event(DELIVERY_TIME, Incident("delivery_timeout"), wire=Wire.REQUESTS)
def client_gives_up(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The producer gives up its oldest batch, whose delivery time is up."""
    counted = spend(k, w, Faults(timeouts=1))
    client = w.clients[producer]
    in_flight = oldest(k, client, partition)
    require(len(in_flight) > 0)
    first_record = in_flight[0].batch.first_record
    told = recovery_rules.expire_batch(k, client, partition, first_record)
    return replace(counted, clients=w.clients.put(producer, told))


@event(CLIENT, wire=Wire.REQUESTS)
def client_resolves(k: Configuration, w: World, producer: Producer) -> World:
    """The producer finds that all batches in flight have ended, and resolves its sequences."""
    require(k.bounds.faults.timeouts > 0)
    resolved = recovery_rules.resolve_sequences(k, w.clients[producer])
    return replace(w, clients=w.clients.put(producer, resolved))


def answer_heard(
    k: Configuration, w: World, producer: Producer, partition: Partition, overdue: Flag
) -> World:
    """The world after the producer has received the next answer."""
    link = w.links[producer][partition]
    client = w.clients[producer]
    moved = answer_rules.on_answer(k, client, partition, link.answers[0], overdue)
    clients = w.clients.put(producer, moved)
    return with_link(replace(w, clients=clients), producer, partition, network.received(link))


@event(Thread("answers", ("producer", "partition")), wire=Wire.REQUESTS)
def answer_arrives(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The next answer reaches its producer; the high watermark has reached its offset."""
    link = w.links[producer][partition]
    require(len(link.answers) > 0)
    arriving = link.answers[0]
    require(arriving.required_offset <= w.leaders[partition].high_watermark)
    return answer_heard(k, w, producer, partition, 0)


@event(DELIVERY_TIME, Incident("delivery_timeout"), wire=Wire.REQUESTS)
def answer_arrives_late(
    k: Configuration, w: World, producer: Producer, partition: Partition
) -> World:
    """The next answer is an error, and the delivery time of its batch, the oldest, is up."""
    link = w.links[producer][partition]
    in_flight = w.clients[producer].partitions[partition].in_flight
    counted = spend(k, w, Faults(timeouts=1))
    require(len(link.answers) > 0)
    arriving = link.answers[0]
    require(arriving.required_offset <= w.leaders[partition].high_watermark)
    require(arriving.error != Error.NONE)
    require(len(in_flight) > 0)
    require(in_flight[0].batch.first_record == arriving.first_record)
    return answer_heard(k, counted, producer, partition, 1)


# Leaders


def next_request(w: World, producer: Producer, partition: Partition) -> ProduceRequest:
    """The next request that the leader handles on the open connection."""
    link = w.links[producer][partition]
    require(len(link.requests) > 0)
    require(nothing_awaits_replication(w.leaders[partition], link))
    return link.requests[0]


def handled(
    k: Configuration,
    w: World,
    producer: Producer,
    partition: Partition,
    step: Step[Leader, ProduceResponse],
) -> World:
    """The world after the leader has handled the next request of the open connection; with acks=0
    it sends no answer."""
    answers = step.sends if k.variant.acks != Acks.NONE else ()
    link = network.answered(w.links[producer][partition], answers)
    moved = replace(w, leaders=w.leaders.put(partition, step.actor))
    return with_link(moved, producer, partition, link)


@event(
    Thread("requests", ("producer", "partition")),
    Incident("batch_too_large", is_too_large),
    wire=Wire.REQUESTS,
)
def request_arrives(k: Configuration, w: World, producer: Producer, partition: Partition) -> World:
    """The leader handles the next request of the open connection."""
    request = next_request(w, producer, partition)
    within_scope(can_append(k, w.leaders[partition]))
    step = leader_rules.on_produce(k, w.leaders[partition], request)
    return handled(k, w, producer, partition, step)


@event(LOST_REPLICAS, Incident("refusal"), wire=Wire.CONNECTIONS)
def request_is_refused(
    k: Configuration, w: World, producer: Producer, partition: Partition
) -> World:
    """The leader refuses the next request, because too few replicas are in sync."""
    request = next_request(w, producer, partition)
    require(k.variant.acks == Acks.ALL)
    counted = spend(k, w, Faults(refusals=1))
    step = leader_rules.on_produce_without_replicas(k, w.leaders[partition], request)
    return handled(k, counted, producer, partition, step)


@event(Thread("rejections", ("partition",)), Incident("rejection"), wire=Wire.CONNECTIONS)
def request_is_rejected(
    k: Configuration, w: World, producer: Producer, partition: Partition
) -> World:
    """The leader refuses the next request for good, whether or not its batch is already stored."""
    request = next_request(w, producer, partition)
    counted = spend(k, w, Faults(rejections=1))
    step = leader_rules.on_invalid_produce(k, w.leaders[partition], request)
    return handled(k, counted, producer, partition, step)


@event(LOST_REPLICAS, Incident("late_error"), wire=Wire.CONNECTIONS)
def request_outlives_replicas(
    k: Configuration, w: World, producer: Producer, partition: Partition, timed_out: Flag
) -> World:
    """The leader stores the next request's batch, and then its replicas are lost or slow."""
    request = next_request(w, producer, partition)
    require(k.variant.acks == Acks.ALL)
    leader = w.leaders[partition]
    within_scope(can_append(k, leader))
    counted = spend(k, w, Faults(late_errors=1))
    step = leader_rules.on_produce_then_unreplicated(k, leader, request, timed_out)
    require(step.sends[0].error == leader_rules.late_error(timed_out))
    return handled(k, counted, producer, partition, step)


@event(
    Thread("broken connections", ("producer", "partition")),
    Incident("delayed_request"),
    wire=Wire.REQUESTS,
)
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


@event(Thread("followers", ("partition",)), wire=Wire.BROKERS)
def high_watermark_advances(k: Configuration, w: World, partition: Partition) -> World:
    """The followers fetch the whole log, and the high watermark advances to its end."""
    leader = w.leaders[partition]
    require(k.bounds.replicas > 1)
    require(leader.high_watermark < log_end_offset(leader.log))
    caught_up = leader_rules.advance_high_watermark(k, leader)
    return replace(w, leaders=w.leaders.put(partition, caught_up))


@event(
    Thread("expiry of producer ids", ("partition",)),
    Incident("producer_id_expiry"),
    wire=Wire.DYNAMIC_CONFIGS,
    excluded_by="nothing_forgotten",
)
def producer_id_expires(
    k: Configuration, w: World, partition: Partition, producer_id: ProducerId
) -> World:
    """The leader forgets a producer id that has been silent for too long."""
    counted = spend(k, w, Faults(expiries=1))
    forgetful = leader_rules.expire_producer(k, w.leaders[partition], producer_id)
    return replace(counted, leaders=w.leaders.put(partition, forgetful))


@event(
    Thread("retention", ("partition",)),
    Incident("deleted_records"),
    wire=Wire.DELETE_RECORDS,
    excluded_by="nothing_deleted",
)
def records_are_deleted(
    k: Configuration, w: World, partition: Partition, deleted: StoredCount
) -> World:
    """The leader deletes the head of its log, by retention or by request."""
    require(deleted <= len(w.leaders[partition].log))
    counted = spend(k, w, Faults(deletions=1))
    shorter = leader_rules.delete_records(k, w.leaders[partition], deleted)
    return replace(counted, leaders=w.leaders.put(partition, shorter))


# Faults


def disconnected(
    k: Configuration, w: World, producer: Producer, partition: Partition, link: Link, overdue: int
) -> World:
    """The world after the producer has seen its connection break; `link` is what remains of it."""
    moved = answer_rules.on_disconnect(k, w.clients[producer], partition, overdue)
    clients = w.clients.put(producer, moved)
    return with_link(replace(w, clients=clients), producer, partition, link)


@event(
    Thread("breaks", ("producer", "partition")),
    Incident("lost_answer", has_answers),
    Incident("lost_request", loses_requests),
    wire=Wire.CONNECTIONS,
)
def connection_breaks(
    k: Configuration, w: World, producer: Producer, partition: Partition, survivors: Survivors
) -> World:
    """An open connection breaks, or its client gives it up; `survivors` requests still arrive."""
    link = w.links[producer][partition]
    require(not network.is_idle(link))
    require(survivors <= len(link.requests))
    within_scope(survivors == 0 or len(link.broken) < k.bounds.broken_connections)
    counted = spend(k, w, Faults(breaks=1))
    left = network.broken(link, survivors)
    return disconnected(k, counted, producer, partition, left, 0)


@event(
    DELIVERY_TIME,
    Incident("lost_answer", has_answers),
    Incident("lost_request", loses_requests),
    Incident("delivery_timeout"),
    wire=Wire.CONNECTIONS,
)
def connection_breaks_late(
    k: Configuration, w: World, producer: Producer, partition: Partition, survivors: Survivors
) -> World:
    """An open connection breaks when the delivery time of the oldest batch, which awaits its
    answer, is up."""
    link = w.links[producer][partition]
    in_flight = w.clients[producer].partitions[partition].in_flight
    counted = spend(k, w, Faults(breaks=1, timeouts=1))
    require(len(in_flight) > 0)
    require(in_flight[0].outstanding)
    require(survivors <= len(link.requests))
    within_scope(survivors == 0 or len(link.broken) < k.bounds.broken_connections)
    left = network.broken(link, survivors)
    return disconnected(k, counted, producer, partition, left, 1)


def hung_up(k: Configuration, client: Client, partition: Partition) -> Client:
    """The producer after the broker that leads `partition` is gone."""
    return answer_rules.on_disconnect(k, client, partition, 0)


def without_connections(k: Configuration, w: World, partition: Partition, leader: Leader) -> World:
    """The world after the broker that led `partition` is gone, with all its connections; `leader`
    leads next."""
    return replace(
        w,
        clients=Map(tuple(hung_up(k, client, partition) for client in w.clients.values())),
        leaders=w.leaders.put(partition, leader),
        links=Map(tuple(links.put(partition, SILENT_LINK) for links in w.links.values())),
    )


@event(RESTARTS, Incident("restart"), wire=Wire.RESTARTS)
def leader_restarts(k: Configuration, w: World, partition: Partition) -> World:
    """The leader's broker stops and comes back."""
    counted = spend(k, w, Faults(restarts=1))
    restarted = leader_rules.restart(k, w.leaders[partition])
    return without_connections(k, counted, partition, restarted)


@event(RESTARTS, Incident("crash"), wire=Wire.RESTARTS, excluded_by="no_crash")
def leader_crashes(k: Configuration, w: World, partition: Partition, covered: StoredCount) -> World:
    """The leader's broker is killed and comes back; its last snapshot has `covered` batches."""
    require(covered <= len(w.leaders[partition].log))
    counted = spend(k, w, Faults(crashes=1))
    recovered = leader_rules.recover(k, w.leaders[partition], covered)
    return without_connections(k, counted, partition, recovered)


@event(ELECTIONS, Incident("failover"), wire=Wire.CLUSTER)
def leader_fails_over(k: Configuration, w: World, partition: Partition, kept: StoredCount) -> World:
    """A replica becomes leader with the first `kept` batches, which reach the high watermark."""
    leader = w.leaders[partition]
    require(k.bounds.replicas > 1)
    require(kept <= len(leader.log))
    require(log_end_offset(leader.log[:kept]) >= leader.high_watermark)
    counted = spend(k, w, Faults(failovers=1))
    elected = leader_rules.fail_over(k, leader, kept)
    return without_connections(k, counted, partition, elected)


@event(ELECTIONS, Incident("unclean_failover"), wire=Wire.CLUSTER)
def leader_fails_over_uncleanly(
    k: Configuration, w: World, partition: Partition, kept: StoredCount
) -> World:
    """A replica becomes leader that was not in sync: it lacks records below the high watermark."""
    leader = w.leaders[partition]
    require(k.bounds.replicas > 1)
    require(kept <= len(leader.log))
    require(log_end_offset(leader.log[:kept]) < leader.high_watermark)
    require(log_end_offset(leader.log[:kept]) >= leader.log_start_offset)
    counted = spend(k, w, Faults(losses=1))
    elected = leader_rules.fail_over(k, leader, kept)
    return without_connections(k, counted, partition, elected)
