"""What is proved of transactions, in layers: the clauses, what they stand on, and which rules are
any release's."""

from __future__ import annotations

from dataclasses import replace

from proofs.prove.transactions import coordinator as of_coordinator
from proofs.prove.transactions import partition as of_partition
from proofs.prove.transactions.coordinator import (
    COORDINATOR_STEPS,
    clause,
    epochs_are_many,
    without,
)
from proofs.prove.transactions.in_scope import check_transactions_scope
from proofs.prove.transactions.steps import COVERED, Transactions
from proofs.prove.unknowns import number
from proofs.prove.worlds import Composition

CONTRACTS = {
    "first_open": of_partition.first_open,
    "base_offset_of": lambda *_: number("base_offset"),
}
"""Sums over a log of any length; what offset a duplicate is answered with matters to no clause."""

LAYOUT = {"instances": 1, "partitions": 0, "transactions": 1, "log": 1, "producer_ids": 0}

LOG = "transactions-log/begun=0"
SMALL = (
    "transactions-forgotten/begun=0",
    "transactions-offsets/begun=1/timeouts=0",
    "transactions-markers/begun=1",
    "transactions-readers/begun=1/delays=0/unheard=0",
    "transactions-small/begun=1/unheard=0/delays=0",
)
"""Where clauses are checked on every world: together they take each rule that is covered."""

HONEST = (f"{LOG}/failures=0", *SMALL)
"""The same, where no append only seems to fail."""

ON_TIME_SCOPES = SMALL[-2:]
"""The same, where nothing is late."""

ONLY_V1 = ("partitions_are_added", "offsets_are_added", "late_addition_arrives")


def rules_of(steps: tuple[str, ...], *but: str) -> tuple[str, ...]:
    """The rules of the world that some steps cover: scopes must take each of them."""
    taken = (rule for rule, names in COVERED.items() if set(names) & set(steps))
    return tuple(rule for rule in taken if rule not in but)


SOUND = ("appends_take_time", "ids_are_counted", "log_is_ahead", "epochs_are_many")
GIVEN = (*SOUND, "given_is_past", "answers_are_of_images")

EPOCHS = Composition(
    home="transactions",
    layout=LAYOUT,
    unknown=without(),
    clauses=(
        clause(of_coordinator.appends_take_time, *SOUND),
        clause(of_coordinator.ids_are_counted, *SOUND),
        clause(of_coordinator.log_is_ahead, *SOUND),
        clause(of_coordinator.answers_are_of_images, *SOUND),
        clause(of_coordinator.given_is_past, *GIVEN),
        clause(of_coordinator.what_is_awaited_is_new, *GIVEN),
        clause(of_coordinator.epochs_unique, *GIVEN, "what_is_awaited_is_new"),
        clause(of_coordinator.reign_is_past, *GIVEN, "what_is_awaited_is_new"),
        clause(
            of_coordinator.epochs_never_go_back, *GIVEN, "reign_is_past", "what_is_awaited_is_new"
        ),
    ),
    facts={"epochs_are_many": epochs_are_many()},
    steps=COORDINATOR_STEPS,
    worlds=Transactions,
    check=check_transactions_scope,
    scopes=(LOG, *SMALL),
    variants=("v1", "v2"),
    rules=rules_of(COORDINATOR_STEPS),
)

FENCING = replace(
    EPOCHS,
    clauses=(
        *(c for c in EPOCHS.clauses if c.name not in ("epochs_unique", "epochs_never_go_back")),
        clause(of_coordinator.fenced_change_nothing, *SOUND, "reign_is_past"),
    ),
)

