"""Variants, bounds and budgets of an application that processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from model import scope
from model.processing.faults import Faults


class Processing(IntEnum):
    """The order in which a member writes its output and commits the offset of its input."""

    TRANSACTION = 0
    """Both in one transaction."""
    PRODUCE_FIRST = 1
    """The member produces, then commits the offset: at least once."""
    COMMIT_FIRST = 2
    """The member commits the offset, then produces: at most once."""


class TransactionalIds(IntEnum):
    """The owner of a transactional id: a member, or a partition."""

    OF_MEMBER = 0
    """A member keeps its own id, whatever partition it consumes."""
    OF_PARTITION = 1
    """The member that consumes the partition uses the partition's id, and fences the member before
    it."""


class GenerationCheck(IntEnum):
    """Whether the group refuses a transactional offset of a member that it has replaced."""

    CHECKED = 0
    """TxnOffsetCommit carries the member's generation."""
    ABSENT = 1
    """TxnOffsetCommit carries no generation."""


class OffsetReads(IntEnum):
    """The answer to OffsetFetch while an offset is pending in a transaction."""

    STABLE = 0
    """UNSTABLE_OFFSET_COMMIT: the member asks again."""
    UNSTABLE = 1
    """The offset that was committed before."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of processing, on one Kafka."""

    name: str
    release: str
    processing: Processing = Processing.TRANSACTION
    transactional_ids: TransactionalIds = TransactionalIds.OF_MEMBER
    generation_check: GenerationCheck = GenerationCheck.CHECKED
    offset_reads: OffsetReads = OffsetReads.STABLE


@dataclass(frozen=True, slots=True)
class Bounds(scope.Sizes):
    """Sizes of a state: `inputs` records in the one input partition, and `output` records that all
    attempts together can write."""

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
    """The number of times that each fault may happen in a run. The bounds limit the generations."""


Configuration = scope.Configuration[Variant, Bounds, Budgets]
"""The configuration that every rule may read."""
Scope = scope.Scope[Variant, Bounds, Budgets]
"""How much is explored, and why this much."""
