"""The faults that can happen to a group of members that process."""

from __future__ import annotations

from model.faults import fault_table


@fault_table
class Faults:
    """The number of times that each fault has happened, or may happen."""

    crashes: int = 0
    """A member's process ends."""
    timeouts: int = 0
    """A transaction lasts too long."""
