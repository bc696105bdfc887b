"""The configurations in which each guarantee of the idempotent producer holds.

A condition reads the variant, the bounds and the budgets, never a world. P1, P2 and P3 are the
properties of KIP-98: at most once, no loss of acknowledged records, order.
"""

from __future__ import annotations

from model.idempotent.configuration import (
    Acks,
    Configuration,
    FirstSequence,
    HeadTruncation,
    Idempotence,
    Recovery,
    RestartWindow,
    Retries,
    SequenceOrder,
    Validation,
)


def keeps_producers(k: Configuration) -> bool:
    """No leader forgets a producer while its batches may still arrive."""
    b = k.budgets
    loses_disk = b.restarts > 0 or b.crashes > 0
    evicts = k.variant.head_truncation == HeadTruncation.EVICTS
    return b.expiries == 0 and (b.deletions == 0 or not (loses_disk or evicts))


def has_sequences(k: Configuration) -> bool:
    """Producers have producer ids, epochs and sequences."""
    return k.variant.idempotence == Idempotence.ENABLED


def is_idempotent(k: Configuration) -> bool:
    """Each producer has a producer id of its own, and leaders check all of its sequences."""
    return (
        has_sequences(k)
        and k.variant.validation == Validation.FULL
        and not k.bounds.shared_producer_id
        and not k.bounds.epochs_end
    )


def takes_every_record(k: Configuration) -> bool:
    """Producers are idempotent, and no single record is too large, because each of those bumps the
    epoch. A batch that is refused for good costs two bumps if leaders accept any first sequence:
    they take the next batch, although the producer has left its epoch."""
    strict = k.variant.first_sequence != FirstSequence.ANY
    return is_idempotent(k) and k.bounds.max_message > 0 and (strict or k.budgets.rejections == 0)


def keeps_its_numbers(k: Configuration) -> bool:
    """No producer gives the sequences of a batch of unknown outcome to other batches. Of all
    recoveries, only the local bump never does, KIP-360. In 2.0 a batch that fails under an old
    producer id takes sequences from the new id; there, no producer id may be given back at all."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    known = k.budgets.timeouts == 0 and k.budgets.rejections == 0
    return not mixes_ids(k) and (not resets or known)


def mixes_ids(k: Configuration) -> bool:
    """A batch that fails under an old producer id takes sequences from the new one."""
    return k.variant.recovery == Recovery.RESET_2_0 and not refuses_nothing_stored(k)


def refuses_nothing_stored(k: Configuration) -> bool:
    """A stored batch that is sent again is always remembered: no leader has lost part of its
    memory, and no error has let later batches push the batch out."""
    b = k.budgets
    in_order = b.refusals == 0 and b.late_errors == 0
    return keeps_producers(k) and keeps_whole_memory(k) and b.losses == 0 and in_order


def keeps_whole_memory(k: Configuration) -> bool:
    """Leaders remember as many batches as may be in flight, even after they come back."""
    b = k.budgets
    wide = k.bounds.in_flight <= k.bounds.window
    whole = k.variant.restart_window == RestartWindow.FULL or (b.restarts == 0 and b.crashes == 0)
    return wide and whole


def recognises_duplicates(k: Configuration) -> bool:
    """P1: producers are idempotent, and leaders keep their last batches."""
    return is_idempotent(k) and keeps_producers(k) and keeps_its_numbers(k)


def keeps_what_it_acknowledges(k: Configuration) -> bool:
    """P2: leaders acknowledge a record only when each replica that may lead has it."""
    failovers = k.budgets.failovers > 0 and k.bounds.replicas > 1
    is_safe = k.variant.acks == Acks.ALL or (k.variant.acks == Acks.LEADER and not failovers)
    alone = not k.bounds.shared_producer_id
    return is_safe and k.budgets.losses == 0 and alone and keeps_its_numbers(k)


def closes_gaps(k: Configuration) -> bool:
    """Producers have producer ids that outlast all epochs, and give up no batch of unknown
    outcome."""
    counts = k.variant.idempotence == Idempotence.ENABLED and not k.bounds.epochs_end
    return counts and not mixes_ids(k) and k.budgets.timeouts == 0


def waits_for_replicas(k: Configuration) -> bool:
    """Acknowledged records are kept, and each acknowledgement speaks for all replicas in sync."""
    return keeps_what_it_acknowledges(k) and k.variant.acks == Acks.ALL


def stores_once(k: Configuration) -> bool:
    """P1: leaders recognise duplicates, or producers send no batch again."""
    never_again = k.variant.retries == Retries.NONE
    alone = k.variant.idempotence == Idempotence.DISABLED
    return recognises_duplicates(k) or (never_again and alone)


def first_sequence_is_strict(k: Configuration) -> bool:
    """Leaders recognise duplicates, and refuse a first batch of an unknown producer that does not
    begin at 0."""
    return recognises_duplicates(k) and k.variant.first_sequence != FirstSequence.ANY


def memory_is_kept(k: Configuration) -> bool:
    """Leaders remember as many batches as may be in flight, whatever happens, and accept no unseen
    first sequence. Each batch ends by its answer, and none is refused for good: otherwise the next
    epoch renumbers the batches beside it, stored or not. KAFKA-14034."""
    b = k.budgets
    strict = k.variant.first_sequence != FirstSequence.ANY or b.refusals == 0
    lossless = b.losses == 0 and b.expiries == 0
    answered = b.timeouts == 0 and b.rejections == 0
    return recognises_duplicates(k) and keeps_whole_memory(k) and strict and lossless and answered


def memory_is_kept_in_order(k: Configuration) -> bool:
    """Memory is kept, no producer takes the sequences after the wrap for the first, and no error
    lets later batches push an earlier stored one out of the leader's memory."""
    in_order = k.variant.sequence_order == SequenceOrder.WRAPS or not k.bounds.wraps
    in_turn = k.budgets.refusals == 0 and k.budgets.late_errors == 0
    return memory_is_kept(k) and in_order and in_turn


