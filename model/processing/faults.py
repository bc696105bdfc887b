"""What goes wrong in a group of members that process."""

from __future__ import annotations

from model.faults import fault_table


@fault_table
class Faults:
    """How often each fault has happened, or may."""

    crashes: int = 0
    """A member's process ends."""
    timeouts: int = 0
    """A transaction lasts too long."""
