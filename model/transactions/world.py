"""The world of transactions: its actors, and the events of applications, requests, markers and
readers.

Each rule is one event. A request is handled at once, and `heard` says whether its answer arrives. A
request that its sender gives up is late: see `delayed_messages.py`. Events of the coordinator that
no request causes are in `coordinator_events.py`, moves that actors learn of one by one in
`coordinator_moves.py`. No network sends a request twice: only a client that retries does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from model.faults import spend
from model.language import (
    AtMost,
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
from model.transactions import add_partitions as partition_rules
from model.transactions import client as client_rules
from model.transactions import coordinator as coordinator_rules
from model.transactions import coordinator_leadership as leadership_rules
from model.transactions import end_txn as end_rules
from model.transactions import leader as leader_rules
from model.transactions import sender as sender_rules
from model.transactions.client_state import Client, ClientState, Write, pipelines
from model.transactions.configuration import Configuration, LeaderlessMarker
from model.transactions.coordinator import Coordinator
from model.transactions.coordinator_leadership import Place, Placement
from model.transactions.faults import Faults
from model.transactions.incidents import (
    LOST_ANSWER,
    LOST_ANSWER_AT_ONCE,
    LOST_MARKER_ANSWER,
    is_not_first,
)
from model.transactions.leader import Leader
from model.transactions.messages import (
    NO_OFFSET,
    Answer,
    Api,
    Batch,
    EpochOrNone,
    Error,
    Flag,
    Instance,
    Marker,
    Offset,
    Partition,
    ProduceAnswer,
    ProducerIdOrNone,
    Request,
    is_of_group,
    speaks_v2,
)


@record
class Initialization:
    """The last InitProducerId whose answer an instance has received: the id and epoch that it got,
    and the end of each log at that moment. No record that an older id or epoch writes after these
    offsets may become visible. No actor knows this record: it serves the guarantee `fenced`."""

    producer_id: ProducerIdOrNone
    producer_epoch: EpochOrNone
    log_end: Map[Partition, Offset]


@record
class World:
    """The actors, the late messages, and how far a reader of committed records has come. No actor
    writes to or reads from a partition that is `leaderless`; its log stays as it is."""

    clients: Map[Instance, Client]
    coordinator: Coordinator
    placement: Placement
    leaders: Map[Partition, Leader]
    leaderless: Map[Partition, bool]
    late: Annotated[tuple[Request, ...], AtMost("late")]
    late_markers: Annotated[tuple[Marker, ...], AtMost("late_markers")]
    read_to: Map[Partition, Offset]
    initialization: Initialization
    begun: Annotated[int, Range(0, "begun")]
    faults: Faults


def with_client(w: World, instance: Instance, client: Client) -> World:
    """The world with one client replaced."""
    return replace(w, clients=w.clients.put(instance, client))


def with_leader(w: World, partition: Partition, leader: Leader) -> World:
    """The world with one leader replaced, which must be present."""
    require(not w.leaderless[partition])
    return replace(w, leaders=w.leaders.put(partition, leader))


def with_coordinator(k: Configuration, w: World, coordinator: Coordinator) -> World:
    """The world with another coordinator, if the scope has enough epochs and producer ids for
    it."""
    within_scope(coordinator_rules.fits(k, coordinator))
    return replace(w, coordinator=coordinator)


def coordinator_at(k: Configuration, w: World, place: Place) -> Coordinator:
    """The node at this place; all nodes share the cluster's count of producer ids."""
    require(place != Place.NOWHERE)
    if place == Place.ELSEWHERE:
        return leadership_rules.retire(k, w.placement.former)
    given = w.coordinator.given_producer_ids
    former = leadership_rules.count_producer_ids(k, w.placement.former, given)
    return former if place == Place.FORMER else w.coordinator


def with_coordinator_at(k: Configuration, w: World, place: Place, c: Coordinator) -> World:
    """The world with the node at this place replaced."""
    if place == Place.HERE:
        return with_coordinator(k, w, c)
    if place == Place.ELSEWHERE:
        return w
    former = leadership_rules.count_producer_ids(k, c, 0)
    there = leadership_rules.count_producer_ids(k, w.coordinator, c.given_producer_ids)
    return with_coordinator(k, replace(w, placement=replace(w.placement, former=former)), there)


