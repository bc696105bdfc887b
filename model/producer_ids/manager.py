"""A broker and its blocks of producer ids: one block in use and one fetched ahead.

Models `ProducerIdManager`, `RPCProducerIdManager` and `ZkProducerIdManager`. Retry delays are left
out: a broker that wants a block may ask at any moment.

Theory of operation. A broker gives ids from the block in use, in their order. Releases that fetch
ahead ask for the next block at one id alone, that at nine tenths of the block, and again when the
block is empty. A broker has at most one request for a block under way. Older releases ask when the
block is empty. No block is ever given back: a restart burns the rest of both.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

from model.language import acts, record, require
from model.producer_ids.configuration import Configuration, Fetching, Form
from model.producer_ids.messages import NO_BLOCK, BlockCount, BlockOrNone, Broker, Used
from model.producer_ids.store import Allocated, Store, Written, is_exhausted


class Asking(IntEnum):
    """How far a broker's request for the next block has come."""

    IDLE = 0
    WANTED = 1
    """The broker will ask."""
    READ = 2
    """The broker has read the latest block, and will write the next. ZooKeeper only."""


@record
class Manager:
    """One broker. It has given `used` ids of `block`, and has fetched `next_block` ahead.
    `read_block` and `read_version` are what it found in ZooKeeper; `tried` is the block that it
    last tried to write."""

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
    """Whether no id is left in the block in use."""
    return manager.block == NO_BLOCK or manager.used == k.bounds.block_size


def next_id(k: Configuration, manager: Manager) -> int:
    """The id that the broker gives next."""
    return manager.block * k.bounds.block_size + manager.used


def wanting(k: Configuration, manager: Manager, wants: bool) -> Manager:
    """The broker, which now wants a block if `wants`, unless it asks already or has a next
    block."""
    idle = manager.asking == Asking.IDLE and manager.next_block == NO_BLOCK
    return replace(manager, asking=Asking.WANTED if wants and idle else manager.asking)


@acts
def give_id(k: Configuration, manager: Manager) -> Manager:
    """Give one id. RPCProducerIdManager.generateProducerId."""
    require(not is_empty(k, manager))
    given = replace(manager, used=manager.used + 1)
    ahead = k.variant.fetching == Fetching.AHEAD and manager.used == k.bounds.prefetch_at
    return wanting(k, given, ahead)


@acts
def refuse_id(k: Configuration, manager: Manager) -> Manager:
    """Refuse an id, because none is left: COORDINATOR_LOAD_IN_PROGRESS. The broker asks for the
    next block."""
    require(k.variant.fetching == Fetching.AHEAD)
    require(is_empty(k, manager))
    require(manager.next_block == NO_BLOCK)
    return wanting(k, manager, True)


@acts
def want_block(k: Configuration, manager: Manager) -> Manager:
    """Ask for a block. In older releases the broker keeps the client waiting meanwhile.
    ProducerIdManager.generateProducerId."""
    require(k.variant.fetching == Fetching.WHEN_EMPTY)
    require(is_empty(k, manager))
    require(manager.asking == Asking.IDLE)
    require(manager.next_block == NO_BLOCK)
    return wanting(k, manager, True)


@acts
def turn_over(k: Configuration, manager: Manager) -> Manager:
    """Begin to use the block that was fetched ahead. RPCProducerIdManager.nextProducerIdBlock."""
    require(is_empty(k, manager))
    require(manager.next_block != NO_BLOCK)
    return replace(manager, block=manager.next_block, used=0, next_block=NO_BLOCK)


# ZooKeeper


@acts
def read_latest(k: Configuration, manager: Manager, store: Store, broker: Broker) -> Manager:
    """Read the latest block. A broker that checks takes a block that it finds to be its own write.
    ZkProducerIdManager.getNewProducerIdBlock, checkProducerIdBlockZkData."""
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
    """The broker, with the block as its next."""
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
    """Take the block that was written; after a bad version, read again."""
    require(manager.asking == Asking.READ)
    block = manager.read_block + 1
    return received(k, manager, block) if written.good else reading_again(manager, block)


@acts
def on_lost_answer(k: Configuration, manager: Manager) -> Manager:
    """Read again: the broker does not know whether its write was done. KafkaZkClient retries the
    write and gets a bad version."""
    require(manager.asking == Asking.READ)
    return reading_again(manager, manager.read_block + 1)


def reading_again(manager: Manager, block: int) -> Manager:
    """The broker, which will read the latest block and remembers the block that it tried to
    write."""
    return replace(manager, asking=Asking.WANTED, read_block=NO_BLOCK, read_version=0, tried=block)


# The controller


@acts
def on_allocated(k: Configuration, manager: Manager, allocated: Allocated) -> Manager:
    """Handle the answer to AllocateProducerIds.
    RPCProducerIdManager.handleAllocateProducerIdsResponse."""
    require(manager.asking == Asking.WANTED)
    if allocated.block == NO_BLOCK:
        return replace(manager, asking=Asking.IDLE)
    return received(k, manager, allocated.block)
