"""The transaction manager of one instance: its states, its requests, and its reaction to answers.

Models `TransactionManager`. `sender.py` has the batches of the same client, `effects.py` the
effects of errors. Backoff is left out: a request that may be sent again is sent at any later
moment.

Theory of operation. The application calls, and the manager sends the requests that the calls need.
It sends one request to the coordinator at a time, in this order: producer id, partitions, batches,
end. After an error it sends the request again, or the transaction must be aborted, or the instance
is finished. While the outcome of a batch is open, the transaction does not end. A batch whose
delivery time is up fails, and the transaction can then only be aborted.
"""

from __future__ import annotations

from dataclasses import replace

from model.language import Map, Step, acts, receives, require
from model.releases import Requests
from model.transactions.client_state import (
    Client,
    ClientPartition,
    ClientState,
    Membership,
    Outcome,
    Write,
    has_room,
    in_flight,
    is_sent,
    is_unfinished,
)
from model.transactions.configuration import Bump, Configuration, GroupMemory, LateBump
from model.transactions.effects import Effect, effect_of
from model.transactions.messages import (
    NO_BATCH,
    NO_OFFSET,
    Answer,
    Api,
    Batch,
    Error,
    Instance,
    Partition,
    ProduceAnswer,
    Request,
    Sequence,
    WriteNumber,
    is_of_group,
    speaks_v2,
)

# Calls of the application


def present(client: Client) -> int:
    """The number of the present transaction."""
    return client.begun - 1


def with_outcome(client: Client, outcome: Outcome) -> Client:
    """The client, with this outcome of its present transaction."""
    return replace(client, outcomes=client.outcomes.put(present(client), outcome))


@acts
def init_transactions(k: Configuration, client: Client) -> Client:
    """Initialize. KafkaProducer.initTransactions."""
    require(client.state == ClientState.UNINITIALIZED)
    return replace(client, state=ClientState.INITIALIZING)


@acts
def begin_transaction(k: Configuration, client: Client) -> Client:
    """Begin a transaction, without a request. KafkaProducer.beginTransaction."""
    require(client.state == ClientState.READY)
    return replace(client, state=ClientState.IN_TRANSACTION, begun=client.begun + 1)


def waits_for_offsets(k: Configuration, client: Client) -> bool:
    """Whether a call of sendOffsetsToTransaction has not returned."""
    return any(
        there.write != Write.NONE and is_of_group(k, partition)
        for partition, there in client.partitions.items()
    )


def asks_again(k: Configuration, partition: Partition) -> bool:
    """Whether the client adds the group again before each commit of its offsets."""
    return is_of_group(k, partition) and k.variant.group_memory == GroupMemory.ASKS_AGAIN


@acts
def send(k: Configuration, client: Client, partition: Partition) -> Client:
    """Queue a record. KafkaProducer.send, or sendOffsetsToTransaction. V2 needs no request to add
    the partition."""
    there = client.partitions[partition]
    require(client.state == ClientState.IN_TRANSACTION)
    require(has_room(k, partition, there))
    require(not waits_for_offsets(k, client))
    added = Membership.IN if speaks_v2(k) else Membership.NEW
    is_new = there.membership == Membership.OUT or asks_again(k, partition)
    queued = replace(
        there,
        membership=added if is_new else there.membership,
        write=Write.QUEUED,
        earlier=in_flight(there),
        written=there.written + 1,
        sent=there.sent.put(present(client), there.written + 1),
    )
    return replace(
        client,
        is_started=client.is_started or speaks_v2(k),
        partitions=client.partitions.put(partition, queued),
    )


@acts
def commit_transaction(k: Configuration, client: Client) -> Client:
    """Commit. KafkaProducer.commitTransaction. A transaction that the coordinator cannot know ends
    at once."""
    require(client.state == ClientState.IN_TRANSACTION)
    require(not waits_for_offsets(k, client))
    asked = with_outcome(client, Outcome.COMMIT_ASKED)
    if not has_work(client):
        return finished(k, with_outcome(client, Outcome.COMMITTED))
    return replace(asked, state=ClientState.COMMITTING)


def has_work(client: Client) -> bool:
    """Whether the coordinator may know of the transaction, or must still be told of it."""
    return client.is_started or any(
        there.membership != Membership.OUT for there in client.partitions.values()
    )


