"""The theorems of transactions."""

from __future__ import annotations

from dataclasses import replace

from proofs.prove.engine.assumptions import claimed_by
from proofs.prove.engine.composition import Composition
from proofs.prove.engine.theorem import Theorem
from proofs.prove.transactions.assumptions import ASSUMPTIONS
from proofs.prove.transactions.compositions import (
    ACKNOWLEDGED,
    CLIENT_V2,
    DECISIONS,
    EPOCHS,
    FENCED,
    FENCING,
    LAST_EPOCH,
    LAST_STABLE,
    MARKERS,
    NO_WRITE_OUTSIDE,
    PARTITION,
    RECORDS,
    SOLE_INSTANCE,
    VISIBILITY,
)
from proofs.prove.transactions.compositions_without_delays import TOLD_V1, VISIBILITY_V1

LED = ("guards", "leaders_are_there", "moves_are_known")
"""Assumed of all leaders of partitions and of coordinators."""


def theorem(
    name: str,
    says: str,
    variant: str,
    rests_on: tuple[str, ...],
    answered_by: tuple[str, ...],
    composition: Composition,
) -> Theorem:
    """Return a theorem that fixes the sizes which its assumptions claim."""
    made = Theorem(name, says, variant, rests_on, answered_by, composition)
    claimed = claimed_by(ASSUMPTIONS, made.assumptions)
    return replace(made, composition=replace(composition, claimed=claimed))


TRANSACTIONAL: tuple[Theorem, ...] = (
    theorem(
        "transaction_epochs",
        "What InitProducerId tells never goes back, and was told to nobody before; only who shows"
        " the pair before the present one may hear the present one again. Of any requests, V1 and"
        " V2, every level and every release's rules, with appends that fail or seem to.",
        "v2",
        ("moves_are_known",),
        ("epochs_unique",),
        EPOCHS,
    ),
    theorem(
        "coordinator_fences",
        "After InitProducerId has told a pair, no EndTxn and no AddPartitionsToTxn of an older pair"
        " changes anything at the coordinator: V1 and V2, every release's rules.",
        "v2",
        ("moves_are_known",),
        ("fenced", "no_aborted_read", "no_lost_write"),
        FENCING,
    ),
    theorem(
        "transaction_decisions",
        "With V2 each (producer id, epoch) of a marker has one decision: PREPARE is never known"
        " with another one, and every marker that was ever sent says it; whether appends fail or"
        " only seem to.",
        "v2",
        ("epochs_rotate", "fence_takes_next_epoch", "moves_are_known"),
        ("one_outcome",),
        DECISIONS,
    ),
    theorem(
        "last_epoch_is_nobodys",
        "No transaction is open under the last epoch, behind which there is none to end it with: V1"
        " and V2, whatever arrives, and whether appends fail or only seem to.",
        "v2",
        ("epochs_rotate", "moves_are_known"),
        ("last_epoch_is_nobodys",),
        LAST_EPOCH,
    ),
    theorem(
        "partition_is_sound",
        "At a leader that gets any batches and any markers: epochs in the log never go back,"
        " current_txn_first_offset is exact, a marker closes what is open; and where a marker must"
        " be newer (KIP-1228), none closes a batch of its own epoch or of a later one.",
        "v2",
        (),
        ("last_stable_offset_sound", "no_dirty_read"),
        PARTITION,
    ),
    theorem(
        "last_stable_offset_sound",
        "At a leader that gets any batches and any markers the last stable offset passes no open"
        " transaction and never goes back; all that stands below it is decided.",
        "v2",
        (),
        ("last_stable_offset_sound", "no_dirty_read"),
        LAST_STABLE,
    ),
    theorem(
        "no_write_outside",
        "What is open at a partition is open at the coordinator too, and in its transaction: with"
        " any requests and late markers, V1 and V2, where leaders ask before the first write, and"
        " whether appends fail or only seem to.",
        "v2",
        ("leaders_ask", *LED),
        ("no_write_outside",),
        NO_WRITE_OUTSIDE,
    ),
    theorem(
        "fenced",
        "After InitProducerId has told a pair, no request of an older pair changes anything at the"
        " coordinator, and no batch of one comes into any log; what was written before is decided."
        " So no older instance commits, registers, or makes anything visible: V1 and V2.",
        "v2",
        ("leaders_ask", *LED),
        ("fenced", "no_write_outside"),
        FENCED,
    ),
    theorem(
        "markers_are_taken",
        "No partition refuses the marker of the coordinator that leads, whatever arrives late, and"
        " whether appends fail or only seem to: what is prepared completes. V1 and V2, every"
        " release's rules; where a marker must be newer than what it closes, whoever ends a"
        " transaction takes the next epoch, or the next producer id.",
        "v2",
        (
            "retries_are_taken",
            "epochs_are_compared",
            "fence_takes_next_epoch",
            "epochs_rotate",
            "pairs_are_kept",
            *LED,
        ),
        ("markers_are_taken",),
        MARKERS,
    ),
    theorem(
        "no_false_fencing",
        "An instance that is alone, and of which nothing is late, is never told that it is fenced,"
        " whichever answers are lost, and whatever batches expire: V1 and V2, every release's"
        " rules.",
        "v2",
        (
            "busy_comes_first",
            "epochs_are_compared",
            "epochs_go_on",
            "undisturbed",
            *LED,
        ),
        ("no_false_fencing",),
        SOLE_INSTANCE,
    ),
    theorem(
        "visible_as_decided",
        "With V2 and KIP-1228 a partition has at most one transaction open, and the first marker"
        " behind a record is its own transaction's decision, whatever arrives late: a record is"
        " visible if and only if its transaction commits.",
        "v2",
        (
            "epochs_rotate",
            "fence_takes_next_epoch",
            "markers_are_newer",
            "epochs_are_compared",
            *LED,
        ),
        ("no_aborted_read", "no_lost_write", "all_or_none", "one_outcome"),
        VISIBILITY,
    ),
    theorem(
        "visible_as_wanted",
        "With V1, where nothing is late, the first marker behind a record says what was decided of"
        " the record's own transaction, and no commit was decided that its application did not"
        " want.",
        "v1",
        ("leaders_ask", "requests_on_time", "markers_on_time", *LED),
        ("no_aborted_read", "no_lost_write", "all_or_none"),
        VISIBILITY_V1,
    ),
    theorem(
        "all_or_none",
        "With V2, whatever arrives late: a record becomes visible, in whichever partition, if and"
        " only if its transaction is decided to commit, which its application has asked for; once"
        " commitTransaction has returned, each record that was sent in the transaction is in its"
        " log, once, and decided to be visible: all partitions show it, each at its own time. It is"
        " so with a group's offsets, which move if and only if their transaction commits.",
        "v2",
        (
            "epochs_rotate",
            "fence_takes_next_epoch",
            "markers_are_newer",
            "epochs_are_compared",
            *LED,
            "pairs_are_kept",
        ),
        ("no_lost_write", "all_or_none", "no_aborted_read", "offsets_with_outcome", "acked_once"),
        CLIENT_V2,
    ),
    theorem(
        "all_or_none_on_time",
        "With V1, where nothing of an instance is late and no marker is: a record of it becomes"
        " visible, in whichever partition, if and only if its own transaction was decided to"
        " commit, which its application has asked for; once commitTransaction has returned, it was."
        " It is so with a group's offsets; at every level. That each record is stored by then is"
        " acked_is_stored_once.",
        "v1",
        (
            "leaders_ask",
            "fence_takes_next_epoch",
            "requests_on_time",
            "batches_on_time",
            "markers_on_time",
            "pairs_are_kept",
            *LED,
        ),
        ("no_aborted_read", "no_lost_write", "all_or_none", "offsets_with_outcome"),
        TOLD_V1,
    ),
    theorem(
        "stored_once",
        "No record stands twice in a log, whatever arrives late and however often, with any answers"
        " of coordinators: V1 and V2, every release's rules. A group's offsets may.",
        "v2",
        LED,
        ("acked_once",),
        RECORDS,
    ),
    theorem(
        "acked_is_stored_once",
        "With V1 too: a record that was answered without error is in the log, once, where a batch"
        " arrives only while its sender waits for the answer, and is refused only if it is not"
        " stored; and once commitTransaction has returned, so is each record that was sent.",
        "v1",
        ("batches_on_time", "refusals_are_true", "pairs_are_kept", *LED),
        ("acked_once", "no_lost_write"),
        ACKNOWLEDGED,
    ),
)