def expires_nobody(k: Configuration) -> bool:
    """No leader forgets a producer id whose records are still there."""
    return k.budgets.expiries == 0


def never_gives_up(k: Configuration) -> bool:
    """Producers retry for ever, each under its own id, and leaders accept their records. Before
    KIP-360, producers give up when a leader has forgotten them, unless all their records were
    deleted."""
    retries_for_ever = k.variant.retries == Retries.ENDLESS and k.budgets.timeouts == 0
    known = memory_is_kept_in_order(k) or memory_is_wide(k) or forgets_what_is_deleted(k)
    tries = k.variant.recovery == Recovery.LOCAL_BUMP or known
    taken = k.bounds.max_message > 0 and k.budgets.rejections == 0
    return retries_for_ever and tries and taken and not k.bounds.shared_producer_id


def memory_is_wide(k: Configuration) -> bool:
    """Leaders remember so many batches that no error lets later ones push a stored one out."""
    in_order = k.variant.sequence_order == SequenceOrder.WRAPS or not k.bounds.wraps
    return memory_is_kept(k) and in_order and 2 * k.bounds.in_flight <= k.bounds.window


def forgets_what_is_deleted(k: Configuration) -> bool:
    """Heads of logs are deleted, and nothing else goes wrong. An unknown producer then learns from
    the log's start that it may begin again. KAFKA-5793."""
    b = k.budgets
    network = b.breaks + b.refusals + b.late_errors
    leaders = b.restarts + b.crashes + b.failovers + b.losses + b.expiries
    says_so = k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID
    return says_so and network + leaders == 0


def keeps_order(k: Configuration) -> bool:
    """Leaders are strict, and no new producer id overtakes batches of the old one. Without
    sequences, only one request is ever in flight, so that none can overtake another, not even one
    that its producer gave up."""
    answered = k.variant.acks != Acks.NONE
    retries_for_ever = k.variant.retries == Retries.ENDLESS and k.budgets.timeouts == 0
    if k.variant.idempotence == Idempotence.DISABLED:
        return k.bounds.in_flight == 1 and answered and retries_for_ever
    never_resets = k.variant.recovery == Recovery.LOCAL_BUMP or memory_is_kept(k)
    return first_sequence_is_strict(k) and never_resets