def waits_to_be_added(there: ClientPartition) -> bool:
    """Whether the partition is still to be added to the transaction."""
    return there.membership == Membership.NEW or there.membership == Membership.ASKED


def has_asked(client: Client) -> bool:
    """Whether a request to add partitions must be sent again, even before an abort."""
    return any(there.membership == Membership.ASKED for there in client.partitions.values())


def unsent_dropped(k: Configuration, there: ClientPartition, failed: bool) -> ClientPartition:
    """The partition, without the batch that was not sent.
    RecordAccumulator.abortUndrainedBatches."""
    is_new = there.membership == Membership.NEW or (failed and waits_to_be_added(there))
    return replace(
        there,
        membership=Membership.OUT if is_new else there.membership,
        write=Write.NONE if there.write == Write.QUEUED else there.write,
    )


def commit_waits(client: Client) -> bool:
    """Whether commitTransaction has failed and not yet returned: it waits until each batch that was
    sent has its outcome. TransactionManager.nextRequest, handleCachedTransactionRequestResult."""
    sent = any(is_sent(there) for there in client.partitions.values())
    asked = client.outcomes[present(client)] == Outcome.COMMIT_ASKED
    return client.state == ClientState.ABORTABLE_ERROR and asked and sent


@acts
def abort_transaction(k: Configuration, client: Client) -> Client:
    """Abort. KafkaProducer.abortTransaction."""
    require(
        client.state == ClientState.IN_TRANSACTION or client.state == ClientState.ABORTABLE_ERROR
    )
    require(not waits_for_offsets(k, client))
    require(not commit_waits(client))
    failed = client.state == ClientState.ABORTABLE_ERROR
    dropped = replace(
        client,
        partitions=Map(tuple(unsent_dropped(k, t, failed) for t in client.partitions.values())),
    )
    if not client.is_started and not has_asked(dropped):
        return finished(k, with_outcome(dropped, Outcome.ABORTED))
    return replace(with_outcome(dropped, Outcome.ABORT_ASKED), state=ClientState.ABORTING)


# Requests


def request_of(k: Configuration, client: Client, api: Api) -> Request:
    """A request with the client's producer id and epoch."""
    return Request(
        api=api,
        producer_id=client.producer_id,
        producer_epoch=client.producer_epoch,
        partitions=Map.filled(k.bounds.partitions, False),
        committed=False,
        partition=0,
        batch=NO_BATCH,
        guard=NO_OFFSET,
    )


@acts
def ask_producer_id(k: Configuration, client: Client) -> Step[Client, Request]:
    """Send InitProducerId; with the present id and epoch if only the epoch is to be bumped."""
    require(client.state == ClientState.INITIALIZING)
    require(not client.too_late)
    return Step(client, (request_of(k, client, Api.INIT_PRODUCER_ID),))


def of_membership(
    k: Configuration, client: Client, membership: Membership, of_group: bool
) -> Map[Partition, bool]:
    """The partitions of this membership: the group's, or all others."""
    return Map(
        tuple(
            t.membership == membership and is_of_group(k, p) == of_group
            for p, t in client.partitions.items()
        )
    )


def asked_partitions(k: Configuration, client: Client, of_group: bool) -> Map[Partition, bool]:
    """The partitions for which a request was sent."""
    return of_membership(k, client, Membership.ASKED, of_group)


def to_be_asked(k: Configuration, client: Client, of_group: bool) -> Map[Partition, bool]:
    """The partitions of the next request. A request that is sent again has the same partitions as
    before; a new one has all new partitions."""
    again = asked_partitions(k, client, of_group)
    new = of_membership(k, client, Membership.NEW, of_group)
    return again if has_any(again) else new


def has_any(partitions: Map[Partition, bool]) -> bool:
    """Whether the set has a partition."""
    return any(there for there in partitions.values())


def adding(
    k: Configuration, client: Client, api: Api, partitions: Map[Partition, bool]
) -> Step[Client, Request]:
    """Send a request of V1 that adds partitions."""
    require(k.variant.requests == Requests.V1)
    require(is_working(client) and client.state != ClientState.ABORTABLE_ERROR)
    require(has_any(partitions))
    asked = replace(
        client,
        partitions=Map(tuple(asked_for(t, partitions[p]) for p, t in client.partitions.items())),
    )
    return Step(asked, (replace(request_of(k, client, api), partitions=partitions),))


