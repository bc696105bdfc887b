"""What became of a record: whether a marker has ended its transaction, and how."""

from __future__ import annotations

from model.transactions.client_state import Outcome
from model.transactions.leader import Kind, Stored
from model.transactions.world import World

Log = tuple[Stored, ...]


def is_marker(stored: Stored) -> bool:
    """It ends a transaction of ours."""
    return stored.kind == Kind.COMMIT or stored.kind == Kind.ABORT


def ended_by(log: Log, offset: int, kind: Kind) -> bool:
    """The first marker of the record's producer id after it is of this kind."""
    producer_id = log[offset].producer_id
    return any(
        m.kind == kind
        and m.producer_id == producer_id
        and i > offset
        and not any(
            is_marker(b) and b.producer_id == producer_id and j > offset
            for j, b in enumerate(log[:i])
        )
        for i, m in enumerate(log)
    )


def is_committed(log: Log, offset: int) -> bool:
    """Readers of committed records get it, once it is stable."""
    return ended_by(log, offset, Kind.COMMIT)


def is_aborted(log: Log, offset: int) -> bool:
    """Readers of committed records never get it."""
    return ended_by(log, offset, Kind.ABORT)


def outcome_of(w: World, stored: Stored) -> Outcome:
    """What the application asked for the record's transaction, and was told."""
    return w.clients[stored.instance].outcomes[stored.transaction]


def asked_to_commit(outcome: Outcome) -> bool:
    """The application has called commitTransaction."""
    return outcome == Outcome.COMMIT_ASKED or outcome == Outcome.COMMITTED


def asked_to_abort(outcome: Outcome) -> bool:
    """The application has called abortTransaction."""
    return outcome == Outcome.ABORT_ASKED or outcome == Outcome.ABORTED


def is_decided(log: Log, offset: int) -> bool:
    """Its transaction is over."""
    return is_committed(log, offset) or is_aborted(log, offset)
