"""How an application processes, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from model import scope
from model.processing.faults import Faults


class Processing(IntEnum):
    """In which order a member writes what it made of a record, and that it is done with it."""

    TRANSACTION = 0
    """Both in one transaction."""
    PRODUCE_FIRST = 1
    """It produces, then commits the offset: at least once."""
    COMMIT_FIRST = 2
    """It commits the offset, then produces: at most once."""


class TransactionalIds(IntEnum):
    """Whose a transactional id is."""

    OF_MEMBER = 0
    """A member keeps its own, whatever it consumes."""
    OF_PARTITION = 1
    """Whoever consumes the partition has its id, and fences whoever had it before."""


class GenerationCheck(IntEnum):
    """Whether an offset in a transaction is taken of a member that the group has replaced."""

    CHECKED = 0
    """TxnOffsetCommit says the member's generation."""
    ABSENT = 1
    """It does not."""


class OffsetReads(IntEnum):
    """What OffsetFetch answers while an offset is pending in a transaction."""

    STABLE = 0
    """UNSTABLE_OFFSET_COMMIT: ask again."""
    UNSTABLE = 1
    """The offset that was committed before."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to process, with one Kafka."""

    name: str
    release: str
    processing: Processing = Processing.TRANSACTION
    transactional_ids: TransactionalIds = TransactionalIds.OF_MEMBER
    generation_check: GenerationCheck = GenerationCheck.CHECKED
    offset_reads: OffsetReads = OffsetReads.STABLE


@dataclass(frozen=True, slots=True)
class Bounds(scope.Sizes):
    """Sizes: `inputs` records in one partition, `output` records that all attempts can write."""

    members: int = 2
    inputs: int = 2
    output: int = 4
    max_generation: int = 3
    faults: Faults = field(default_factory=Faults)

    @property
    def last_input(self) -> int:
        """The last record of the input."""
        return self.inputs - 1


@dataclass(frozen=True, slots=True)
class Budgets(Faults):
    """How often each fault may happen in a run. Generations end with the bounds."""


Configuration = scope.Configuration[Variant, Bounds, Budgets]
"""What every rule may ask."""
Scope = scope.Scope[Variant, Bounds, Budgets]
"""How much is explored, and why this much."""
