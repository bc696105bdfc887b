"""The fate of a record: whether a marker has ended its transaction, and which."""

from __future__ import annotations

from model.transactions.client_state import Outcome
from model.transactions.leader import Kind, Stored
from model.transactions.world import World

Log = tuple[Stored, ...]


def is_marker(stored: Stored) -> bool:
    """Whether this is a marker of a modelled transaction."""
    return stored.kind == Kind.COMMIT or stored.kind == Kind.ABORT


def ended_by(log: Log, offset: int, kind: Kind) -> bool:
    """Whether the first marker of the record's producer id after the record is of this kind."""
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
    """Whether readers of committed records get the record once it is stable."""
    return ended_by(log, offset, Kind.COMMIT)


def is_aborted(log: Log, offset: int) -> bool:
    """Whether readers of committed records never get the record."""
    return ended_by(log, offset, Kind.ABORT)


def outcome_of(w: World, stored: Stored) -> Outcome:
    """The outcome of the record's transaction, as its application asked for it and was told."""
    return w.clients[stored.instance].outcomes[stored.transaction]


def asked_to_commit(outcome: Outcome) -> bool:
    """Whether the application has called commitTransaction."""
    return outcome == Outcome.COMMIT_ASKED or outcome == Outcome.COMMITTED


def asked_to_abort(outcome: Outcome) -> bool:
    """Whether the application has called abortTransaction."""
    return outcome == Outcome.ABORT_ASKED or outcome == Outcome.ABORTED


def is_decided(log: Log, offset: int) -> bool:
    """Whether a marker has ended the record's transaction."""
    return is_committed(log, offset) or is_aborted(log, offset)
