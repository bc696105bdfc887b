"""The faults that can happen between producers and leaders."""

from __future__ import annotations

from model.faults import fault_table


@fault_table
class Faults:
    """The number of times that each fault has happened, or may happen."""

    breaks: int = 0
    """A connection breaks."""
    refusals: int = 0
    """Too few replicas are in sync when a request arrives."""
    rejections: int = 0
    """A batch is refused for good: no retry can help."""
    restarts: int = 0
    """A broker stops and comes back."""
    failovers: int = 0
    """Another replica becomes leader, which has all records below the high watermark."""
    losses: int = 0
    """Another replica becomes leader, which lacks records below the high watermark."""
    crashes: int = 0
    """A broker is killed, and comes back with an old snapshot."""
    expiries: int = 0
    """A leader forgets a producer id that has been silent for too long."""
    deletions: int = 0
    """The head of a log is deleted."""
    late_errors: int = 0
    """A request fails although its batch is stored."""
    timeouts: int = 0
    """The delivery time of a batch is up."""
