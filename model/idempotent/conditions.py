"""In which configurations each guarantee is given."""

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
    """No leader forgets a producer whose batches may still come."""
    b = k.budgets
    loses_disk = b.restarts > 0 or b.crashes > 0
    evicts = k.variant.head_truncation == HeadTruncation.EVICTS
    return b.expiries == 0 and (b.deletions == 0 or not (loses_disk or evicts))


def has_sequences(k: Configuration) -> bool:
    """Producers have producer ids, epochs and sequences."""
    return k.variant.idempotence == Idempotence.ENABLED


def is_idempotent(k: Configuration) -> bool:
    """Each producer has a producer id, its own, and leaders look at all of its sequences."""
    return (
        has_sequences(k)
        and k.variant.validation == Validation.FULL
        and not k.bounds.shared_producer_id
        and not k.bounds.epochs_end
    )


def takes_every_record(k: Configuration) -> bool:
    """Idempotence, and no record that is too large by itself: each of those bumps the epoch. A
    batch that is refused for good costs two where leaders take the next one, of an epoch that its
    producer has left, as the first."""
    strict = k.variant.first_sequence != FirstSequence.ANY
    return is_idempotent(k) and k.bounds.max_message > 0 and (strict or k.budgets.rejections == 0)


def keeps_its_numbers(k: Configuration) -> bool:
    """No producer gives the sequences of a batch of unknown outcome to others: only the local
    bump never does, KIP-360. In 2.0 what fails of an id that was given back takes some from the
    next id, so that none may have to be given back."""
    resets = k.variant.recovery != Recovery.LOCAL_BUMP
    known = k.budgets.timeouts == 0 and k.budgets.rejections == 0
    return not mixes_ids(k) and (not resets or known)


def mixes_ids(k: Configuration) -> bool:
    """What fails of a producer id that was given back takes sequences from the next one."""
    return k.variant.recovery == Recovery.RESET_2_0 and not refuses_nothing_stored(k)


def refuses_nothing_stored(k: Configuration) -> bool:
    """Each batch that is sent again, and stored, is remembered: no leader has lost some of its
    memory, and no error has let later batches push one out."""
    b = k.budgets
    in_order = b.refusals == 0 and b.late_errors == 0
    return keeps_producers(k) and keeps_whole_memory(k) and b.losses == 0 and in_order


def keeps_whole_memory(k: Configuration) -> bool:
    """Leaders remember as many batches as may be in flight, also where they come back."""
    b = k.budgets
    wide = k.bounds.in_flight <= k.bounds.window
    whole = k.variant.restart_window == RestartWindow.FULL or (b.restarts == 0 and b.crashes == 0)
    return wide and whole


def recognises_duplicates(k: Configuration) -> bool:
    """P1: idempotence, and leaders that keep a producer's last batches."""
    return is_idempotent(k) and keeps_producers(k) and keeps_its_numbers(k)


def keeps_what_it_acknowledges(k: Configuration) -> bool:
    """P2: no acknowledgement before the replicas have it that will lead."""
    failovers = k.budgets.failovers > 0 and k.bounds.replicas > 1
    is_safe = k.variant.acks == Acks.ALL or (k.variant.acks == Acks.LEADER and not failovers)
    alone = not k.bounds.shared_producer_id
    return is_safe and k.budgets.losses == 0 and alone and keeps_its_numbers(k)


def closes_gaps(k: Configuration) -> bool:
    """Producers have ids that end with no epoch, and give nothing up whose outcome is unknown."""
    counts = k.variant.idempotence == Idempotence.ENABLED and not k.bounds.epochs_end
    return counts and not mixes_ids(k) and k.budgets.timeouts == 0


def waits_for_replicas(k: Configuration) -> bool:
    """The same, and the answer is not the leader's alone."""
    return keeps_what_it_acknowledges(k) and k.variant.acks == Acks.ALL


def stores_once(k: Configuration) -> bool:
    """P1: leaders know duplicates, or nobody sends a batch again."""
    never_again = k.variant.retries == Retries.NONE
    alone = k.variant.idempotence == Idempotence.DISABLED
    return recognises_duplicates(k) or (never_again and alone)


def first_sequence_is_strict(k: Configuration) -> bool:
    """Leaders refuse a first batch that does not begin at 0, or never lack a producer's state."""
    return recognises_duplicates(k) and k.variant.first_sequence != FirstSequence.ANY


def memory_is_kept(k: Configuration) -> bool:
    """Leaders remember as many batches as may be in flight, whatever happens, and accept no first
    sequence unseen. And no batch ends but by its answer, or is refused for good: the next epoch
    numbers those beside it again, stored or not. KAFKA-14034."""
    b = k.budgets
    strict = k.variant.first_sequence != FirstSequence.ANY or b.refusals == 0
    lossless = b.losses == 0 and b.expiries == 0
    answered = b.timeouts == 0 and b.rejections == 0
    return recognises_duplicates(k) and keeps_whole_memory(k) and strict and lossless and answered


def memory_is_kept_in_order(k: Configuration) -> bool:
    """The same, no producer takes the sequences after the wrap for the first, and no error lets
    later batches push an earlier one, which is stored, out of the leader's memory."""
    in_order = k.variant.sequence_order == SequenceOrder.WRAPS or not k.bounds.wraps
    in_turn = k.budgets.refusals == 0 and k.budgets.late_errors == 0
    return memory_is_kept(k) and in_order and in_turn


def expires_nobody(k: Configuration) -> bool:
    """No producer id is forgotten while its records are there."""
    return k.budgets.expiries == 0


def never_gives_up(k: Configuration) -> bool:
    """Producers try for ever, each with its own id, and leaders take their records. Before KIP-360
    they give up what a leader has forgotten, unless all of it was deleted."""
    retries_for_ever = k.variant.retries == Retries.ENDLESS and k.budgets.timeouts == 0
    known = memory_is_kept_in_order(k) or memory_is_wide(k) or forgets_what_is_deleted(k)
    tries = k.variant.recovery == Recovery.LOCAL_BUMP or known
    taken = k.bounds.max_message > 0 and k.budgets.rejections == 0
    return retries_for_ever and tries and taken and not k.bounds.shared_producer_id


def memory_is_wide(k: Configuration) -> bool:
    """Leaders remember so much that no error lets later batches push a stored one out."""
    in_order = k.variant.sequence_order == SequenceOrder.WRAPS or not k.bounds.wraps
    return memory_is_kept(k) and in_order and 2 * k.bounds.in_flight <= k.bounds.window


def forgets_what_is_deleted(k: Configuration) -> bool:
    """Heads of logs are deleted, and nothing else goes wrong: who is unknown then learns from the
    log's start that he may begin again. KAFKA-5793."""
    b = k.budgets
    network = b.breaks + b.refusals + b.late_errors
    leaders = b.restarts + b.crashes + b.failovers + b.losses + b.expiries
    says_so = k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID
    return says_so and network + leaders == 0


def keeps_order(k: Configuration) -> bool:
    """Strict leaders, and no new producer id that overtakes what the old one still has on its
    way. Without sequences, no second request that could overtake the first, also not one that its
    producer gave up."""
    answered = k.variant.acks != Acks.NONE
    retries_for_ever = k.variant.retries == Retries.ENDLESS and k.budgets.timeouts == 0
    if k.variant.idempotence == Idempotence.DISABLED:
        return k.bounds.in_flight == 1 and answered and retries_for_ever
    never_resets = k.variant.recovery == Recovery.LOCAL_BUMP or memory_is_kept(k)
    return first_sequence_is_strict(k) and never_resets