DECIDING = (*(s for s in COORDINATOR_STEPS if s != "append_seems_to_fail"), "marker_is_sent")
DECIDED = (*SOUND, "log_is_known", "ids_are_remembered", "epochs_rotate", "prepare_is_next")
DECISIONS = Composition(
    home="transactions",
    layout=LAYOUT,
    unknown=without("requests", "fence"),
    clauses=(
        clause(of_coordinator.appends_take_time, *SOUND),
        clause(of_coordinator.ids_are_counted, *SOUND),
        clause(of_coordinator.log_is_ahead, *SOUND),
        clause(of_coordinator.log_is_known, *SOUND),
        clause(of_coordinator.ids_are_remembered, *DECIDED),
        clause(of_coordinator.prepare_is_next, *DECIDED),
        clause(of_coordinator.decided_is_past, *DECIDED),
        clause(of_coordinator.prepared_is_decided, *DECIDED, "decided_is_past"),
        clause(of_coordinator.outcomes_are_outcomes, *SOUND),
        clause(
            of_coordinator.markers_say_decisions,
            *DECIDED,
            "decided_is_past",
            "prepared_is_decided",
            "outcomes_are_outcomes",
        ),
        clause(of_coordinator.one_outcome, *DECIDED, "decided_is_past"),
    ),
    facts={
        "epochs_are_many": epochs_are_many(),
        "epochs_rotate": of_coordinator.epochs_rotate(),
    },
    steps=DECIDING,
    worlds=Transactions,
    check=check_transactions_scope,
    scopes=HONEST,
    variants=("v2",),
    rules=rules_of(DECIDING, "append_is_refused", *ONLY_V1),
)


LEADER_STEPS = (
    "batch_is_taken",
    "offsets_are_taken",
    "is_asked",
    "any_marker_arrives",
    "other_writes",
)
LOGGED = ("log_has_epochs",)
MARKED = ("log_has_epochs", "last_marker_is_last")

PARTITION = Composition(
    home="transactions",
    layout=LAYOUT,
    unknown=without(),
    clauses=(
        clause(of_partition.log_has_epochs),
        clause(of_partition.epochs_rise_in_the_log, *LOGGED),
        clause(of_partition.last_marker_is_last, *LOGGED),
        clause(of_partition.first_offset_is_exact, *MARKED),
        clause(of_partition.others_are_in_the_log, *LOGGED),
    ),
    contracts=CONTRACTS,
    lemmas=of_partition.stable_offsets,
    steps=LEADER_STEPS,
    worlds=Transactions,
    check=check_transactions_scope,
    scopes=SMALL,
    variants=("v1", "v2"),
    rules=("batch_is_produced", "marker_is_written", "late_marker_arrives", "other_writes"),
)

MEETING = (*DECIDING, "batch_arrives", "marker_arrives", "other_writes")
KNOWN = (*SOUND, "log_is_known", "partitions_are_in_transactions")
OUTSIDE = (*KNOWN, "leaders_ask", "no_write_outside")

NO_WRITE_OUTSIDE = Composition(
    home="transactions",
    layout=LAYOUT,
    unknown=without(),
    clauses=(
        clause(of_coordinator.appends_take_time, *SOUND),
        clause(of_coordinator.ids_are_counted, *SOUND),
        clause(of_coordinator.log_is_ahead, *SOUND),
        clause(of_coordinator.log_is_known, *SOUND),
        clause(of_partition.partitions_are_in_transactions, *KNOWN),
        clause(of_partition.no_write_outside, *OUTSIDE),
    ),
    facts={"epochs_are_many": epochs_are_many(), "leaders_ask": of_partition.leaders_ask()},
    contracts=CONTRACTS,
    steps=MEETING,
    worlds=Transactions,
    check=check_transactions_scope,
    scopes=HONEST,
    variants=("v1", "v2"),
    rules=rules_of(MEETING, "append_is_refused"),
)

OPEN = (*OUTSIDE, *DECIDED, "no_fence_fails", "log_has_epochs", *MARKED, "first_offset_is_exact")
PRESENT = (*OPEN, "open_has_present_epoch", "decided_is_past")
SAID = ("prepared_is_decided", "markers_say_decisions", "outcomes_are_outcomes")
ENDED = (*PRESENT, *SAID, "open_has_one_epoch", "ended_is_exact")