def asked_for(there: ClientPartition, asked: bool) -> ClientPartition:
    """The partition, with the request to add it on its way if `asked`."""
    return replace(there, membership=Membership.ASKED if asked else there.membership)


@acts
def add_partitions(k: Configuration, client: Client) -> Step[Client, Request]:
    """Send AddPartitionsToTxn, again, or for all new partitions."""
    return adding(k, client, Api.ADD_PARTITIONS_TO_TXN, to_be_asked(k, client, False))


@acts
def add_offsets(k: Configuration, client: Client) -> Step[Client, Request]:
    """Send AddOffsetsToTxn for the group's partition."""
    return adding(k, client, Api.ADD_OFFSETS_TO_TXN, to_be_asked(k, client, True))


def is_working(client: Client) -> bool:
    """Whether batches go out, including those that an abort waits for."""
    return (
        client.state == ClientState.IN_TRANSACTION
        or client.state == ClientState.COMMITTING
        or client.state == ClientState.ABORTING
        or client.state == ClientState.ABORTABLE_ERROR
    )


def must_add_first(client: Client) -> bool:
    """Whether batches wait until partitions are added.
    Sender.maybeSendAndPollTransactionalRequest."""
    adds = any(waits_to_be_added(there) for there in client.partitions.values())
    return adds and client.state != ClientState.ABORTABLE_ERROR


def numbered(
    client: Client, instance: Instance, base_sequence: Sequence, number: WriteNumber
) -> Batch:
    """A batch of the present transaction."""
    return Batch(
        producer_id=client.producer_id,
        producer_epoch=client.producer_epoch,
        base_sequence=base_sequence,
        instance=instance,
        transaction=present(client),
        number=number,
    )


@acts
def commit_offsets(
    k: Configuration, client: Client, instance: Instance, partition: Partition
) -> Step[Client, Request]:
    """Send TxnOffsetCommit, for the first time or again."""
    there = client.partitions[partition]
    require(is_of_group(k, partition))
    require(client.state == ClientState.IN_TRANSACTION)
    require(there.membership == Membership.IN)
    require(there.write != Write.NONE)
    batch = numbered(client, instance, 0, there.written - 1)
    sent = client.partitions.put(partition, replace(there, write=Write.SENT))
    request = request_of(k, client, Api.TXN_OFFSET_COMMIT)
    named = replace(request, partition=partition, batch=batch)
    return Step(replace(client, partitions=sent), (named,))


def is_quiet(client: Client) -> bool:
    """Whether all batches are finished, and all partitions are added."""
    return not any(
        is_unfinished(there) or waits_to_be_added(there) for there in client.partitions.values()
    )


@acts
def end_transaction(k: Configuration, client: Client) -> Step[Client, Request]:
    """Send EndTxn, once all batches are finished."""
    require(client.state == ClientState.COMMITTING or client.state == ClientState.ABORTING)
    require(is_quiet(client))
    committed = client.state == ClientState.COMMITTING
    return Step(client, (replace(request_of(k, client, Api.END_TXN), committed=committed),))


# Answers


def in_error(k: Configuration, client: Client, effect: Effect) -> Client:
    """The client after an error with this effect, unless the request is sent again. An abort in
    progress goes on."""
    if effect == Effect.DIE:
        return replace(client, state=ClientState.FATAL_ERROR)
    if effect == Effect.RETRY or client.state == ClientState.ABORTING:
        return client
    return replace(client, state=ClientState.ABORTABLE_ERROR)


def is_completing(client: Client) -> bool:
    """Whether the application has asked for the end."""
    return client.state == ClientState.COMMITTING or client.state == ClientState.ABORTING


def bumps(k: Configuration) -> bool:
    """Whether the client itself asks for the next epoch. needToTriggerEpochBumpFromClient."""
    return not speaks_v2(k) and k.variant.bump == Bump.ASKS


def in_batch_error(k: Configuration, client: Client, effect: Effect) -> Client:
    """The client after an error for a batch. Its epoch ends with the transaction, unless the
    application had already asked for the end. TransactionManager.maybeTransitionToErrorState."""
    must_bump = client.must_bump or (bumps(k) and not is_completing(client))
    return replace(
        in_error(k, client, effect),
        must_bump=must_bump if effect == Effect.ABORT else client.must_bump,
    )


def numbered_anew(k: Configuration, there: ClientPartition) -> ClientPartition:
    """The partition, with sequences from 0 again."""
    return replace(there, membership=Membership.OUT, next_sequence=0, has_gap=False, written=0)


