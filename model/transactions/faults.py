"""The faults that can happen around a transactional id."""

from __future__ import annotations

from model.faults import fault_table


@fault_table
class Faults:
    """The number of times that each fault has happened, or may happen."""

    delays: int = 0
    """A client gives up a request, which may still arrive."""
    unheard: int = 0
    """An answer to a client is lost."""
    expirations: int = 0
    """The delivery time of a batch is up."""
    rejections: int = 0
    """A batch is refused for good: no retry can help."""
    marker_losses: int = 0
    """The answer to a marker is lost."""
    marker_delays: int = 0
    """A coordinator gives up a marker, which may still arrive after its retry."""
    moves: int = 0
    """Another broker becomes the coordinator."""
    timeouts: int = 0
    """A transaction lasts too long."""
    forgotten: int = 0
    """The transactional id expires."""
    failures: int = 0
    """An append to the transaction log fails, or is only reported as failed."""
    others: int = 0
    """Another transactional id opens a transaction, which holds back readers of a partition."""
    leaves: int = 0
    """A leader leaves, and no other takes its place."""
