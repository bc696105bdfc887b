"""Who keeps the latest block: ZooKeeper's node with its version, or the controller.

Theory of operation. ZooKeeper writes a node only if its version is the one that the writer has
read: of two brokers that read the same block, one writes the next and the other reads again. The
controller answers one request after the other, and writes down the next free id before it answers.
"""

from __future__ import annotations

from dataclasses import replace

from model.language import Step, receives, record
from model.producer_ids.configuration import Configuration
from model.producer_ids.messages import NO_BLOCK, BlockCount, BlockOrNone, Broker, BrokerOrNone


@record
class Store:
    """The latest block that was taken, who took it, and how often that was written."""

    block: BlockOrNone
    broker: BrokerOrNone
    version: BlockCount


@record
class Written:
    """The answer to a conditional write."""

    good: bool


@record
class Allocated:
    """The answer to AllocateProducerIds: a block, or none where there are no more."""

    block: BlockOrNone


def is_exhausted(k: Configuration, block: BlockOrNone) -> bool:
    """No block follows. ZkProducerIdManager, ProducerIdControlManager."""
    return block == k.bounds.last_block


@receives
def on_write(
    k: Configuration, store: Store, broker: Broker, block: BlockOrNone, expected_version: BlockCount
) -> Step[Store, Written]:
    """KafkaZkClient.conditionalUpdatePath."""
    if store.version != expected_version:
        return Step(store, (Written(good=False),))
    written = Store(block=block, broker=broker, version=store.version + 1)
    return Step(written, (Written(good=True),))


@receives
def on_allocate(k: Configuration, store: Store, broker: Broker) -> Step[Store, Allocated]:
    """ProducerIdControlManager.generateNextProducerId."""
    if is_exhausted(k, store.block):
        return Step(store, (Allocated(block=NO_BLOCK),))
    block = store.block + 1
    taken = replace(store, block=block, broker=broker, version=store.version + 1)
    return Step(taken, (Allocated(block=block),))
