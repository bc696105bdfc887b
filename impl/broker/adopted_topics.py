"""A directory without metadata: a broker's whose metadata is in ZooKeeper, or a copied folder.

Five rules:

1. The topics are those of the folders. Their settings, users, ACLs and quotas are not here.
2. A folder without `partition.metadata`, as brokers before 2.8 and some of 2.8 leave it, is of the
   topic with its name, whose id is that of its other folders, or a new one.
3. Folders of one topic with different ids are of two topics with one name: the directory is
   refused, since one of them would be set aside.
4. So is a broker's directory that has some partitions of a topic: the others are in another log
   directory, or on another broker. A copied folder may have any.
5. Nothing says which producer ids were allocated. Ids begin with the first block behind all that
   stand in the logs: a broker's block has ids that never wrote.

Sources: `LogManager.loadLog`, `ZkProducerIdManager`, `TransactionLog`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from impl.broker.producer_ids import BLOCK_SIZE
from impl.broker.topics import Topic
from impl.coordinator.log_records import decode_value
from impl.coordinator.placement import TRANSACTION_STATE_TOPIC
from impl.log.checkpoint_files import PartitionName, format_id
from impl.partition.leader import PartitionLeader
from impl.protocol.record_batch import CONTROL, NO_PRODUCER_ID, decode_batch
from impl.storage.damaged_files import MissingPartitions, TopicIdMismatch
from impl.storage.log_directory import LogDirectory
from impl.storage.metadata_log import PartitionImage, TopicImage

_ID_BYTES: Final = 16


def find_topics(logs: LogDirectory, node_id: int) -> list[TopicImage]:
    """The topics of a directory's folders, all led by this node.

    Raises `TopicIdMismatch`, `DamagedFile`.
    """
    found: dict[str, dict[int, bytes | None]] = defaultdict(dict)
    for name, topic_id in logs.find_partitions().items():
        found[name.topic][name.partition] = topic_id
    return [
        TopicImage(
            topic, _id_of(logs, topic, owners), {}, _partitions(logs, topic, owners, node_id)
        )
        for topic, owners in found.items()
    ]


def check_whole(logs: LogDirectory, topics: Iterable[TopicImage]) -> None:
    """Raises `MissingPartitions` for a broker's directory that has some partitions of a topic."""
    for topic in topics:
        missing = [
            str(index)
            for index in topic.partitions
            if not logs.disk.list(str(PartitionName(topic.name, index)))
        ]
        if missing:
            problem = f"it has no folder of the topic {topic.name} for partition"
            problem += f"{'s' * (len(missing) > 1)} {', '.join(missing)}"
            raise MissingPartitions(logs.disk.name, problem)


def _id_of(logs: LogDirectory, topic: str, owners: dict[int, bytes | None]) -> bytes:
    """The only id in a topic's folders. Raises `TopicIdMismatch`."""
    ids = {topic_id: index for index, topic_id in owners.items() if topic_id is not None}
    if len(ids) > 1:
        rows = [f"{topic}-{index} has {format_id(topic_id)}" for topic_id, index in ids.items()]
        problem = f"folders of the topic {topic} have different ids: {', '.join(rows)}"
        raise TopicIdMismatch(logs.disk.name, problem)
    return next(iter(ids), None) or os.urandom(_ID_BYTES)


def _partitions(
    logs: LogDirectory, topic: str, owners: dict[int, bytes | None], node_id: int
) -> dict[int, PartitionImage]:
    """All partitions up to the last one that has a folder."""
    return {
        index: PartitionImage(
            node_id, logs.last_epoch(PartitionName(topic, index)), (node_id,), (node_id,)
        )
        for index in range(max(owners) + 1)
    }


def first_unused_id(topics: Iterable[Topic]) -> int:
    """The first producer id of the first block that no log knows. Raises `DecodeError`."""
    known = max((last for topic in topics for last in _last_ids(topic)), default=NO_PRODUCER_ID)
    return (known // BLOCK_SIZE + 1) * BLOCK_SIZE


def _last_ids(topic: Topic) -> Iterator[int]:
    """The greatest producer ids in the logs of a topic."""
    for leader in topic.partitions:
        yield max(leader.producers, default=NO_PRODUCER_ID)
        yield max((each.producer_id for each in leader.batches), default=NO_PRODUCER_ID)
        if topic.name == TRANSACTION_STATE_TOPIC:
            yield max(_transactional(leader), default=NO_PRODUCER_ID)


def _transactional(leader: PartitionLeader) -> Iterator[int]:
    """The producer ids of transactional ids, whether they have written or not."""
    for stored in leader.batches:
        if not stored.attributes & CONTROL:
            for record in decode_batch(stored.data).records:
                if record.value is not None:
                    image = decode_value(record.value)
                    yield max(image.producer_id, image.next_producer_id)
