"""Variants, bounds and budgets of producer id allocation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from model import scope
from model.producer_ids.faults import Faults


class Form(IntEnum):
    """The keeper of the latest block, and how a broker takes the next one."""

    CONTROLLER = 0
    """KRaft: a broker asks the controller, which records the next free id."""
    ZOOKEEPER = 1
    """Compare-and-set in ZooKeeper. A write whose answer is lost wastes its block."""
    ZOOKEEPER_CHECKED = 2
    """As ZOOKEEPER, but a broker that finds its own write in ZooKeeper takes that block."""


class Fetching(IntEnum):
    """When a broker fetches its next block."""

    AHEAD = 0
    """When nine tenths of the block are used, and again when the block is empty."""
    WHEN_EMPTY = 1
    """When the block is empty."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One Kafka: a release, or a release with some of its rules replaced by name."""

    name: str
    release: str
    form: Form = Form.CONTROLLER
    fetching: Fetching = Fetching.AHEAD


@dataclass(frozen=True, slots=True)
class Bounds(scope.Sizes):
    """Sizes of a state: there are `blocks` blocks of `block_size` ids. A block of Kafka has 1,000
    ids, and a broker fetches the next at index 900, which is `prefetch_at` here."""

    brokers: int = 2
    blocks: int = 3
    block_size: int = 2
    prefetch_at: int = 1
    producers: int = 2
    asked: int = 4
    faults: Faults = field(default_factory=Faults)

    @property
    def last_block(self) -> int:
        """The last block."""
        return self.blocks - 1

    @property
    def ids(self) -> int:
        """The number of producer ids."""
        return self.blocks * self.block_size

    @property
    def last_broker(self) -> int:
        """The last broker."""
        return self.brokers - 1


@dataclass(frozen=True, slots=True)
class Budgets(Faults):
    """How often each fault may happen in a run. `asked` counts the requests of producers."""

    asked: int = 4


Configuration = scope.Configuration[Variant, Bounds, Budgets]
"""The configuration that every rule may read."""
Scope = scope.Scope[Variant, Bounds, Budgets]
"""How much is explored, and why this much."""
