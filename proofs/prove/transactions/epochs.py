"""Epochs never go back, and requests of fenced instances change nothing."""

from __future__ import annotations

from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.coordinator import SOUND, is_absent, is_answer, is_before, is_past
from proofs.prove.transactions.symbolic_state import ANEW, TransactionsState, pair

GIVEN = (*SOUND, "given_is_past", "answers_are_of_images")
AWAITED = (*GIVEN, "what_is_awaited_is_new")


@invariant(needs=SOUND)
def answers_are_of_images(s: TransactionsState) -> bool:
    """What an answer will tell is what the image makes known, or the next producer id's first."""
    told = pair(s.coordinator.answer)
    return not (s.coordinator.is_appending and is_answer(s.coordinator)) or (
        told in (pair(s.appended), (s.appended.next_producer_id, 0))
    )


@invariant(needs=GIVEN)
def given_is_past(s: TransactionsState) -> bool:
    """A pair that was told is not ahead of what is known; of the next producer id, only the first
    epoch may have been told."""
    return all(is_past(s, p, e) for p, e in s.given)


@invariant(needs=GIVEN)
def what_is_awaited_is_new(s: TransactionsState) -> bool:
    """Who waits for a new pair waits for the one on its way to the log, which nobody was told; who
    waits for one at all, for that one."""
    told = pair(s.coordinator.answer)
    return not (s.coordinator.is_appending and s.awaited > 0) or (
        told == pair(s.appended) and not (s.awaited == ANEW and told in s.given)
    )


@guarantee(needs=AWAITED)
def epochs_unique(s: TransactionsState) -> bool:
    """InitProducerId tells a pair that nobody was told before; but for whoever shows the pair
    before the present one: it may hear the present one again."""
    return not s.repeated


@invariant(needs=AWAITED)
def reign_is_past(s: TransactionsState) -> bool:
    """What InitProducerId told last is not ahead of what is known, or the id is forgotten."""
    return s.reign[0] < s.coordinator.given_producer_ids and all(
        is_absent(image) or not is_before(pair(image), s.reign) for image in s.images
    )


@guarantee(needs=(*AWAITED, "reign_is_past"))
def epochs_never_go_back(s: TransactionsState) -> bool:
    """What InitProducerId tells is never before what it told before."""
    return not s.went_back


@guarantee(needs=(*SOUND, "reign_is_past"))
def fenced_change_nothing(s: TransactionsState) -> bool:
    """After InitProducerId has told a pair, no EndTxn and no AddPartitionsToTxn of an older pair
    changes what the coordinator knows, or logs."""
    return not s.disturbed
