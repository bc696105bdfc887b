"""Requests that no client of a scope sends, and that coordinators and leaders must refuse.

1. A coordinator gets EndTxn and AddPartitionsToTxn from a producer of a newer epoch (KAFKA-9600),
   and from one with an unknown id, which also asks for its next epoch (KIP-360).
2. Inside an open transaction, a leader gets a plain batch, and a batch that leaves out a sequence.
   This is not done while the next transaction is verified, since its lowest sequence comes first.
   Before that transaction begins, a plain batch must not end its verification.

Theory of operation: in each state that an actor reaches, the judge asks a copy for its `refusals`
and compares them with the errors that follow from the view. Kafka checks these cases first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from conformance.adapters.impl.transactions.messages import NONE
from conformance.judging.system import View
from impl import ErrorCode


class Refusals(NamedTuple):
    """The answers of a coordinator to `strangers`, with a newer epoch and with an unknown id: to
    EndTxn in V1 and V2, and to AddPartitionsToTxn to verify and to add. `initializing` is the
    answer to InitProducerId of the unknown id, "" if it was not sent."""

    strangers: tuple[tuple[tuple[str, ...], ...], ...]
    initializing: str


_E = ErrorCode

BY_LEADERSHIP: Final[Mapping[str, ErrorCode]] = {
    "LOADS": _E.COORDINATOR_LOAD_IN_PROGRESS,
    "RESIGNED": _E.NOT_COORDINATOR,
}
"""The error of a coordinator that does not have its ids loaded, by its leadership."""
STRANGERS: Final = (_E.PRODUCER_FENCED, _E.INVALID_PRODUCER_ID_MAPPING)
"""The errors for a newer epoch, and for an unknown id."""
BUSY: Final = _E.CONCURRENT_TRANSACTIONS

IN_TRANSACTION: Final = (_E.INVALID_TXN_STATE.name, _E.OUT_OF_ORDER_SEQUENCE_NUMBER.name)
"""The errors inside a transaction for a plain batch, and for one that leaves out a sequence."""
WHILE_VERIFIED: Final = ("the verification stays",)
"""The state after a plain batch while a transaction's first batch is verified."""


def is_refused(view: View, refusals: Refusals) -> bool:
    """Whether a coordinator refuses strangers as it must, by its view."""
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
    """The refusals that a leader owes, producer by producer, by its view."""
    for (epoch, *_, first_offset), (verified_epoch, _) in zip(view[1], view[2], strict=True):
        is_open, is_verified = first_offset != NONE, verified_epoch != NONE
        if is_open == is_verified or epoch == NONE:
            yield ()
        else:
            yield IN_TRANSACTION if is_open else WHILE_VERIFIED
