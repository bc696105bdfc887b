"""Each defect of the past is found by a short trace, and its twin is clean."""

import pytest

from proofs.mutants import UnknownMutant, find
from proofs.mutants.check import MAX_EVENTS, find_defect, is_twin_clean
from proofs.mutants.table import MUTANTS, NOT_EXPRESSIBLE, TRANSACTIONAL
from proofs.trace.replay import replay
from tests.sizes import sized

FOUND = {
    "any_first_sequence": (11, 7),
    "window_of_one_after_restart": (12, 8),
    "head_truncation_drops_state": (6, 4),
    "failure_of_old_id_closes_gap": (27, 16),
    "expired_state_readmits": (7, 5),
    "refused_for_good": (10, 7),
    "sequence_wraps_negative": (5, 3),
    "out_of_order_for_duplicate": (10, 7),
    "snapshot_not_forced": (5, 3),
    "same_producer_id_twice": (14, 14),
    "reassign_in_heap_order": (18, 12),
    "other_partitions_keep_sequences": (15, 10),
    "counter_reset_on_metadata_loss": (9, 6),
    "sequence_reused_after_unknown_outcome": (8, 5),
    "sequence_used_by_unsent_record": (7, 5),
    "buffer_reused_in_flight": (5, 3),
    "window_smaller_than_in_flight": (15, 8),
    "one_producer_id_for_two": (4, 2),
    "one_sequence_for_all_producers": (4, 2),
    "one_sequence_for_all_partitions": (6, 4),
    "any_later_sequence": (6, 3),
    "any_later_sequence_by_default": (6, 3),
    "gap_dropped_silently": (4, 2),
    "older_epoch_begins_again": (14, 9),
    "producer_id_given_again": (13, 9),
    "old_id_is_retried": (16, 11),
    "old_batch_under_new_id": (15, 10),
    "resend_of_what_failed": (6, 4),
    "acknowledgement_not_counted": (3, 2),
    "answers_of_a_broken_connection": (3, 3),
    "late_error_awaits_replicas": (2, 1),
    "refusal_told_as_late": (6, 4),
    "sequence_without_id": (1, 1),
    "unknown_outcome_forgotten": (4, 4),
    "delayed_end_txn": (20, 19),
    "late_produce_hangs": (11, 10),
    "gap_behind_a_batch_turned_away": (9, 9),
    "stored_batch_refused": (16, 16),
    "marker_at_equal_epoch": (15, 14),
    "marker_strictly_greater": (9, 9),
    "produce_during_completion": (11, 11),
    "late_offset_commit": (11, 10),
    "timeout_without_bump": (8, 8),
    "exhausted_epoch_not_rotated": (15, 15),
    "next_producer_id_not_logged": (16, 16),
    "marker_without_leader": (16, 16),
    "no_generation_check": (18, 18),
    "unstable_offset_read": (12, 12),
    "ongoing_not_logged": (17, 17),
    "coordinator_epoch_stays": (1, 1),
    "known_and_never_logged": (2, 2),
    "first_batch_refused": (5, 5),
    "commit_that_expires_is_stuck": (8, 8),
    "two_epochs_at_once": (6, 6),
    "prepared_takes_more": (7, 7),
    "others_hold_nobody": (1, 1),
    "gap_accepted": (14, 14),
    "older_sequence_accepted": (17, 16),
    "older_marker_accepted": (15, 14),
    "former_coordinator_believed": (9, 9),
    "late_batch_goes_astray": (6, 5),
    "sequence_survives_epoch": (8, 8),
    "empty_abort_fences_itself": (7, 7),
    "end_txn_epoch_not_compared": (15, 15),
    "verification_is_a_boolean": (12, 11),
    "lso_inclusive": (5, 5),
    "commit_of_nothing": (5, 5),
    "end_txn_error_ignored": (11, 11),
    "bump_inside_transaction": (15, 15),
    "send_failure_not_poisoning": (9, 9),
    "refusal_not_poisoning": (7, 7),
    "refused_batch_stored": (6, 6),
    "first_refusal_not_poisoning": (10, 10),
    "pending_state_leaks": (4, 4),
    "late_produce_adopted": (15, 14),
    "overtaking_batch_taken": (12, 12),
    "double_bump_on_fence": (10, 10),
    "failed_fence_burns_epoch": (17, 17),
    "offsets_error_not_retried": (15, 15),
}

