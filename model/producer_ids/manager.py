"""How a broker uses its blocks: one in use, one ahead, the rest of both lost at a restart.

Theory of operation. Ids are given from the block in use, in their order. In the releases that
fetch ahead, the id at nine tenths of the block, that one alone, makes the broker ask for the next,
and an empty block makes it ask again; it never has two requests on their way. Older releases ask
when the block is empty. A block is never given back: a restart burns what is left of it.
`ProducerIdManager`, `RPCProducerIdManager`, `ZkProducerIdManager`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.language import acts, record, require
from model.producer_ids.configuration import Configuration, Fetching, Form
from model.producer_ids.messages import NO_BLOCK, BlockCount, BlockOrNone, Broker, Used
from model.producer_ids.store import Allocated, Store, Written, is_exhausted


class Asking(IntEnum):
    """How far a broker is on its way to the next block."""

    IDLE = 0
    WANTED = 1
    """It will ask."""
    READ = 2
    """It has read the latest block, and will write the next. ZooKeeper only."""


@record
class Manager:
    """One broker: `used` ids of `block` are given; `next_block` was fetched ahead. `read_block` and
    `read_version` are what it found in ZooKeeper, `tried` the block that it last tried to write."""

    block: BlockOrNone
    used: Used
    next_block: BlockOrNone
    asking: Asking
    read_block: BlockOrNone
    read_version: BlockCount
    tried: BlockOrNone


NEW = Manager(
    block=NO_BLOCK,
    used=0,
    next_block=NO_BLOCK,
    asking=Asking.IDLE,
    read_block=NO_BLOCK,
    read_version=0,
    tried=NO_BLOCK,
)


def is_empty(k: Configuration, manager: Manager) -> bool:
    """No id is left in the block in use."""
    return manager.block == NO_BLOCK or manager.used == k.bounds.block_size


def next_id(k: Configuration, manager: Manager) -> int:
    """The id that is given next."""
    return manager.block * k.bounds.block_size + manager.used


def wanting(k: Configuration, manager: Manager, wants: bool) -> Manager:
    """The broker asks for a block, unless it does so already or has one."""
    idle = manager.asking == Asking.IDLE and manager.next_block == NO_BLOCK
    return replace(manager, asking=Asking.WANTED if wants and idle else manager.asking)


@acts
def give_id(k: Configuration, manager: Manager) -> Manager:
    """One id is given. RPCProducerIdManager.generateProducerId."""
    require(not is_empty(k, manager))
    given = replace(manager, used=manager.used + 1)
    ahead = k.variant.fetching == Fetching.AHEAD and manager.used == k.bounds.prefetch_at
    return wanting(k, given, ahead)


@acts
def refuse_id(k: Configuration, manager: Manager) -> Manager:
    """No id is left: COORDINATOR_LOAD_IN_PROGRESS, and the next block is asked for."""
    require(k.variant.fetching == Fetching.AHEAD)
    require(is_empty(k, manager))
    require(manager.next_block == NO_BLOCK)
    return wanting(k, manager, True)


@acts
def want_block(k: Configuration, manager: Manager) -> Manager:
    """A broker of the older releases keeps whoever asks waiting while it fetches a block.
    ProducerIdManager.generateProducerId."""
    require(k.variant.fetching == Fetching.WHEN_EMPTY)
    require(is_empty(k, manager))
    require(manager.asking == Asking.IDLE)
    require(manager.next_block == NO_BLOCK)
    return wanting(k, manager, True)


@acts
def turn_over(k: Configuration, manager: Manager) -> Manager:
    """The block that was fetched ahead comes into use. RPCProducerIdManager.nextProducerIdBlock."""
    require(is_empty(k, manager))
    require(manager.next_block != NO_BLOCK)
    return replace(manager, block=manager.next_block, used=0, next_block=NO_BLOCK)


# ZooKeeper


@acts
def read_latest(k: Configuration, manager: Manager, store: Store, broker: Broker) -> Manager:
    """The latest block is read; a broker that checks takes for its own what it had tried to
    write. ZkProducerIdManager.getNewProducerIdBlock, checkProducerIdBlockZkData."""
    require(manager.asking == Asking.WANTED)
    own = store.broker == broker and store.block == manager.tried
    if k.variant.form == Form.ZOOKEEPER_CHECKED and manager.tried != NO_BLOCK and own:
        return received(k, manager, store.block)
    return replace(
        manager,
        asking=Asking.IDLE if is_exhausted(k, store.block) else Asking.READ,
        read_block=store.block,
        read_version=store.version,
    )


def received(k: Configuration, manager: Manager, block: BlockOrNone) -> Manager:
    """A block is the broker's."""
    return replace(
        manager,
        next_block=block,
        asking=Asking.IDLE,
        read_block=NO_BLOCK,
        read_version=0,
        tried=NO_BLOCK,
    )


@acts
def on_written(k: Configuration, manager: Manager, written: Written) -> Manager:
    """The block that was written is the broker's; after a bad version it reads again."""
    require(manager.asking == Asking.READ)
    block = manager.read_block + 1
    return received(k, manager, block) if written.good else reading_again(manager, block)


@acts
def on_lost_answer(k: Configuration, manager: Manager) -> Manager:
    """Whether the write was done is not known. KafkaZkClient retries, and meets a bad version."""
    require(manager.asking == Asking.READ)
    return reading_again(manager, manager.read_block + 1)


def reading_again(manager: Manager, block: int) -> Manager:
    """The broker will read the latest block, and remembers what it tried to write."""
    return replace(manager, asking=Asking.WANTED, read_block=NO_BLOCK, read_version=0, tried=block)


# The controller


@acts
def on_allocated(k: Configuration, manager: Manager, allocated: Allocated) -> Manager:
    """AllocateProducerIds was answered. RPCProducerIdManager.handleAllocateProducerIdsResponse."""
    require(manager.asking == Asking.WANTED)
    if allocated.block == NO_BLOCK:
        return replace(manager, asking=Asking.IDLE)
    return received(k, manager, allocated.block)
