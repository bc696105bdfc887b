"""The faults that can happen while brokers allocate producer ids."""

from __future__ import annotations

from model.faults import fault_table


@fault_table
class Faults:
    """The number of times that each fault has happened, or may happen."""

    lost: int = 0
    """An answer about a block is lost."""
    restarts: int = 0
    """A broker restarts."""