def free(w: World, instance: Instance) -> Client:
    """The client, if none of its requests waits for an append: it sends coordinators one request at
    a time. TransactionManager.hasInFlightRequest."""
    require(w.coordinator.requester != instance)
    return w.clients[instance]


def fate_known(k: Configuration, w: World, heard: Flag) -> World:
    """The world, with a lost answer counted against the scope's budget."""
    return spend(k, w, Faults(unheard=1 - heard))


def room_in_log(k: Configuration, w: World, partition: Partition) -> bool:
    """Whether the log has room in this scope."""
    return len(w.leaders[partition].log) < k.bounds.log


# Threads of several events

APPLICATION = Thread("application", ("instance",))
COORDINATOR_REQUESTS = Thread("requests to the coordinator", ("instance",))
BATCHES = Thread("batches", ("instance", "partition"))
MARKERS = Thread("markers", ("partition",))


# When an event is an incident


def is_at_last_epoch(k: Configuration, w: World) -> bool:
    """Whether the transactional id has used up its epochs."""
    return coordinator_rules.is_exhausted(k, w.coordinator.known.metadata.producer_epoch)


EXHAUSTED_EPOCHS = Incident("exhausted_epochs", is_at_last_epoch)


# The application


@event(APPLICATION, Incident("second_instance", is_not_first), wire=Wire.REQUESTS)
def instance_begins(k: Configuration, w: World, instance: Instance) -> World:
    """An instance of the application starts; the one before may still be running."""
    earlier = w.clients.values()[:instance]
    within_scope(all(c.state != ClientState.UNINITIALIZED for c in earlier))
    return with_client(w, instance, client_rules.init_transactions(k, w.clients[instance]))


@event(APPLICATION, wire=Wire.REQUESTS)
def transaction_begins(k: Configuration, w: World, instance: Instance) -> World:
    """The application begins a transaction."""
    client = w.clients[instance]
    within_scope(w.begun < k.budgets.begun)
    within_scope(client.begun < k.bounds.transactions)
    begun = client_rules.begin_transaction(k, client)
    return with_client(replace(w, begun=w.begun + 1), instance, begun)


@event(APPLICATION, wire=Wire.REQUESTS)
def record_is_sent(k: Configuration, w: World, instance: Instance, partition: Partition) -> World:
    """The application sends a record to a partition."""
    client = w.clients[instance]
    within_scope(client.partitions[partition].written < k.bounds.writes)
    return with_client(w, instance, client_rules.send(k, client, partition))


@event(APPLICATION, wire=Wire.REQUESTS)
def commit_is_asked(k: Configuration, w: World, instance: Instance) -> World:
    """The application commits."""
    return with_client(w, instance, client_rules.commit_transaction(k, w.clients[instance]))


@event(APPLICATION, wire=Wire.REQUESTS)
def abort_is_asked(k: Configuration, w: World, instance: Instance) -> World:
    """The application aborts."""
    return with_client(w, instance, client_rules.abort_transaction(k, w.clients[instance]))


@event(
    Thread("delivery time of batches", ("instance", "partition")),
    Incident("delivery_timeout"),
    wire=Wire.REQUESTS,
)
def batch_expires(
    k: Configuration, w: World, instance: Instance, partition: Partition, waits: Flag
) -> World:
    """The delivery time of a batch that was sent is up, while it `waits` to be sent again, or while
    its first request is on its way."""
    counted = spend(k, w, Faults(expirations=1))
    given_up = sender_rules.give_up(k, w.clients[instance], partition, waits == 1)
    return with_client(counted, instance, given_up)


# Requests to the coordinator


def log_ends(w: World) -> Map[Partition, Offset]:
    """The end of each log."""
    return Map(tuple(len(leader.log) for leader in w.leaders.values()))


