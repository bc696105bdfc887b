"""Where protocol.md contradicts the model: what is put right, and what is not followed, until the
model is right itself.

1. The error of a request that is late is put right: nobody hears it, so no state follows from it.
2. Where an actor becomes another than the model's the trace ends before that step (NotFollowed).
"""

from __future__ import annotations

from typing import Any, Final

from conformance.judge import NotFollowed
from conformance.systems.base import View
from conformance.systems.transactions.messages import NONE
from impl import ErrorCode

OLDER_EPOCH_FIRST: Final = "4.0"
"""The first release of which a patch looks at the epoch before the guard. KAFKA-19690."""

MEMORY_FENCES_BELOW: Final = 2
"""The first level of which an abort takes its epoch with the log."""

WRONG_BEHIND_GAP: Final = (
    "behind a batch of V1 whose outcome is unknown the next one is sent again (protocol.md 7.5)"
)
"""What the model's client does with OUT_OF_ORDER_SEQUENCE_NUMBER: it aborts."""
WRONG_BUMP: Final = "an abort of V1 for this takes no new epoch (protocol.md 7.8: A, not A/F)"
"""What the model's client does with TRANSACTION_ABORTABLE from a group coordinator."""
WRONG_UNBORN: Final = (
    "an id whose first InitProducerId did not come into the log keeps its producer id in memory,"
    " with epoch -1 (protocol.md 6.4, note)"
)
"""What the model's coordinator forgets: the next request gets another producer id."""

WRONG_FENCING: Final = (
    "below level 2 memory has the epoch of a fence before the log has it, so that requests of the"
    " epoch before are fenced at once (KAFKA-9666)"
)
"""What the model's coordinator knows too late."""


def check_heard(rule: str, error: int, *, has_gap: bool, is_v2: bool) -> None:
    """Raises NotFollowed where the model's client hears this wrong. `has_gap`: a batch before this
    one expired while its transaction was ending."""
    if has_gap and error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        raise NotFollowed(WRONG_BEHIND_GAP)
    is_commit = rule == "on_offsets_committed"
    if is_commit and not is_v2 and error == ErrorCode.TRANSACTION_ABORTABLE:
        raise NotFollowed(WRONG_BUMP)


def is_fencing(k: Any, coordinator: Any) -> bool:
    """Whether a fence that no log remembers the epoch of is on its way into the log."""
    image = coordinator.image.metadata
    return bool(
        k.variant.level < MEMORY_FENCES_BELOW
        and coordinator.is_appending
        and image.state.name == "PREPARE_ABORT"
        and coordinator.image.last_producer_epoch == NONE
        and image.producer_epoch != coordinator.known.metadata.producer_epoch
    )


def fencing_view(coordinator: Any, view: View) -> View:
    """The coordinator's view while it fences: memory has the epoch (see WRONG_FENCING)."""
    known, *others = view
    state, producer_id, _, _, *rest = known
    fenced = (state, producer_id, coordinator.image.metadata.producer_epoch, NONE, *rest)
    return (fenced, *others)


def offsets_answer_view(answer: View) -> View:
    """What TxnOffsetCommit is answered: no offset. That its transaction ends is told a client of V1
    as NOT_ENOUGH_REPLICAS for Produce alone (protocol.md 3.6)."""
    error, *producer, _ = answer
    busy = error == ErrorCode.NOT_ENOUGH_REPLICAS
    return (int(ErrorCode.CONCURRENT_TRANSACTIONS) if busy else error, *producer, NONE)


def guarded_answer_view(k: Any, entry: Any, batch: Any, answer: View) -> View:
    """What a batch is answered whose guard does not hold: an older epoch is looked at before
    (protocol.md 3.4, 2)."""
    is_older = batch.producer_epoch < entry.producer_epoch
    is_refused = answer[0] == ErrorCode.INVALID_TXN_STATE
    if is_older and is_refused and k.variant.release >= OLDER_EPOCH_FIRST:
        return (int(ErrorCode.INVALID_PRODUCER_EPOCH), *answer[1:])
    return answer
