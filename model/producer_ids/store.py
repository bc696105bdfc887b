"""The store of the latest block: ZooKeeper's node with its version, or the controller.

Models `KafkaZkClient.conditionalUpdatePath` and `ProducerIdControlManager.generateNextProducerId`.
The store never fails and loses nothing; KRaft itself is not modelled.

Theory of operation. ZooKeeper writes a node only if the node still has the version that the writer
has read. If two brokers read the same block, one writes the next, and the other must read again.
The controller handles one request at a time, and records the next free id before it answers.
"""

from __future__ import annotations

from dataclasses import replace

from model.language import Step, receives, record
from model.producer_ids.configuration import Configuration
from model.producer_ids.messages import NO_BLOCK, BlockCount, BlockOrNone, Broker, BrokerOrNone


@record
class Store:
    """The latest block that was taken, the broker that took it, and the number of writes."""

    block: BlockOrNone
    broker: BrokerOrNone
    version: BlockCount


@record
class Written:
    """The answer to a conditional write."""

    good: bool


@record
class Allocated:
    """The answer to AllocateProducerIds: a block, or NO_BLOCK if there are no more."""

    block: BlockOrNone


def is_exhausted(k: Configuration, block: BlockOrNone) -> bool:
    """Whether no block follows. ZkProducerIdManager, ProducerIdControlManager."""
    return block == k.bounds.last_block


@receives
def on_write(
    k: Configuration, store: Store, broker: Broker, block: BlockOrNone, expected_version: BlockCount
) -> Step[Store, Written]:
    """Write the block if the version is the expected one. KafkaZkClient.conditionalUpdatePath."""
    if store.version != expected_version:
        return Step(store, (Written(good=False),))
    written = Store(block=block, broker=broker, version=store.version + 1)
    return Step(written, (Written(good=True),))


@receives
def on_allocate(k: Configuration, store: Store, broker: Broker) -> Step[Store, Allocated]:
    """Give the next block to the broker. ProducerIdControlManager.generateNextProducerId."""
    if is_exhausted(k, store.block):
        return Step(store, (Allocated(block=NO_BLOCK),))
    block = store.block + 1
    taken = replace(store, block=block, broker=broker, version=store.version + 1)
    return Step(taken, (Allocated(block=block),))
