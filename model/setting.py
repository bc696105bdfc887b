"""Which Kafka, and how much of it: variants, layouts, budgets, and the setting they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

MAX_BATCHES_TO_REMEMBER = 5
"""Batches that a leader remembers for each producer id. ProducerStateEntry."""


class FirstSequence(IntEnum):
    """What a leader does with the first batch of a producer id that it does not know."""

    ANY = 0
    """Accepts any first sequence. 2.5 and later, KAFKA-14359."""
    STRICT = 1
    """Refuses all but 0."""


class RestartWindow(IntEnum):
    """How many batches of each producer id a leader still remembers after a restart."""

    ONE = 0
    """The last: a snapshot holds no more. KAFKA-9199."""
    FULL = 1
    """As many as before."""


class AckedSequence(IntEnum):
    """How a producer compares the last acknowledged sequence with others."""

    RAW = 0
    """As plain numbers, also across the wrap. TransactionManager."""
    WRAPS = 1
    """In the order of the sequences: 0 comes after the last."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One Kafka: a release, or a release with some of its rules replaced by name."""

    name: str
    release: str
    level: int
    requests: int
    first_sequence: FirstSequence
    restart_window: RestartWindow
    acked_sequence: AckedSequence


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes that shape a state: how many of each, and how far numbers go.

    `max_sequence` and `max_epoch` are the last of their kind; after the last sequence comes 0.
    `first_sequence` is where the producers' first epoch begins: with 0 nothing has happened yet,
    else the scope begins with one record, stored at that sequence and acknowledged.
    """

    producers: int = 1
    partitions: int = 1
    records: int = 4
    in_flight: int = 2
    max_batch: int = 2
    window: int = MAX_BATCHES_TO_REMEMBER
    log: int = 4
    broken_connections: int = 1
    max_sequence: int = 31
    first_sequence: int = 0
    max_epoch: int = 0
    replicas: int = 1
    max_breaks: int = 1
    max_refusals: int = 1
    max_restarts: int = 1
    max_failovers: int = 1

    @property
    def max_offset(self) -> int:
        """The last offset that can be a log's end."""
        return self.log * self.max_batch

    @property
    def last_broken(self) -> int:
        """The last index of a broken connection."""
        return self.broken_connections - 1

    @property
    def max_delta(self) -> int:
        """The last offset delta in a batch."""
        return self.max_batch - 1


@dataclass(frozen=True, slots=True)
class Budgets:
    """How often each event may happen in a run. Never above the layout's `max_` of the same name.

    `records` counts those that an application sends to each partition.
    """

    records: int = 2
    breaks: int = 1
    refusals: int = 0
    restarts: int = 0
    failovers: int = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """What every rule may ask: the variant, the layout and the budgets."""

    variant: Variant
    layout: Layout = field(default_factory=Layout)
    budgets: Budgets = field(default_factory=Budgets)