def asked_by(k: Configuration, w: World, instance: Instance) -> Coordinator:
    """The node that the client sends its requests for the coordinator to."""
    return coordinator_at(k, w, w.placement.of_clients[instance])


def told_by(
    k: Configuration,
    w: World,
    instance: Instance,
    client: Client,
    step: Step[Coordinator, Answer],
    heard: Flag,
) -> World:
    """The world after the coordinator has handled a request; the client becomes `client` if the
    answer arrives."""
    moved = with_coordinator_at(k, w, w.placement.of_clients[instance], step.actor)
    placement = leadership_rules.found_out(k, moved.placement, instance, step.sends[0].error, heard)
    lost = client_rules.lose_coordinator(k, w.clients[instance])
    return with_client(
        replace(moved, placement=placement), instance, client if heard == 1 else lost
    )


@event(COORDINATOR_REQUESTS, LOST_ANSWER_AT_ONCE, EXHAUSTED_EPOCHS, wire=Wire.REQUESTS)
def producer_id_is_asked(k: Configuration, w: World, instance: Instance, heard: Flag) -> World:
    """A client sends InitProducerId; its success ends older instances."""
    asked = client_rules.ask_producer_id(k, free(w, instance))
    sent = with_client(w, instance, asked.actor)
    step = coordinator_rules.on_init_producer_id(
        k, asked_by(k, w, instance), asked.sends[0], instance
    )
    if len(step.sends) == 0:
        return with_coordinator(k, fate_known(k, sent, 1), step.actor)
    told = client_rules.on_producer_id(k, asked.actor, step.sends[0])
    after = told_by(k, fate_known(k, sent, heard), instance, told, step, heard)
    initializes = heard == 1 and step.sends[0].error == Error.NONE
    return replace(
        after, initialization=initialized_by(w, step.sends[0]) if initializes else w.initialization
    )


def initialized_by(w: World, answer: Answer) -> Initialization:
    """The initialization of the instance that receives this answer, to which the transactional id
    now belongs."""
    return Initialization(
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        log_end=log_ends(w),
    )


def added(
    k: Configuration, w: World, instance: Instance, asked: Step[Client, Request], heard: Flag
) -> World:
    """The world after the coordinator has handled a request of V1 that adds partitions."""
    request = asked.sends[0]
    sent = with_client(w, instance, asked.actor)
    step = partition_rules.on_add_partitions(k, asked_by(k, w, instance), request, instance)
    if len(step.sends) == 0:
        return with_coordinator(k, fate_known(k, sent, 1), step.actor)
    wanted = request.partitions
    told = client_rules.on_partitions_added(k, asked.actor, wanted, step.sends[0])
    return told_by(k, fate_known(k, sent, heard), instance, told, step, heard)


@event(COORDINATOR_REQUESTS, LOST_ANSWER_AT_ONCE, wire=Wire.REQUESTS)
def partitions_are_added(k: Configuration, w: World, instance: Instance, heard: Flag) -> World:
    """A client sends AddPartitionsToTxn."""
    asked = client_rules.add_partitions(k, free(w, instance))
    return added(k, w, instance, asked, heard)


@event(COORDINATOR_REQUESTS, LOST_ANSWER_AT_ONCE, wire=Wire.REQUESTS)
def offsets_are_added(k: Configuration, w: World, instance: Instance, heard: Flag) -> World:
    """A client sends AddOffsetsToTxn."""
    asked = client_rules.add_offsets(k, free(w, instance))
    return added(k, w, instance, asked, heard)


@event(COORDINATOR_REQUESTS, LOST_ANSWER_AT_ONCE, EXHAUSTED_EPOCHS, wire=Wire.REQUESTS)
def transaction_is_ended(k: Configuration, w: World, instance: Instance, heard: Flag) -> World:
    """A client sends EndTxn."""
    asked = client_rules.end_transaction(k, free(w, instance))
    sent = with_client(w, instance, asked.actor)
    step = end_rules.on_end_txn(k, asked_by(k, w, instance), asked.sends[0], instance)
    if len(step.sends) == 0:
        return with_coordinator(k, fate_known(k, sent, 1), step.actor)
    told = client_rules.on_ended(k, asked.actor, step.sends[0])
    return told_by(k, fate_known(k, sent, heard), instance, told, step, heard)