PROVED_AS = {
    "epochs_unique": "transaction_epochs",
    "one_outcome": "transaction_decisions",
    "no_write_outside": "no_write_outside",
    "last_stable_offset_sound": "last_stable_offset_sound",
    "no_dirty_read": "last_stable_offset_sound",
    "fenced": "fenced",
    "markers_are_taken": "markers_are_taken",
    "last_epoch_is_nobodys": "last_epoch_is_nobodys",
    "no_false_fencing": "no_false_fencing",
    "no_aborted_read": "all_or_none",
    "all_or_none": "all_or_none",
    "no_lost_write": "all_or_none",
    "offsets_with_outcome": "all_or_none",
    "acked_once": "stored_once",
}
"""The theorem about a whole guarantee; for some guarantees with V2 only."""

WITH_V1 = dict.fromkeys(
    ("no_aborted_read", "all_or_none", "no_lost_write", "offsets_with_outcome"),
    "all_or_none_on_time",
)
"""The theorem about the guarantee with V1."""

ONLY_EXPLORED: dict[str, str] = {
    "leaders_know_their_logs": "no obligation compares a leader's state with its whole log",
    "records_are_where_sent": "no step says which partition an application sent a record to",
    "coordinator_knows_its_log": "theorems say of each step what it makes of the log",
    "no_gap": "clauses say that the sequences of an epoch rise, and not that none is left out",
    "order_kept": "the same clauses say it of V2, where a record's number is its sequence",
    "stuck_only_while_aborting": "no clause speaks of an epoch that is never requested",
    "untroubled_commits": "theorems say what an answer means, and not that there is a good one",
    "newer_coordinators_fence": "it says what a leader would answer, which no clause does",
    "nothing_joins_prepared": "it says what a coordinator would answer, which no clause does",
    "epochs_have_causes": "how often something went wrong is counted in scopes only",
    "last_stable_offset_waits_for_others": (
        "clauses say where another id's open transaction begins, not which of its records end one"
    ),
    "coordinator_epochs_rise": "how often the coordinator has moved is counted in scopes only",
}
"""The guarantees that no theorem covers, or covers only in part, with the reason: they are explored
in scopes. No theorem is about a batch whose verification and append are separate (`guards`)."""