def left(k: Configuration, there: ClientPartition) -> ClientPartition:
    """The partition in no transaction; its sequences go on."""
    return replace(there, membership=Membership.OUT, written=0)


@receives
def on_producer_id(k: Configuration, client: Client, answer: Answer) -> Client:
    """Handle the answer to InitProducerId. InitProducerIdHandler."""
    if answer.error != Error.NONE:
        return in_error(k, client, effect_of(answer.error))
    return replace(
        client,
        state=ClientState.READY,
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        must_bump=False,
        partitions=Map(tuple(numbered_anew(k, t) for t in client.partitions.values())),
    )


def joined(there: ClientPartition, added: bool) -> ClientPartition:
    """The partition, in the transaction if it was `added`."""
    return replace(there, membership=Membership.IN if added else there.membership)


@receives
def on_partitions_added(
    k: Configuration, client: Client, partitions: Map[Partition, bool], answer: Answer
) -> Client:
    """Handle the answer to AddPartitionsToTxn or AddOffsetsToTxn. AddPartitionsToTxnHandler."""
    if answer.error != Error.NONE:
        return in_error(k, client, effect_of(answer.error))
    return replace(
        client,
        is_started=True,
        partitions=Map(tuple(joined(t, partitions[p]) for p, t in client.partitions.items())),
    )


def settled(client: Client, partition: Partition) -> Client:
    """The client, with the partition's newest batch finished."""
    there = replace(client.partitions[partition], write=Write.NONE)
    return replace(client, partitions=client.partitions.put(partition, there))


def with_partition(client: Client, partition: Partition, there: ClientPartition) -> Client:
    """The client with one partition replaced."""
    return replace(client, partitions=client.partitions.put(partition, there))


@receives
def on_offsets_committed(
    k: Configuration, client: Client, partition: Partition, answer: ProduceAnswer
) -> Client:
    """Handle the answer to TxnOffsetCommit; an error that is not retriable finishes the commit of
    offsets. TxnOffsetCommitHandler."""
    if answer.error == Error.NONE:
        return settled(client, partition)
    effect = effect_of(answer.error)
    if effect == Effect.RETRY:
        return client
    return in_error(k, settled(client, partition), effect)


@receives
def lose_coordinator(k: Configuration, client: Client) -> Client:
    """Change nothing: the connection to the coordinator breaks, and an unanswered request is sent
    again. NetworkClient.processDisconnection."""
    return client


@acts
def find_coordinator(k: Configuration, client: Client) -> Client:
    """Change nothing: FindCoordinator was sent and answered.
    TransactionManager.lookupCoordinator."""
    return client


def unresolved(k: Configuration, before: Client, client: Client) -> Client:
    """The client, which needs the next epoch because it does not know whether a log has a sequence.
    During an abort this may be too late: EndTxn is already queued, and nothing follows it.
    TransactionManager.maybeResolveSequences, beginCompletingTransaction."""
    forgets = k.variant.late_bump == LateBump.FORGOTTEN
    late = forgets and before.state == ClientState.ABORTING and not before.must_bump
    return replace(client, must_bump=True, too_late=client.too_late or late)


def finished(k: Configuration, client: Client) -> Client:
    """The client after its transaction, without partitions; with V1 sequences go on.
    TransactionManager.completeTransaction."""
    return replace(
        client,
        state=ClientState.INITIALIZING if client.must_bump else ClientState.READY,
        is_started=False,
        partitions=Map(tuple(left(k, t) for t in client.partitions.values())),
    )


def with_next(k: Configuration, client: Client, answer: Answer) -> Client:
    """The client, with the id and epoch that the answer gives, and sequences from 0 again; V1
    changes nothing."""
    if not speaks_v2(k):
        return client
    return replace(
        client,
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        partitions=Map(tuple(numbered_anew(k, t) for t in client.partitions.values())),
    )


@receives
def on_ended(k: Configuration, client: Client, answer: Answer) -> Client:
    """Handle the answer to EndTxn. EndTxnHandler."""
    if answer.error != Error.NONE:
        return in_error(k, client, effect_of(answer.error))
    done = Outcome.COMMITTED if client.state == ClientState.COMMITTING else Outcome.ABORTED
    return finished(k, with_next(k, with_outcome(client, done), answer))