# Batches


def verified(
    k: Configuration, w: World, batch: Batch, partition: Partition
) -> Step[Coordinator, Error]:
    """The coordinator's answer about a batch's transaction: with V1 the leader asks, with V2 it
    adds the partition."""
    request = Request(
        api=Api.ADD_PARTITIONS_TO_TXN,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        partitions=Map.filled(k.bounds.partitions, False).put(partition, True),
        committed=False,
        partition=partition,
        batch=batch,
        guard=NO_OFFSET,
    )
    asked = coordinator_at(k, w, w.placement.of_leaders[partition])
    if not speaks_v2(k):
        error = partition_rules.on_verify(k, asked, request, partition)
        return Step(asked, (error,))
    step = partition_rules.on_add_partitions(k, asked, request, coordinator_rules.NOBODY)
    if len(step.sends) == 0:
        return Step(step.actor, (Error.CONCURRENT_TRANSACTIONS,))
    return Step(step.actor, (step.sends[0].error,))


def produced(
    k: Configuration, w: World, batch: Batch, partition: Partition, valid: Flag
) -> Step[World, ProduceAnswer]:
    """The world after a batch has arrived. The leader asks the coordinator if it must, and then
    appends the batch, if its record is `valid`."""
    leader = w.leaders[partition]
    if not leader_rules.must_ask(k, leader, batch):
        return taken(k, w, batch, partition, valid)
    step = verified(k, w, batch, partition)
    moved = with_coordinator_at(k, w, w.placement.of_leaders[partition], step.actor)
    verifying = leader_rules.verify(k, leader, batch)
    asked = with_leader(moved, partition, verifying)
    if step.sends[0] == Error.NONE:
        return taken(k, asked, batch, partition, valid)
    of_group = is_of_group(k, partition)
    refused = leader_rules.refuse(k, verifying, batch, step.sends[0], of_group)
    there = asked.leaders.put(partition, refused.actor)
    return Step(replace(asked, leaders=there), (refused.sends[0],))


def taken(
    k: Configuration, w: World, batch: Batch, partition: Partition, valid: Flag
) -> Step[World, ProduceAnswer]:
    """The world after the leader has handled the batch of a client, or of the group coordinator."""
    leader = w.leaders[partition]
    if valid == 0:
        invalid = leader_rules.on_invalid_produce(k, leader, batch)
        return Step(with_leader(w, partition, invalid.actor), (invalid.sends[0],))
    if is_of_group(k, partition):
        offsets = leader_rules.on_offset_commit(k, leader, batch)
        return Step(with_leader(w, partition, offsets.actor), (offsets.sends[0],))
    step = leader_rules.on_produce(k, leader, batch)
    return Step(with_leader(w, partition, step.actor), (step.sends[0],))


@event(BATCHES, LOST_ANSWER, wire=Wire.REQUESTS)
def batch_is_produced(
    k: Configuration, w: World, instance: Instance, partition: Partition, heard: Flag
) -> World:
    """A client sends Produce."""
    within_scope(room_in_log(k, w, partition))
    is_lost = sender_rules.is_behind_break(k, w.clients[instance], partition)
    require(not is_lost or (heard == 0 and not is_late(w, partition)))
    asked = sender_rules.produce(k, w.clients[instance], instance, partition)
    step = produced(k, w, asked.sends[0].batch, partition, 1)
    told = sender_rules.on_produced(k, asked.actor, partition, step.sends[0])
    lost = sender_rules.lose_leader(k, asked.actor, partition)
    after = fate_known(k, step.actor, heard)
    return with_client(after, instance, told if heard == 1 else lost)


