"""What goes wrong while brokers allocate producer ids."""

from __future__ import annotations

from model.faults import fault_table


@fault_table
class Faults:
    """How often each fault has happened, or may."""

    lost: int = 0
    """An answer about a block is lost."""
    restarts: int = 0
    """A broker restarts."""
