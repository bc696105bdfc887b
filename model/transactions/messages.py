"""The messages between clients, coordinator and leaders, and the numbers in them."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from model.language import Index, Map, Range, record
from model.releases import Requests
from model.transactions.configuration import Configuration

Instance = Annotated[int, Index("instances")]
"""One run of the application; all runs have the same transactional id."""
InstanceOrNone = Annotated[int, Range(-1, "last_instance")]
Partition = Annotated[int, Index("partitions")]
Transaction = Annotated[int, Index("transactions")]
"""The n-th transaction of an instance."""
TransactionCount = Annotated[int, Range(0, "transactions")]
WriteNumber = Annotated[int, Range(0, "last_write")]
WriteCount = Annotated[int, Range(0, "writes")]
ProducerId = Annotated[int, Index("producer_ids")]
"""A producer id, counted from 0 in the order of first use."""
ProducerIdOrNone = Annotated[int, Range(-1, "last_producer_id")]
Epoch = Annotated[int, Range(0, "max_epoch")]
EpochOrNone = Annotated[int, Range(-1, "max_epoch")]
CoordinatorEpoch = Annotated[int, Range(0, "faults.moves")]
CoordinatorEpochOrNone = Annotated[int, Range(-1, "faults.moves")]
Sequence = Annotated[int, Range(0, "max_sequence")]
SequenceOrNone = Annotated[int, Range(-1, "max_sequence")]
Offset = Annotated[int, Range(0, "log")]
OffsetOrNone = Annotated[int, Range(-1, "log")]
Flag = Annotated[int, Range(0, 1)]
"""A choice between two: 0 or 1."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1


class Error(IntEnum):
    """The error codes of Kafka that this part of the protocol answers."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    NOT_ENOUGH_REPLICAS = 19
    INVALID_TIMESTAMP = 32
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    PRODUCER_FENCED = 90
    TRANSACTION_ABORTABLE = 120


class Api(IntEnum):
    """The requests of a transactional client."""

    PRODUCE = 0
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


@record
class Batch:
    """A transactional batch of one record. `instance`, `transaction` and `number` stand for the
    content of the record; no broker reads them."""

    producer_id: ProducerId
    producer_epoch: Epoch
    base_sequence: Sequence
    instance: Instance
    transaction: Transaction
    number: WriteNumber


@record
class Request:
    """Any request of a client; each API uses some of the fields.

    InitProducerId has the producer id and epoch that the client knows, AddPartitionsToTxn its
    `partitions`, EndTxn its result, and Produce its `batch` for `partition`. TxnOffsetCommit also
    has a `batch`, which the group coordinator makes of it. `guard` is the verification guard that a
    leader gave to a batch that it has verified.
    """

    api: Api
    producer_id: ProducerIdOrNone
    producer_epoch: EpochOrNone
    partitions: Map[Partition, bool]
    committed: bool
    partition: Partition
    batch: Batch
    guard: OffsetOrNone


@record
class Answer:
    """The answer to a request. Those to InitProducerId and to EndTxn of V2 give the producer id and
    epoch to use next."""

    error: Error
    producer_id: ProducerIdOrNone
    producer_epoch: EpochOrNone


@record
class ProduceAnswer:
    """The answer to Produce or TxnOffsetCommit; the latter has no offset."""

    error: Error
    base_offset: OffsetOrNone


@record
class Marker:
    """WriteTxnMarkers for one partition."""

    producer_id: ProducerId
    producer_epoch: Epoch
    committed: bool
    coordinator_epoch: CoordinatorEpoch
    partition: Partition


NO_BATCH = Batch(
    producer_id=0, producer_epoch=0, base_sequence=0, instance=0, transaction=0, number=0
)


def is_of_group(k: Configuration, partition: Partition) -> bool:
    """Whether the partition holds the group's offsets."""
    return k.bounds.offsets and partition == k.bounds.last_partition


def speaks_v2(k: Configuration) -> bool:
    """Whether clients send Produce 12 and EndTxn 5."""
    return k.variant.requests == Requests.V2


def failed(error: Error) -> Answer:
    """An answer with an error alone."""
    return Answer(error=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