VISIBILITY = Composition(
    home="transactions",
    layout=LAYOUT,
    unknown=without("requests", "fence", "marker_epoch", "level"),
    clauses=(
        *DECISIONS.clauses,
        *NO_WRITE_OUTSIDE.clauses[-2:],
        clause(of_partition.log_has_epochs, *SOUND, "outcomes_are_outcomes"),
        *PARTITION.clauses[1:-1],
        clause(of_partition.no_fence_fails, *KNOWN),
        clause(of_partition.open_has_present_epoch, *PRESENT),
        clause(of_partition.open_has_one_epoch, *PRESENT),
        clause(of_partition.ended_is_exact, *MARKED, "first_offset_is_exact"),
        clause(of_partition.ended_by_the_first, "ended_is_exact", "last_marker_is_last"),
        clause(of_partition.visible_as_decided, *ENDED),
    ),
    facts={**DECISIONS.facts, **NO_WRITE_OUTSIDE.facts},
    contracts=CONTRACTS,
    steps=MEETING,
    worlds=Transactions,
    check=check_transactions_scope,
    scopes=HONEST,
    variants=("v2",),
    rules=rules_of(MEETING, "append_is_refused", *ONLY_V1),
)

ON_TIME = (
    *(step for step in DECIDING if step != "end"),
    "end_on_time",
    "batch_arrives_on_time",
    "other_writes",
)
TURNS = (*OUTSIDE, *MARKED, "first_offset_is_exact", "turns_are_prepared_once")

VISIBILITY_V1 = Composition(
    home="transactions",
    layout=LAYOUT,
    unknown=without("requests", "verification"),
    clauses=(
        *NO_WRITE_OUTSIDE.clauses,
        clause(of_partition.log_has_epochs, *SOUND),
        *PARTITION.clauses[1:-1],
        clause(of_partition.turns_are_prepared_once, *KNOWN),
        clause(of_partition.commits_are_wanted, *KNOWN, "turns_are_prepared_once"),
        clause(of_partition.ended_is_exact, *MARKED, "first_offset_is_exact"),
        clause(of_partition.ended_by_the_first, "ended_is_exact", "last_marker_is_last"),
        clause(of_partition.open_is_of_this_turn, *TURNS),
        clause(of_partition.visible_as_wanted, *TURNS, "open_is_of_this_turn", "ended_is_exact"),
    ),
    facts={"epochs_are_many": epochs_are_many()},
    contracts=CONTRACTS,
    steps=ON_TIME,
    worlds=Transactions,
    check=check_transactions_scope,
    scopes=ON_TIME_SCOPES,
    variants=("v1",),
    rules=("batch_is_produced", "transaction_is_ended", "marker_is_written", "other_writes"),
)

PROVED_AS = {
    "epochs_unique": "transaction_epochs",
    "one_outcome": "transaction_decisions",
    "no_write_outside": "no_write_outside",
    "last_stable_offset_sound": "partition_is_sound",
    "no_dirty_read": "partition_is_sound",
}
"""The theorem that is about all of a promise."""

ONLY_EXPLORED = {
    "no_aborted_read": (
        "of V2 it is proved that a record is visible as its pair was decided (visible_as_decided),"
        " of V1 as its application wanted (visible_as_wanted); that a client of V2 asks under each"
        " pair for what its application wants needs the client's states in the proof"
    ),
    "all_or_none": (
        "all partitions show what was decided of the pair, which is one decision; that the records"
        " of one transaction have one pair needs the client's states"
    ),
    "no_lost_write": (
        "no acknowledged commit is aborted, by the same theorems; that a commit waits for all that"
        " was sent needs the client's states, and so does the answer that it believes"
    ),
    "offsets_with_outcome": "as no_aborted_read and no_lost_write, of the group's partition",
    "acked_once": (
        "a leader's sequences across transactions: proved of idempotent producers only, whose"
        " leaders have no verification and no markers that end an epoch"
    ),
    "fenced": (
        "proved at the coordinator (coordinator_fences); that partitions show nothing older needs"
        " where each log ended when InitProducerId was answered"
    ),
    "no_false_fencing": "it is about one client that is alone: its states are not in the proofs",
    "markers_are_taken": (
        "no partition's coordinator epoch is ahead of the coordinator's, and no producer's epoch is"
        " ahead of what is prepared: the second follows from open_has_present_epoch only where"
        " something is open"
    ),
}
"""What of the promises no theorem covers, or not all of it, and why: they are explored in scopes.
Of no theorem is a batch whose verification and append are apart (`guards`)."""