FAR = {
    "delayed_end_txn",
    "marker_at_equal_epoch",
    "exhausted_epoch_not_rotated",
    "next_producer_id_not_logged",
    "no_generation_check",
    "ongoing_not_logged",
    "verification_is_a_boolean",
    "bump_inside_transaction",
    "late_produce_adopted",
    "pending_state_leaks",
}
"""Behind more than 10,000 states: for all others compiling takes longer than the search."""

SUITE = {
    "any_first_sequence",
    "window_of_one_after_restart",
    "head_truncation_drops_state",
    "expired_state_readmits",
    "refused_for_good",
    "sequence_wraps_negative",
    "out_of_order_for_duplicate",
    "snapshot_not_forced",
    "same_producer_id_twice",
    "reassign_in_heap_order",
    "sequence_used_by_unsent_record",
    "one_producer_id_for_two",
    "gap_dropped_silently",
    "acknowledgement_not_counted",
    "late_error_awaits_replicas",
    "sequence_without_id",
    "unknown_outcome_forgotten",
    "delayed_end_txn",
    "late_produce_hangs",
    "stored_batch_refused",
    "late_offset_commit",
    "timeout_without_bump",
    "marker_without_leader",
    "no_generation_check",
    "unstable_offset_read",
    "coordinator_epoch_stays",
    "known_and_never_logged",
    "commit_that_expires_is_stuck",
    "prepared_takes_more",
    "older_sequence_accepted",
    "late_batch_goes_astray",
    "empty_abort_fences_itself",
    "refusal_not_poisoning",
    "refused_batch_stored",
}
"""Of each module of the model that has defects, and of each kind, the quickest; all others are
tried by `kafka-eos mutants` and `make full`."""

FULL = [mutant for mutant in MUTANTS if mutant.name not in SUITE]
TWINS = [mutant for number, mutant in enumerate(MUTANTS) if number % 3 or mutant in FULL]
"""Those whose twins `make full` explores."""


def test_the_table():
    assert [mutant.name for mutant in MUTANTS] == list(FOUND)
    assert FOUND.keys() >= SUITE
    assert all(bool(m.patches) == (m.kind == "mutant") for m in MUTANTS)
    assert all((m.twin == m.variant and not m.twin_scope) == (m.kind == "mutant") for m in MUTANTS)


def test_what_cannot_be_expressed_says_what_is_lacking():
    assert not NOT_EXPRESSIBLE.keys() & FOUND.keys()
    assert all(NOT_EXPRESSIBLE.values())


@pytest.mark.parametrize("mutant", sized(MUTANTS, FULL), ids=lambda mutant: mutant.name)
def test_it_is_found(mutant):
    found = find_defect(mutant, engine="c" if mutant.name in FAR else "ints")
    assert (found.steps, found.events) == FOUND[mutant.name]
    assert found.events <= MAX_EVENTS
    assert len(replay(found.trace)) == found.steps + 1


@pytest.mark.parametrize("mutant", sized(MUTANTS, TWINS), ids=lambda mutant: mutant.name)
def test_its_twin_is_clean(mutant):
    assert is_twin_clean(mutant, engine="c" if mutant in TRANSACTIONAL else "ints")


def test_a_name_that_there_is_not():
    assert find("any_first_sequence").reference == "KAFKA-14359"
    with pytest.raises(UnknownMutant, match="did you mean reassign_in_heap_order"):
        find("reassigned_in_heap_order")
