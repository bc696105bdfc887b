"""What coordinators and leaders refuse that no client of a scope asks: copies are asked.

1. A coordinator is asked to end a transaction, and to add to one, by a producer of a newer epoch
   (KAFKA-9600), and by one that it has never heard of; the latter also asks for its next epoch
   (KIP-360).
2. A leader is sent a plain batch inside an open transaction, and one that leaves out a sequence;
   not while the next transaction is verified, whose lowest sequence comes first. Before that one
   begins, a plain batch ends no verification.

Theory of operation: in each state that an actor comes to, the judge asks a copy for its `refusals`
and compares them with what the view of that state says: Kafka checks these before all else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from conformance.adapters.impl.transactions.messages import NONE
from conformance.judging.system import View
from impl import ErrorCode


class Refusals(NamedTuple):
    """What a coordinator answers `strangers`, of a newer epoch and with an unknown id: EndTxn in V1
    and V2, AddPartitionsToTxn to verify and to add. InitProducerId of the unknown id is answered
    `initializing`, "" where nobody asked."""

    strangers: tuple[tuple[tuple[str, ...], ...], ...]
    initializing: str


_E = ErrorCode

BY_LEADERSHIP: Final[Mapping[str, ErrorCode]] = {
    "LOADS": _E.COORDINATOR_LOAD_IN_PROGRESS,
    "RESIGNED": _E.NOT_COORDINATOR,
}
"""What those answer that know no ids."""
STRANGERS: Final = (_E.PRODUCER_FENCED, _E.INVALID_PRODUCER_ID_MAPPING)
"""What a newer epoch is answered, and an unknown id."""
BUSY: Final = _E.CONCURRENT_TRANSACTIONS

IN_TRANSACTION: Final = (_E.INVALID_TXN_STATE.name, _E.OUT_OF_ORDER_SEQUENCE_NUMBER.name)
"""What a plain batch is answered inside a transaction, and one that leaves out a sequence."""
WHILE_VERIFIED: Final = ("the verification stays",)
"""What follows a plain batch while a transaction's first batch is verified."""


def is_refused(view: View, refusals: Refusals) -> bool:
    """Whether a coordinator refuses strangers as it has to, by its view."""
    leadership, known, _, image, *_ = view
    state, is_appending = known[0], image[0] != "ABSENT"
    if leadership in BY_LEADERSHIP or state == "ABSENT":
        error = BY_LEADERSHIP.get(leadership, _E.INVALID_PRODUCER_ID_MAPPING).name
        return all(name == error for names in refusals.strangers for pair in names for name in pair)
    may_be_busy = {BUSY.name} if is_appending or state.startswith("PREPARE") else set()
    # An id whose first epoch was never logged belongs to nobody yet.
    initializing = _E.PRODUCER_FENCED.name if known[2] != NONE else ""
    return refusals.initializing in {initializing, *may_be_busy} and all(
        {in_v1, verified} == {error.name} and {in_v2, added} <= {error.name, *may_be_busy}
        for error, ((in_v1, in_v2), (verified, added)) in zip(
            STRANGERS, refusals.strangers, strict=True
        )
    )


def expected_in_transactions(view: View) -> Iterator[tuple[str, ...]]:
    """What a leader refuses, producer by producer, by its view."""
    for (epoch, *_, first_offset), (verified_epoch, _) in zip(view[1], view[2], strict=True):
        is_open, is_verified = first_offset != NONE, verified_epoch != NONE
        if is_open == is_verified or epoch == NONE:
            yield ()
        else:
            yield IN_TRANSACTION if is_open else WHILE_VERIFIED