@event(BATCHES, Incident("rejection"))
def batch_is_rejected(
    k: Configuration, w: World, instance: Instance, partition: Partition
) -> World:
    """A leader refuses a client's Produce for good, whether or not its batch is stored already."""
    client = w.clients[instance]
    require(not sender_rules.is_behind_break(k, client, partition))
    asked = sender_rules.produce(k, client, instance, partition)
    step = rejected(k, w, asked.sends[0].batch, partition)
    told = sender_rules.on_produced(k, asked.actor, partition, step.sends[0])
    return with_client(step.actor, instance, told)


def rejected(
    k: Configuration, w: World, batch: Batch, partition: Partition
) -> Step[World, ProduceAnswer]:
    """The world after the leader has refused the record, which it does only once the batch's
    transaction is verified. A batch of an older epoch is refused for its epoch first."""
    entry = w.leaders[partition].producers[batch.producer_id]
    require(not leader_rules.is_refused_unasked(k, entry, batch))
    step = produced(k, spend(k, w, Faults(rejections=1)), batch, partition, 0)
    require(step.sends[0].error == Error.INVALID_TIMESTAMP)
    return step


def is_late(w: World, partition: Partition) -> bool:
    """Whether a batch for the partition is late; no batch sent after it has overtaken it."""
    return any(r.api == Api.PRODUCE and r.partition == partition for r in w.late)


@event(BATCHES, excluded_by="one_batch_in_flight")
def batch_is_turned_away(
    k: Configuration, w: World, instance: Instance, partition: Partition
) -> World:
    """A client sends a new batch to a broker that no longer leads the partition. If the broker
    leads again before the next batch of the connection arrives, it accepts that one first. With a
    single batch in flight, this event would be the same as a batch that waits."""
    within_scope(pipelines(k))
    require(w.leaderless[partition])
    client = w.clients[instance]
    require(client.partitions[partition].write == Write.QUEUED)
    asked = sender_rules.produce(k, client, instance, partition)
    step = leader_rules.turn_away(k, w.leaders[partition], asked.sends[0].batch)
    told = sender_rules.on_produced(k, asked.actor, partition, step.sends[0])
    return with_client(w, instance, told)


@event(BATCHES, LOST_ANSWER, wire=Wire.REQUESTS, excluded_by="one_batch_in_flight")
def batch_is_produced_again(
    k: Configuration, w: World, instance: Instance, partition: Partition, heard: Flag
) -> World:
    """A client sends Produce with the first of several batches in flight. The leader may have
    handled a newer batch before it: the client had sent that one before the last answer about the
    first batch."""
    within_scope(pipelines(k))
    within_scope(room_in_log(k, w, partition))
    asked = sender_rules.produce_again(k, w.clients[instance], instance, partition)
    step = produced(k, w, asked.sends[0].batch, partition, 1)
    told = sender_rules.on_produced_again(k, asked.actor, partition, step.sends[0])
    lost = sender_rules.lose_leader(k, asked.actor, partition)
    after = fate_known(k, step.actor, heard)
    return with_client(after, instance, told if heard == 1 else lost)


@event(BATCHES, Incident("rejection"), excluded_by="one_batch_in_flight")
def batch_is_rejected_again(
    k: Configuration, w: World, instance: Instance, partition: Partition
) -> World:
    """A leader refuses for good the first of several batches in flight, which a client sends
    again."""
    within_scope(pipelines(k))
    asked = sender_rules.produce_again(k, w.clients[instance], instance, partition)
    step = rejected(k, w, asked.sends[0].batch, partition)
    told = sender_rules.on_produced_again(k, asked.actor, partition, step.sends[0])
    return with_client(step.actor, instance, told)


@event(BATCHES, LOST_ANSWER, wire=Wire.REQUESTS)
def offsets_are_committed(
    k: Configuration, w: World, instance: Instance, partition: Partition, heard: Flag
) -> World:
    """A client sends TxnOffsetCommit to the coordinator of the group."""
    within_scope(room_in_log(k, w, partition))
    asked = client_rules.commit_offsets(k, free(w, instance), instance, partition)
    step = produced(k, w, asked.sends[0].batch, partition, 1)
    told = client_rules.on_offsets_committed(k, asked.actor, partition, step.sends[0])
    lost = sender_rules.lose_leader(k, asked.actor, partition)
    after = fate_known(k, step.actor, heard)
    return with_client(after, instance, told if heard == 1 else lost)


