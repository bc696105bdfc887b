"""Systematic mutants that nothing notices, each with the reason why that is right.

The reason is a sentence about the protocol or about the text. A row whose mutant is noticed counts
as open in the verb's report, as one without a row does that is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from proofs.mutants.systematic import Point

IDEMPOTENT: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "nobody sends one sequence with two lengths: a batch goes again as it was, and the parts"
        " of one that is split come where the whole was refused",
        (
            "leader.is_duplicate: batch.producer_epoch == entry.producer_epoch and"
            " batch.base_sequence == first_sequence(k, remembered) and (last_sequence(k, batch)"
            " == remembered.last_sequence) -> batch.producer_epoch == entry.producer_epoch and"
            " last_sequence(k, batch) == remembered.last_sequence",
            "leader.is_duplicate: batch.producer_epoch == entry.producer_epoch and"
            " batch.base_sequence == first_sequence(k, remembered) and (last_sequence(k, batch)"
            " == remembered.last_sequence) -> batch.producer_epoch == entry.producer_epoch and"
            " batch.base_sequence == first_sequence(k, remembered)",
        ),
    ),
    (
        "no producer sends anything but 0 after the last sequence",
        (
            "leader.in_sequence: following == 0 and last == k.bounds.max_sequence -> last =="
            " k.bounds.max_sequence",
        ),
    ),
    (
        "a leader that knows an epoch has a batch of it",
        ("leader.check_sequence: len(entry.batches) > 0 -> len(entry.batches) >= 0",),
    ),
    (
        "every release looks at epochs, sequences and duplicates: that less is looked at is there"
        " to show what it is for",
        (
            "leader.check_append: epoch_error != Error.NONE or k.variant.validation =="
            " Validation.EPOCH_ONLY -> epoch_error != Error.NONE",
            "leader.find_duplicates: k.variant.validation == Validation.FULL and is_duplicate(k,"
            " entry, m, batch) -> is_duplicate(k, entry, m, batch)",
        ),
    ),
    (
        "where no batch is split, none has more records than a leader takes",
        (
            "leader.on_produce: k.bounds.splits and batch.record_count > k.bounds.max_message ->"
            " batch.record_count > k.bounds.max_message",
        ),
    ),
    (
        "a snapshot at offset 0 of a log that begins there has no producer in it",
        (
            "leader.is_usable: log_start_offset == 0 or snapshot_offset > log_start_offset ->"
            " snapshot_offset > log_start_offset",
        ),
    ),
    (
        "to forget who is unknown changes nothing",
        (
            "leader.without_evicted: len(entry.batches) > 0 and entry.batches[-1].last_offset <"
            " leader.log_start_offset -> entry.batches[-1].last_offset < leader.log_start_offset",
            "leader.without_evicted: len(entry.batches) > 0 -> len(entry.batches) >= 0",
        ),
    ),
    (
        "that it is fatal hears only who shares a producer id, and nobody does where there is a"
        " guarantee",
        (
            "client.may_send: has_id and client.bump_for.is_empty() and (not client.fatal) ->"
            " has_id and client.bump_for.is_empty()",
        ),
    ),
    (
        "where nothing wraps, the order of the numbers is the order of the sends, and no two"
        " batches in flight begin with one",
        (
            "client.with_new: k.variant.sequence_order == SequenceOrder.WRAPS or not"
            " k.bounds.wraps -> k.variant.sequence_order == SequenceOrder.WRAPS",
            "client.with_new: b.batch.base_sequence < first -> b.batch.base_sequence <= first",
            "client.with_new: b.batch.base_sequence > first -> b.batch.base_sequence >= first",
        ),
    ),
    (
        "it only spares a look: where none is given up or split, a batch that waits has its place"
        " among those that may be on their way",
        (
            "client.has_room: k.bounds.given_up == 0 and (not k.bounds.splits) -> not"
            " k.bounds.splits",
            "client.has_room: k.bounds.given_up == 0 and (not k.bounds.splits) ->"
            " k.bounds.given_up == 0",
            "client.has_room: always or on_their_way + len(entry.given_up) < k.bounds.in_flight"
            " -> on_their_way + len(entry.given_up) < k.bounds.in_flight",
        ),
    ),
    (
        "only what is in flight is given up",
        (
            "recovery.expire_batch: len(old) > 0 -> len(old) >= 0",
            "world.client_gives_up: len(in_flight) > 0 -> len(in_flight) >= 0",
        ),
    ),
    (
        "answers come in order, and what is in flight is less than half of all sequences: nobody"
        " sees where exactly the half ends, nor whether the same sequence is the later one",
        (
            "responses.later: k.variant.sequence_order == SequenceOrder.RAW or acked == NO_SEQUENCE"
            " -> acked == NO_SEQUENCE",
            "responses.later: k.variant.sequence_order == SequenceOrder.RAW or acked == NO_SEQUENCE"
            " -> k.variant.sequence_order == SequenceOrder.RAW",
            "responses.later: last >= acked -> last > acked",
            "responses.later: last - acked + k.bounds.max_sequence + 1 -> last - acked +"
            " k.bounds.max_sequence + 1 + 1",
            "responses.later: 2 * ahead <= k.bounds.max_sequence -> 2 * ahead <"
            " k.bounds.max_sequence",
            "responses.later: last - acked + k.bounds.max_sequence -> last - acked +"
            " k.bounds.max_sequence + 1",
        ),
    ),
    (
        "leaders say where their logs start: -1 is what Produce could answer up to version 4",
        (
            "responses.retry_unknown_producer_id: log_start_offset < 0 or"
            " answered.sequence_has_been_reset -> answered.sequence_has_been_reset",
        ),
    ),
    (
        "an error may be answered although all replicas have the batch, and a success although it"
        " came late: its producer sends it again at most, and it is a duplicate",
        (
            "leader.late_error: timed_out == 1 -> timed_out != 1",
            "leader.on_produce_then_unreplicated: timed_out == 1 and answer.required_offset <="
            " leader.high_watermark -> answer.required_offset <= leader.high_watermark",
            "leader.on_produce_then_unreplicated: answer.error != Error.NONE or in_time ->"
            " answer.error != Error.NONE",
            "leader.on_produce_then_unreplicated: timed_out == 1 -> timed_out != 1",
            "leader.on_produce_then_unreplicated: answer.required_offset <= leader.high_watermark"
            " -> answer.required_offset < leader.high_watermark",
        ),
    ),
    (
        "to delete what is deleted changes nothing",
        (
            "leader.delete_records: log_start_offset > leader.log_start_offset ->"
            " log_start_offset >= leader.log_start_offset",
        ),
    ),
    (
        "a batch that goes again just before its producer's next epoch is as one that was on its"
        " way when that began",
        (
            "client.may_send: has_id and client.bump_for.is_empty() and (not client.fatal) ->"
            " has_id and (not client.fatal)",
        ),
    ),
    (
        "without producer ids nobody reads the numbers of a partition",
        (
            "client.numbered: k.variant.idempotence == Idempotence.DISABLED or is_current(client,"
            " entry) -> is_current(client, entry)",
            "client.numbered: k.variant.idempotence == Idempotence.DISABLED ->"
            " k.variant.idempotence != Idempotence.DISABLED",
        ),
    ),
    (
        "batches that go again may follow each other at once, as new ones do: a connection keeps"
        " their order, and leaders refuse what is ahead of it",
        (
            "client.next_to_retry: k.variant.idempotence == Idempotence.DISABLED ->"
            " k.variant.idempotence != Idempotence.DISABLED",
            "client.next_to_retry: k.variant.recovery != Recovery.LOCAL_BUMP ->"
            " k.variant.recovery == Recovery.LOCAL_BUMP",
            "client.next_to_retry: b.batch.producer_id == client.producer_id ->"
            " b.batch.producer_id != client.producer_id",
            "client.next_to_retry: b.batch.producer_id != client.producer_id ->"
            " b.batch.producer_id == client.producer_id",
        ),
    ),
    (
        "how many requests are on their way, up to the limit, is the producer's own choice",
        (
            "client.has_room: on_their_way + len(entry.given_up) -> on_their_way +"
            " len(entry.given_up) + 1",
        ),
    ),
    (
        "which batches are given up, those on their way or those that wait, is the producer's own"
        " choice",
        (
            "recovery.overdue: k.variant.expiry == Expiry.QUEUED_ONLY -> k.variant.expiry !="
            " Expiry.QUEUED_ONLY",
        ),
    ),
    (
        "a producer may ask what became of sequences that it knows all about: it waits, no more",
        (
            "recovery.expire_batch: old[0].attempts > 0 -> old[0].attempts >= 0",
            "recovery.is_resolvable: entry.unresolved_sequence != NO_SEQUENCE and"
            " len(entry.in_flight) == 0 -> len(entry.in_flight) == 0",
        ),
    ),
    (
        "with time-outs an epoch may begin sooner than it must, or later: no guarantee speaks then"
        " of what is stored twice over all epochs, or of needless epochs",
        (
            "recovery.is_resolvable: entry.unresolved_sequence != NO_SEQUENCE and"
            " len(entry.in_flight) == 0 -> entry.unresolved_sequence != NO_SEQUENCE",
            "responses.retry_out_of_order: answered.sequence_has_been_reset or not is_next(k,"
            " entry, base_sequence) -> not is_next(k, entry, base_sequence)",
            "responses.retry_out_of_order: resolved and may_be_right -> may_be_right",
            "responses.retry_out_of_order: resolved or base_sequence == entry.unresolved_sequence"
            " -> resolved",
            "responses.retry_out_of_order: base_sequence == entry.unresolved_sequence ->"
            " base_sequence != entry.unresolved_sequence",
        ),
    ),
    (
        "that an answer for an earlier epoch counts as one for this is no guarantee: not to count"
        " it is the safer way",
        (
            "responses.with_acked_sequence: resets and (not is_mine(client, batch)) -> not"
            " is_mine(client, batch)",
        ),
    ),
    (
        "up to 2.4 nothing is guaranteed of what is in flight under an id that was given back: it"
        " may fail, or go again, and what is heard of it may count or not",
        (
            "client.is_of: batch.producer_id == producer_id and batch.producer_epoch =="
            " producer_epoch -> batch.producer_epoch == producer_epoch",
            "responses.with_acked_sequence: k.variant.recovery != Recovery.LOCAL_BUMP ->"
            " k.variant.recovery == Recovery.LOCAL_BUMP",
            "responses.on_success: k.variant.recovery == Recovery.RESET_2_3 and (not"
            " is_mine(client, batch)) -> not is_mine(client, batch)",
            "responses.on_success: k.variant.recovery == Recovery.RESET_2_3 and (not"
            " is_mine(client, batch)) -> k.variant.recovery == Recovery.RESET_2_3",
            "responses.on_success: k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID"
            " and (not old) -> k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID",
            "responses.on_success: k.variant.recovery == Recovery.RESET_2_3 -> k.variant.recovery"
            " != Recovery.RESET_2_3",
            "responses.retry: k.variant.recovery != Recovery.LOCAL_BUMP -> k.variant.recovery =="
            " Recovery.LOCAL_BUMP",
            "responses.may_outlive_connection: has_attempts_left(k, b) and is_mine(client, b.batch)"
            " -> has_attempts_left(k, b)",
        ),
    ),
    (
        "where leaders never say that they do not know a producer id, nobody reads the last"
        " offset that was acknowledged",
        (
            "responses.on_success: k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID"
            " and (not old) -> not old",
        ),
    ),
    (
        "how often a batch was sent may be counted where nobody asks for it",
        ("client.counts_attempts: k.bounds.max_timeouts > 0 -> k.bounds.max_timeouts >= 0",),
    ),
    (
        "the number of endless retries is more than any count",
        (
            "responses.has_attempts_left: k.variant.retries == Retries.ENDLESS or answered.attempts"
            " < k.variant.retries -> answered.attempts < k.variant.retries",
        ),
    ),
    (
        "where a leader up to 2.4 forgets more than what is deleted, batches are stored twice"
        " anyway",
        (
            "responses.on_success: k.variant.first_sequence == FirstSequence.UNKNOWN_PRODUCER_ID ->"
            " k.variant.first_sequence != FirstSequence.UNKNOWN_PRODUCER_ID",
        ),
    ),
    (
        "where the last record that was acknowledged is the first that is left, its leader knows"
        " the producer",
        (
            "responses.retry_unknown_producer_id: entry.last_acked_offset < log_start_offset ->"
            " entry.last_acked_offset <= log_start_offset",
        ),
    ),
    (
        "where nothing is deleted, a batch whose producer is not known may go again as it is: the"
        " first of them makes it known",
        ("responses.retry_unknown_producer_id: log_start_offset < 0 -> log_start_offset <= 0",),
    ),
    (
        "a high watermark that stays where it is has not moved",
        (
            "world.high_watermark_advances: leader.high_watermark < log_end_offset(leader.log) ->"
            " leader.high_watermark <= log_end_offset(leader.log)",
        ),
    ),
    (
        "a batch whose time is up may go again until its producer looks at the time the next time",
        (
            "responses.retry: overdue == 1 or not has_attempts_left(k, answered) -> not"
            " has_attempts_left(k, answered)",
        ),
    ),
)
"""Reasons, each with what the points say that it is the reason of."""

EXPLAINED: Mapping[str, Mapping[str, str]] = {
    "idempotent": {says: why for why, points in IDEMPOTENT for says in points},
    "transactions": {},
}
"""By group and by what a point says."""


def explanation(point: Point) -> str | None:
    """Why it is right that nothing notices the change; None if nobody has said so."""
    return EXPLAINED[point.group].get(point.says)
