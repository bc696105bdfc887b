"""Bugs planted in the model's text, and the obligation of a theorem that each must fail."""

from __future__ import annotations

from proofs.lift.patch import Patch

ANSWER_IS_LOST = """
    after = with_leader(counted, partition, step.actor)
    return replace(after, coordinator=told if heard == 1 else lost)
"""
MARKER_IS_LOST = """
    after = with_leader(counted, partition, step.actor) if heard == 1 else counted
    return replace(after, coordinator=told)
"""
"""The marker is lost on its way, and the coordinator takes it for written."""

PLANTED: tuple[tuple[str, str, Patch | None, str], ...] = (
    (
        "transaction_epochs",
        "",
        Patch(
            "coordinator.on_finished",
            "with_epoch(k, c, next_epoch(epoch), NO_PRODUCER_EPOCH)",
            "with_epoch(k, c, epoch, NO_PRODUCER_EPOCH)",
        ),
        "init/epochs_unique",
    ),
    (
        "transaction_epochs",
        "",
        Patch("coordinator.begun_anew", "1 if is_new else 0", "0"),
        "init/ids_are_counted",
    ),
    (
        "coordinator_fences",
        "",
        Patch("end_txn.end_v1", "request.producer_epoch != metadata.producer_epoch", "False"),
        "end/fenced_change_nothing",
    ),
    (
        "coordinator_fences",
        "",
        Patch("end_txn.end_v2", "request.producer_epoch != metadata.producer_epoch", "False"),
        "end/fenced_change_nothing",
    ),
    (
        "coordinator_fences",
        "",
        Patch(
            "add_partitions.check_producer",
            "request.producer_epoch != metadata.producer_epoch",
            "False",
        ),
        "add/fenced_change_nothing",
    ),
    ("transaction_decisions", "fence=same_epoch", None, "time_out/one_outcome"),
    ("transaction_decisions", "v1", None, "end/one_outcome"),
    (
        "transaction_decisions",
        "",
        Patch(
            "coordinator.marker_for",
            "metadata.state == TransactionState.PREPARE_COMMIT",
            "True",
        ),
        "marker_is_sent/markers_say_decisions",
    ),
    (
        "transaction_decisions",
        "",
        Patch(
            "coordinator.append_fails",
            "stored(k, c.image) if in_log else c.log",
            "stored(k, replace(c.image, next_producer_id=NO_PRODUCER_ID)) if in_log else c.log",
        ),
        "append_seems_to_fail/ids_are_remembered",
    ),
    (
        "last_epoch_is_nobodys",
        "",
        Patch(
            "coordinator.fencing",
            "c.given_producer_ids if is_last else NO_PRODUCER_ID",
            "NO_PRODUCER_ID",
        ),
        "time_out/ids_are_remembered",
    ),
    (
        "last_epoch_is_nobodys",
        "",
        Patch(
            "end_txn.prepared_with_next_epoch",
            "c.given_producer_ids if rotates else NO_PRODUCER_ID",
            "NO_PRODUCER_ID",
        ),
        "end/ids_are_remembered",
    ),
    (
        "last_epoch_is_nobodys",
        "",
        Patch(
            "coordinator.overflows",
            "c.known.metadata.producer_epoch >= k.bounds.max_epoch",
            "c.known.metadata.producer_epoch >= k.bounds.exhausted_epoch",
        ),
        "always/last_epoch_is_nobodys/in_words",
    ),
    (
        "partition_is_sound",
        "",
        Patch(
            "leader.check_append",
            "batch.producer_epoch < entry.producer_epoch",
            "False",
        ),
        "batch_is_taken/epochs_rise_in_the_log",
    ),
    (
        "partition_is_sound",
        "",
        Patch("leader.ended", "NO_OFFSET", "entry.current_txn_first_offset"),
        "any_marker_arrives/first_offset_is_exact",
    ),
    (
        "partition_is_sound",
        "",
        Patch("leader.remember", "entry.current_txn_first_offset if is_open else offset", "offset"),
        "batch_is_taken/first_offset_is_exact",
    ),
    (
        "last_stable_offset_sound",
        "",
        Patch(
            "leader.last_stable_offset",
            "min(ours, leader.other_first_offset)",
            "ours",
        ),
        "other_writes/last_stable_offset_passes_nothing_open",
    ),
    (
        "partition_is_sound",
        "",
        Patch(
            "leader.check_marker",
            "marker.producer_epoch == entry.producer_epoch and strict",
            "False",
        ),
        "any_marker_arrives/closes_older_only",
    ),
    (
        "no_write_outside",
        "",
        Patch(
            "leader.must_ask",
            "not is_open_for(k, entry, batch)",
            "False",
        ),
        "batch_arrives/no_write_outside",
    ),
    (
        "no_write_outside",
        "",
        Patch("coordinator.completing", "not no_more_markers(c.known.metadata)", "False"),
        "end/no_write_outside",
    ),
    (
        "no_write_outside",
        "",
        Patch("world.marker_is_written", ANSWER_IS_LOST, MARKER_IS_LOST),
        "marker_is_written/no_write_outside",
    ),
    (
        "visible_as_wanted",
        "",
        Patch(
            "end_txn.prepared",
            "TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT",
            "TransactionState.PREPARE_COMMIT",
        ),
        "end_on_time/commits_are_wanted",
    ),
    ("visible_as_decided", "4.1.2", None, "marker_arrives/visible_as_decided"),
    ("visible_as_decided", "fence=same_epoch", None, "time_out/open_has_present_epoch"),
    (
        "visible_as_decided",
        "",
        Patch(
            "end_txn.prepared_with_next_epoch",
            "replace(metadata, producer_epoch=next_epoch(epoch))",
            "metadata",
        ),
        "end/open_has_present_epoch",
    ),
    (
        "last_stable_offset_sound",
        "",
        Patch(
            "leader.last_stable_offset",
            "first_open(k, leader)",
            "first_open(k, leader) + 1",
        ),
        "always/what_is_stable_is_decided",
    ),
    (
        "fenced",
        "",
        Patch(
            "coordinator.is_prepared",
            "metadata.state == TransactionState.PREPARE_ABORT",
            "False",
        ),
        "init/open_is_not_older",
    ),
    (
        "fenced",
        "",
        Patch(
            "add_partitions.check_producer",
            "request.producer_epoch != metadata.producer_epoch",
            "False",
        ),
        "batch_arrives/nothing_older_is_written",
    ),
    (
        "fenced",
        "",
        Patch("leader.check_append", "batch.producer_epoch < entry.producer_epoch", "False"),
        "batch_arrives/open_is_not_older",
    ),
    (
        "markers_are_taken",
        "",
        Patch("coordinator_leadership.begin_loading", "c.coordinator_epoch + 1", "0"),
        "take_over/terms_are_past",
    ),
    (
        "markers_are_taken",
        "",
        Patch("coordinator.marker_for", "metadata.producer_epoch", "metadata.producer_epoch + 1"),
        "marker_is_sent/markers_are_past",
    ),
    (
        "no_false_fencing",
        "",
        Patch("client.end_transaction", "is_quiet(client)", "True"),
        "transaction_is_ended/no_false_fencing",
    ),
    (
        "no_false_fencing",
        "",
        Patch("client.has_asked", "there.membership == Membership.ASKED", "False"),
        "abort_transaction/in_step",
    ),
    (
        "no_false_fencing",
        "",
        Patch(
            "coordinator.on_finished",
            "request.producer_epoch == c.known.last_producer_epoch",
            "False",
        ),
        "producer_id_is_asked/no_false_fencing",
    ),
    (
        "no_false_fencing",
        "",
        Patch("end_txn.ends_v1", "(I, P, C, I, D, I, U)", "(I, P, C, I, I, I, U)"),
        "transaction_is_ended/no_false_fencing",
    ),
    (
        "stored_once",
        "",
        Patch(
            "sender.produce",
            "there.next_sequence if is_first else there.next_sequence - 1",
            "there.next_sequence",
        ),
        "batch_is_produced/log_has_names",
    ),
    (
        "stored_once",
        "",
        Patch(
            "leader.check_append",
            "batch.base_sequence == entry.last_sequence + 1",
            "batch.base_sequence <= entry.last_sequence + 1",
        ),
        "my_named_batch/sequences_rise",
    ),
    (
        "acked_is_stored_once",
        "",
        Patch(
            "sender.give_up",
            "without_first(before, waits)",
            "refused_newest(without_first(before, waits))",
        ),
        "give_up/own_sequences_are_counted",
    ),
    (
        "acked_is_stored_once",
        "",
        Patch("leader.is_duplicate", "behind < entry.remembered", "behind < 9"),
        "batch_is_produced/acked_is_stored",
    ),
    (
        "all_or_none",
        "",
        Patch("client.end_transaction", "is_quiet(client)", "True"),
        "end_is_sent/ends_wait_for_batches",
    ),
    (
        "all_or_none",
        "",
        Patch(
            "sender.give_up",
            "in_batch_error(k, with_partition(client, partition, there), Effect.ABORT)",
            "with_partition(client, partition, there)",
        ),
        "give_up/settled_is_stored",
    ),
    (
        "all_or_none",
        "",
        Patch("client.on_ended", "answer.error != Error.NONE", "False"),
        "transaction_is_ended/told_is_decided",
    ),
    (
        "all_or_none",
        "",
        Patch(
            "sender.on_produced",
            "in_batch_error(k, refused, effect)",
            "with_partition(client, partition, replace(there, write=Write.NONE))",
        ),
        "batch_is_produced/settled_is_stored",
    ),
    (
        "all_or_none",
        "",
        Patch(
            "client.numbered_anew",
            "replace(there, membership=Membership.OUT, next_sequence=0, has_gap=False, written=0)",
            "replace(there, membership=Membership.OUT, written=0)",
        ),
        "transaction_is_ended/client_speaks_v2",
    ),
    (
        "all_or_none",
        "",
        Patch("end_txn.end_v2", "request.producer_epoch != metadata.producer_epoch", "False"),
        "others_end/commits_are_asked",
    ),
    (
        "all_or_none",
        "",
        Patch("end_txn.end_v2", "request.producer_epoch != metadata.producer_epoch", "False"),
        "my_late_end/commits_are_asked",
    ),
    (
        "all_or_none",
        "",
        Patch("end_txn.ends_v2_again", "(F, F, C, I, D, I, U)", "(F, F, C, I, D, D, U)"),
        "transaction_is_ended/told_is_decided",
    ),
    (
        "all_or_none",
        "",
        Patch("leader.is_duplicate", "behind < entry.remembered", "behind < 9"),
        "batch_is_produced/settled_is_stored",
    ),
    (
        "all_or_none",
        "",
        Patch(
            "leader.check_append",
            "batch.base_sequence == entry.last_sequence + 1",
            "batch.base_sequence <= entry.last_sequence + 1",
        ),
        "batch_is_produced/sequences_rise",
    ),
    (
        "all_or_none_on_time",
        "",
        Patch("client.end_transaction", "is_quiet(client)", "True"),
        "transaction_is_ended/ends_are_quiet",
    ),
    (
        "all_or_none_on_time",
        "",
        Patch("client.on_ended", "answer.error != Error.NONE", "False"),
        "transaction_is_ended/told_was_decided",
    ),
    (
        "all_or_none_on_time",
        "",
        Patch("end_txn.end_v1", "request.producer_epoch != metadata.producer_epoch", "False"),
        "others_end/turns_have_pairs",
    ),
    (
        "all_or_none_on_time",
        "",
        Patch(
            "add_partitions.check_producer",
            "request.producer_epoch != metadata.producer_epoch",
            "False",
        ),
        "others_add/its_turn_is_now",
    ),
    (
        "all_or_none_on_time",
        "",
        Patch("leader.check_append", "batch.producer_epoch < entry.producer_epoch", "False"),
        "batch_is_produced/log_says_its_turn",
    ),
    (
        "all_or_none_on_time",
        "4.3.1/level=2/requests=v1/fence=same_epoch",
        None,
        "time_out/its_turn_is_now",
    ),
    (
        "all_or_none",
        "",
        Patch("guarantees.is_torn", "Kind.ABORT", "Kind.COMMIT"),
        "always/all_or_none/in_words",
    ),
    (
        "all_or_none_on_time",
        "",
        Patch("guarantees.is_torn", "Kind.ABORT", "Kind.COMMIT"),
        "always/all_or_none/in_words",
    ),
    (
        "all_or_none",
        "",
        Patch(
            "fates.asked_to_commit",
            "outcome == Outcome.COMMIT_ASKED or outcome == Outcome.COMMITTED",
            "outcome == Outcome.COMMIT_ASKED",
        ),
        "always/no_aborted_read/in_words",
    ),
    (
        "all_or_none_on_time",
        "",
        Patch(
            "fates.asked_to_commit",
            "outcome == Outcome.COMMIT_ASKED or outcome == Outcome.COMMITTED",
            "outcome == Outcome.COMMIT_ASKED",
        ),
        "always/no_aborted_read/in_words",
    ),
    (
        "stored_once",
        "",
        Patch("guarantees.all_once", "a.number == b.number", "True"),
        "always/acked_once/in_words",
    ),
    (
        "no_write_outside",
        "",
        Patch("guarantees.no_write_outside", "metadata.state == TransactionState.ONGOING", "False"),
        "always/no_write_outside/in_words",
    ),
    (
        "markers_are_taken",
        "",
        Patch(
            "guarantees.markers_are_taken",
            "w.coordinator.is_stopped and is_prepared(w.coordinator.known.metadata)",
            "is_prepared(w.coordinator.known.metadata)",
        ),
        "always/markers_are_taken/in_words",
    ),
    (
        "no_false_fencing",
        "",
        Patch(
            "guarantees.no_false_fencing",
            "c.state != ClientState.FATAL_ERROR",
            "c.state == ClientState.READY",
        ),
        "always/no_false_fencing/in_words",
    ),
)
"""A theorem, its variant unless the usual one, the patch if there is one, the obligation."""
