"""What goes wrong between producers and leaders."""

from __future__ import annotations

from model.faults import fault_table


@fault_table
class Faults:
    """How often each fault has happened, or may."""

    breaks: int = 0
    """A connection breaks."""
    refusals: int = 0
    """Too few replicas are in sync when a request arrives."""
    rejections: int = 0
    """A batch is refused for good: no retry can help."""
    restarts: int = 0
    """A broker stops and comes back."""
    failovers: int = 0
    """Another replica leads; it has all that was acknowledged by all."""
    losses: int = 0
    """A replica leads that lacks some of that."""
    crashes: int = 0
    """A broker is killed, and comes back with an old snapshot."""
    expiries: int = 0
    """A leader forgets a producer id that it has not heard of for long."""
    deletions: int = 0
    """The head of a log is deleted."""
    late_errors: int = 0
    """A request fails although its batch is stored."""
    timeouts: int = 0
    """The delivery time of a batch is up."""