# Markers


@event(MARKERS, LOST_MARKER_ANSWER, wire=Wire.BROKERS)
def marker_is_written(k: Configuration, w: World, partition: Partition, heard: Flag) -> World:
    """The coordinator sends a partition its marker; if the answer is lost, it will send another."""
    within_scope(room_in_log(k, w, partition))
    counted = spend(k, w, Faults(marker_losses=1 - heard))
    asked = coordinator_rules.marker_for(k, w.coordinator, partition)
    step = leader_rules.on_marker(k, w.leaders[partition], asked.sends[0])
    told = coordinator_rules.on_marker_written(k, asked.actor, partition, step.sends[0])
    lost = coordinator_rules.lose_marker(k, asked.actor, partition)
    after = with_leader(counted, partition, step.actor)
    return replace(after, coordinator=told if heard == 1 else lost)


@event(MARKERS, wire=Wire.BROKERS, excluded_by="leaders_are_there")
def marker_is_skipped(k: Configuration, w: World, partition: Partition) -> World:
    """The coordinator takes a partition without a leader for deleted, and skips its marker."""
    require(k.variant.leaderless_marker == LeaderlessMarker.SKIPPED)
    require(w.leaderless[partition])
    asked = coordinator_rules.marker_for(k, w.coordinator, partition)
    return replace(w, coordinator=coordinator_rules.skip_marker(k, asked.actor, partition))


# Leaders


@event(
    Thread("absence", ("partition",)),
    Incident("absent_leader"),
    wire=Wire.CLUSTER,
    excluded_by="leaders_are_there",
)
def leader_leaves(k: Configuration, w: World, partition: Partition) -> World:
    """A leader leaves, and no other broker can take its place."""
    within_scope(not k.bounds.guards)
    counted = spend(k, w, Faults(leaves=1))
    require(not w.leaderless[partition])
    alone = disconnected(k, counted, partition) if pipelines(k) else counted
    return replace(alone, leaderless=w.leaderless.put(partition, True))


def disconnected(k: Configuration, w: World, partition: Partition) -> World:
    """The world after all connections to a leader have broken."""
    clients = tuple(sender_rules.lose_leader(k, c, partition) for c in w.clients.values())
    return replace(w, clients=Map(clients))


@event(Thread("return", ("partition",)), wire=Wire.CLUSTER, excluded_by="leaders_are_there")
def leader_returns(k: Configuration, w: World, partition: Partition) -> World:
    """The leader returns with its log, and without its verifications."""
    require(w.leaderless[partition])
    back = leader_rules.restarted(k, w.leaders[partition])
    there = w.leaderless.put(partition, False)
    return with_leader(replace(w, leaderless=there), partition, back)


# Readers, and other transactional ids


@event(Thread("another id", ("partition",)), Incident("other_transaction"))
def other_writes(k: Configuration, w: World, partition: Partition) -> World:
    """Another transactional id begins to write in the first partition, or ends its transaction
    there. Partitions are alike, so that the first stands for each."""
    leader = w.leaders[partition]
    within_scope(partition == 0)
    begins = leader.other_first_offset == NO_OFFSET
    within_scope(k.bounds.faults.others > 0)
    counted = spend(k, w, Faults(others=1 if begins else 0))
    within_scope(room_in_log(k, w, partition))
    other = leader_rules.on_other(k, leader)
    return with_leader(counted, partition, other)


@event(Thread("reader", ("partition",)))
def reader_reads(k: Configuration, w: World, partition: Partition) -> World:
    """A reader of committed records reads up to the last stable offset."""
    within_scope(k.bounds.readers)
    stable = leader_rules.last_stable_offset(k, w.leaders[partition])
    require(w.read_to[partition] != stable)
    require(not w.leaderless[partition])
    return replace(w, read_to=w.read_to.put(partition, stable))
