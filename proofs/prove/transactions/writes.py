"""Clauses about the leader of a partition and its coordinator: nothing is written outside of a
transaction, and nothing by a fenced instance."""

from __future__ import annotations

from model.transactions.configuration import Configuration, Verification
from model.transactions.messages import speaks_v2
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.coordinator import SOUND, in_transaction, is_before
from proofs.prove.transactions.epochs import AWAITED
from proofs.prove.transactions.partition import entry, is_open
from proofs.prove.transactions.symbolic_state import Image, TransactionsState

KNOWN = (*SOUND, "partitions_are_in_transactions")
OUTSIDE = (*KNOWN, "leaders_ask", "no_write_outside")
REIGN = (*OUTSIDE, *AWAITED, "reign_is_past", "open_is_not_older")


def leaders_ask(k: Configuration) -> bool:
    """Leaders ask the coordinator before the first write of a transaction: 3.6 and later."""
    return k.variant.verification == Verification.ASKS or speaks_v2(k)


@invariant(needs=KNOWN)
def partitions_are_in_transactions(k: Configuration, s: TransactionsState) -> bool:
    """Only an open transaction has partitions; what is known to be in it is in the log, and stays
    in whatever is on its way."""
    return all(all(keeps(s, image, at) for image in s.images) for at in range(k.bounds.partitions))


def keeps(s: TransactionsState, image: Image, at: int) -> bool:
    """Whether an image has a partition that is known to be in the transaction, and has partitions
    only in a transaction."""
    same = image.producer_id == s.known.producer_id
    return (not s.known.partitions[at] or (image.partitions[at] and same)) and (
        not image.partitions[at] or in_transaction(image)
    )


@guarantee(needs=OUTSIDE)
def no_write_outside(s: TransactionsState) -> bool:
    """What is open at a partition is open at the coordinator too: nothing hangs."""
    return all(
        all(
            in_transaction(image) and image.producer_id == p and image.partitions[s.here]
            for image in s.images
        )
        for p in s.producer_ids
        if is_open(s, p)
    )


@invariant(needs=SOUND)
def who_waits_begins(s: TransactionsState) -> bool:
    """Who waits for a pair waits for an image in which no transaction is open."""
    return not (s.coordinator.is_appending and s.awaited > 0) or not in_transaction(s.appended)


@invariant(needs=(*REIGN, "who_waits_begins"))
def open_is_not_older(s: TransactionsState) -> bool:
    """What is open here has no older pair than InitProducerId told last: what is older is over."""
    return all(
        not is_before((p, entry(s, p).producer_epoch), s.reign)
        for p in s.producer_ids
        if is_open(s, p)
    )


@guarantee(needs=REIGN)
def nothing_older_is_written(s: TransactionsState) -> bool:
    """After InitProducerId has told a pair, no batch of an older one comes into the log: nothing
    older becomes visible but what was there, and is decided."""
    return not s.trespassed
