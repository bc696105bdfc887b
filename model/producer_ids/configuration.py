"""Which form of allocation, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from model import scope
from model.producer_ids.faults import Faults


class Form(IntEnum):
    """Who keeps the latest block, and how a broker takes the next one."""

    CONTROLLER = 0
    """A broker asks the controller, which writes the next free id down. KRaft."""
    ZOOKEEPER = 1
    """A compare-and-set in ZooKeeper; a write whose answer is lost wastes its block."""
    ZOOKEEPER_CHECKED = 2
    """The same, but a broker that finds its own data there takes it for its own."""


class Fetching(IntEnum):
    """When a broker asks for its next block."""

    AHEAD = 0
    """When nine tenths of the block are used, and when it is empty."""
    WHEN_EMPTY = 1
    """When the block is used up."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One Kafka."""

    name: str
    release: str
    form: Form = Form.CONTROLLER
    fetching: Fetching = Fetching.AHEAD


@dataclass(frozen=True, slots=True)
class Bounds(scope.Sizes):
    """Sizes: `blocks` of `block_size` ids are all that there are; Kafka's have 1,000 ids, and it
    asks for the next at index 900: `prefetch_at` here."""

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
        """How many producer ids there are."""
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
"""What every rule may ask."""
Scope = scope.Scope[Variant, Bounds, Budgets]
"""How much is explored, and why this much."""
