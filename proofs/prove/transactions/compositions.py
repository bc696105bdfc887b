"""What is proved of transactions, in layers: the clauses, what they stand on, and which rules are
any release's."""

from __future__ import annotations

from dataclasses import replace

from proofs.prove.composition import Composition
from proofs.prove.induction import axiom, clause_of, clauses_of, collected
from proofs.prove.transactions import (
    acknowledgements,
    client,
    coordinator,
    decisions,
    epochs,
    markers,
    pairs,
    partition,
    records,
    single_instance,
    visibility,
    writes,
)
from proofs.prove.transactions.in_scope import check_instances, check_partitions
from proofs.prove.transactions.in_words import in_words
from proofs.prove.transactions.instances import Instances
from proofs.prove.transactions.last_stable_offset import (
    fold_of_entries,
    late_markers,
    stable_offsets,
)
from proofs.prove.transactions.marker_steps import Takers
from proofs.prove.transactions.record_steps import Records
from proofs.prove.transactions.rules import BUMPS, without
from proofs.prove.transactions.single_instance_steps import SoleInstanceSteps
from proofs.prove.transactions.steps import COVERED, Transactions
from proofs.prove.unknowns import number

CONTRACTS = {
    "fold": fold_of_entries,
    "base_offset_of": lambda *_: number("base_offset"),
}
"""Sums over a log of any length; what offset a duplicate is answered with matters to no clause."""

BOUNDS = {"instances": 1, "partitions": 0, "transactions": 1, "log": 1, "producer_ids": 0}

LOG = "transactions-log/begun=0"
SMALL = (
    "transactions-forgotten/begun=0",
    "transactions-offsets/begun=1/timeouts=0",
    "transactions-markers/begun=1",
    "transactions-readers/begun=1/delays=0/unheard=0",
    "transactions-small/begun=1/unheard=0/delays=0",
)
"""Where clauses are checked on every world: together they take each rule that is covered."""

EVERY = (LOG, *SMALL)
"""The same, and where appends to the transaction log take their time, fail, or seem to."""

ON_TIME_SCOPES = SMALL[-2:]
"""The same, where nothing is late."""

SEARCHED = ("transactions-default", "transactions-late-batch/delays=0")
"""Where V1, and older releases, break what is guaranteed of others."""

ONLY_V1 = ("partitions_are_added", "offsets_are_added", "late_addition_arrives")


def rules_of(steps: tuple[str, ...], *but: str) -> tuple[str, ...]:
    """The rules of the world that some steps cover: scopes must take each of them."""
    taken = (rule for rule, names in COVERED.items() if set(names) & set(steps))
    return tuple(rule for rule in taken if rule not in but)


COORDINATOR_STEPS = (
    "init",
    "add",
    "end",
    "time_out",
    "forget",
    "append_succeeds",
    "append_fails",
    "append_seems_to_fail",
    "take_over",
    "take_over_with_append",
    "lose_requester",
    "lose_marker",
    "marker_is_answered",
    "marker_is_written",
)

SOUND = collected(coordinator)

ANYONE = Composition(
    home="transactions",
    bounds=BOUNDS,
    unknown=without(),
    clauses=SOUND,
    axioms=(axiom(coordinator.epochs_are_many),),
    contracts=CONTRACTS,
    worlds=Transactions,
    check=check_partitions,
    searched=SEARCHED,
    variants=("v1", "v2"),
)
"""What the others begin with: numbers that are sound, whoever asks for what."""

EPOCHS = replace(
    ANYONE,
    clauses=(
        *SOUND,
        *collected(epochs),
        *clauses_of(epochs.epochs_unique, epochs.epochs_never_go_back),
    ),
    steps=(*COORDINATOR_STEPS, "skip_marker"),
    scopes=EVERY,
    rules=rules_of(COORDINATOR_STEPS),
)

FENCING = replace(
    EPOCHS,
    clauses=(*SOUND, *collected(epochs), clause_of(epochs.fenced_change_nothing)),
)

DECIDING = (*COORDINATOR_STEPS, "marker_is_sent")
DECISIONS = replace(
    ANYONE,
    unknown=without("requests", "fence"),
    clauses=(*SOUND, *collected(decisions), clause_of(decisions.one_outcome)),
    axioms=(*ANYONE.axioms, axiom(decisions.epochs_rotate)),
    steps=(*DECIDING, "skip_marker"),
    scopes=EVERY,
    variants=("v2",),
    rules=rules_of(DECIDING, *ONLY_V1),
)


LAST_EPOCH = replace(
    ANYONE,
    clauses=(*SOUND, clause_of(decisions.ids_are_remembered)),
    axioms=(*ANYONE.axioms, axiom(decisions.epochs_rotate)),
    lemmas=in_words({"last_epoch_is_nobodys": ("ids_are_counted", "ids_are_remembered")}),
    steps=(*COORDINATOR_STEPS, "skip_marker"),
    scopes=(*EVERY, "transactions-trouble-log/timeouts=1/failures=1"),
    rules=rules_of(COORDINATOR_STEPS),
)

LEADER_STEPS = (
    "batch_is_taken",
    "offsets_are_taken",
    "is_asked",
    "refuse",
    "hold",
    "on_verified",
    "restarted",
    "any_marker_arrives",
    "other_writes",
)
PARTITION = replace(
    ANYONE,
    clauses=clauses_of(
        partition.log_has_epochs,
        partition.epochs_rise_in_the_log,
        partition.last_marker_is_last,
        partition.first_offset_is_exact,
    ),
    axioms=(),
    lemmas=late_markers,
    steps=LEADER_STEPS,
    scopes=SMALL,
    rules=("batch_is_produced", "marker_is_written", "late_marker_arrives", "other_writes"),
)

LAST_STABLE = replace(
    PARTITION,
    clauses=clauses_of(
        partition.log_has_epochs,
        partition.last_marker_is_last,
        partition.first_offset_is_exact,
        partition.others_are_in_the_log,
        partition.ended_is_exact,
    ),
    lemmas=stable_offsets,
)

MEETING = (*DECIDING, "batch_arrives", "marker_arrives", "other_writes")
OUTSIDE = clauses_of(writes.partitions_are_in_transactions, writes.no_write_outside)

NO_WRITE_OUTSIDE = replace(
    ANYONE,
    clauses=(*SOUND, *OUTSIDE),
    axioms=(*ANYONE.axioms, axiom(writes.leaders_ask)),
    lemmas=in_words({"no_write_outside": ("no_write_outside",)}),
    steps=MEETING,
    scopes=EVERY,
    rules=rules_of(MEETING),
)

FENCED = replace(
    NO_WRITE_OUTSIDE,
    clauses=(
        *FENCING.clauses,
        *OUTSIDE,
        *clauses_of(
            writes.who_waits_begins, writes.open_is_not_older, writes.nothing_older_is_written
        ),
    ),
)

TAKING = (
    *(step for step in COORDINATOR_STEPS if step != "marker_is_answered"),
    "other_takes",
    "marker_is_sent",
    "marker_arrives",
    "told_batch",
    "other_writes",
)
MARKERS = replace(
    ANYONE,
    clauses=(
        *SOUND,
        *clauses_of(epochs.answers_are_of_images, epochs.given_is_past),
        *collected(markers),
        clause_of(markers.markers_are_taken),
    ),
    axioms=(
        *ANYONE.axioms,
        *map(axiom, (markers.retries_are_taken, markers.epochs_are_compared)),
    ),
    lemmas=in_words({"markers_are_taken": ("markers_are_taken",)}),
    steps=TAKING,
    worlds=Takers,
    scopes=EVERY,
    rules=rules_of(MEETING),
)

ENDED = clauses_of(partition.ended_is_exact, partition.ended_by_the_first)

VISIBILITY = replace(
    ANYONE,
    unknown=without("requests", "fence", "marker_epoch", "level", "ongoing"),
    clauses=(
        *DECISIONS.clauses,
        *OUTSIDE,
        clause_of(partition.log_has_epochs).also(*coordinator.SOUND, "outcomes_are_outcomes"),
        *PARTITION.clauses[1:],
        *ENDED,
        *collected(visibility),
        clause_of(visibility.visible_as_decided),
    ),
    axioms=(*DECISIONS.axioms, axiom(writes.leaders_ask)),
    steps=MEETING,
    scopes=EVERY,
    variants=("v2",),
    rules=rules_of(MEETING, *ONLY_V1),
)

FIRST_MARKER = ("ended_is_exact", "ended_by_the_first")
"""What ends a record is the first marker behind it."""

OWN_STEPS = (
    *(step for step in MEETING if step not in ("batch_arrives",)),
    "add_partitions",
    "add_offsets",
    "lose_coordinator",
    "lose_leader",
    "i_begin",
    "i_end",
    "my_late_end",
    "my_batch",
    "my_offsets",
    "my_late_batch",
    "their_batch",
    "my_batch_elsewhere",
    "my_offsets_elsewhere",
    "init_transactions",
    "begin_transaction",
    "send",
    "commit_transaction",
    "abort_transaction",
    "give_up",
    "end_is_sent",
    "batch_is_sent",
    "offsets_are_sent",
)
COUNTED = clauses_of(client.sent_is_counted, client.outcomes_are_of_states)
SETTLED = clauses_of(acknowledgements.settled_is_stored, acknowledgements.committed_is_stored)

CLIENT_V2 = replace(
    VISIBILITY,
    unknown=without("requests", "fence", "marker_epoch", "level", "ongoing", "previous_id"),
    bounds={**BOUNDS, "transactions": 0},
    clauses=(
        *(c.also(*client.SHOWN) if c.name == "log_is_ahead" else c for c in VISIBILITY.clauses),
        *(c for c in EPOCHS.clauses if c not in SOUND),
        *collected(pairs),
        *clauses_of(
            client.client_speaks_v2,
            client.writes_are_numbered,
            client.ends_are_asked,
            client.ends_wait_for_batches,
            client.batches_are_sent,
        ),
        *(c.also(*client.ACTS) for c in COUNTED),
        *(c.also(*acknowledgements.STORED, "known_batch_is_stored", "who_waits") for c in SETTLED),
        *(c for c in collected(acknowledgements) if c not in SETTLED),
        *collected(acknowledgements, "guarantees"),
    ),
    lemmas=in_words(
        {
            "all_or_none": ("told_is_visible", *FIRST_MARKER),
            "no_aborted_read": ("told_is_visible", *FIRST_MARKER),
            "acked_once": ("stored_once",),
        }
    ),
    steps=OWN_STEPS,
    worlds=Instances,
    check=check_instances,
)

SENDING = (
    "init_transactions",
    "begin_transaction",
    "send",
    "commit_transaction",
    "abort_transaction",
    "give_up",
    "lose_coordinator",
    "lose_leader",
    "i_begin",
    "i_add",
    "i_add_offsets",
    "i_end",
    "my_batch",
    "my_offsets",
    "my_batch_elsewhere",
    "my_offsets_elsewhere",
    "their_batch",
    "their_offsets",
    "is_asked",
    "refuse",
    "any_marker_arrives",
    "other_writes",
)
RECORDS = replace(
    ANYONE,
    bounds={**BOUNDS, "transactions": 0},
    unknown=without() | BUMPS,
    clauses=clauses_of(
        partition.log_has_epochs,
        partition.epochs_rise_in_the_log,
        acknowledgements.sequences_rise,
        records.client_has_batches,
        records.batches_keep_their_names,
        records.log_has_names,
        acknowledgements.stored_once,
    ),
    axioms=(axiom(records.here_is_one),),
    lemmas=in_words({"acked_once": ("stored_once",)}),
    steps=(*SENDING, "batch_is_sent", "offsets_are_sent", "my_late_batch", "my_late_offsets"),
    worlds=Records,
    check=check_instances,
    scopes=SMALL,
    rules=("batch_is_produced", "offsets_are_committed", "late_batch_arrives"),
)

ACKNOWLEDGED = replace(
    RECORDS,
    clauses=(
        *RECORDS.clauses,
        *clauses_of(acknowledgements.held_is_there, acknowledgements.remembered_is_stored),
        *(c for c in collected(records) if c not in RECORDS.clauses),
        clause_of(records.acked_is_stored),
        *(c.also("client_has_batches") for c in COUNTED),
        *(
            c.also(*records.ACKED, *records.KNOWN_BATCH, "here_is_one", "known_batch_is_it")
            for c in SETTLED
        ),
    ),
    steps=SENDING,
    scopes=ON_TIME_SCOPES,
    rules=("batch_is_produced",),
)

SOLE_INSTANCE_RULES = (
    "instance_begins",
    "transaction_begins",
    "record_is_sent",
    "commit_is_asked",
    "abort_is_asked",
    "batch_expires",
    "producer_id_is_asked",
    "partitions_are_added",
    "offsets_are_added",
    "transaction_is_ended",
    "batch_is_produced",
    "offsets_are_committed",
    "marker_is_written",
    "append_is_done",
    "requester_leaves",
    "other_writes",
)
SOLE_INSTANCE = replace(
    ANYONE,
    bounds={**BOUNDS, "transactions": 0},
    unknown=without() | BUMPS,
    clauses=(
        *(
            c.also(*single_instance.LONE)
            for c in clauses_of(coordinator.ids_are_counted, records.client_has_batches)
        ),
        *collected(single_instance),
        clause_of(single_instance.no_false_fencing),
    ),
    axioms=(
        *ANYONE.axioms,
        *map(axiom, (single_instance.in_turn, markers.epochs_are_compared)),
    ),
    contracts={**CONTRACTS, "initialized_by": lambda _evaluator, w, _answer: w.initialization},
    lemmas=in_words({"no_false_fencing": ("no_false_fencing",)}),
    steps=(*SOLE_INSTANCE_RULES, "marker_is_sent", "marker_arrives"),
    worlds=SoleInstanceSteps,
    scopes=(
        "transactions-tiny",
        "transactions-log-again",
        "transactions-offsets-log/delays=0",
        "transactions-adopted/delays=0",
        "transactions-markers/begun=1/moves=0",
        "transactions-offsets/begun=1/timeouts=0/delays=0",
        "transactions-readers/begun=1/delays=0/unheard=0",
    ),
    rules=(*SOLE_INSTANCE_RULES, "marker_is_delayed", "late_marker_arrives"),
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
"""The theorem that is about all of a guarantee; of some with V2 only."""

WITH_V1 = dict.fromkeys(
    ("no_aborted_read", "all_or_none", "no_lost_write", "offsets_with_outcome"),
    "all_or_none_on_time",
)
"""The theorem that is about it with V1."""

ONLY_EXPLORED: dict[str, str] = {
    "leaders_know_their_logs": "no obligation compares a leader's state with its whole log",
    "records_are_where_sent": "no step says which partition an application sent a record to",
    "coordinator_knows_its_log": "theorems say of each step what it makes of the log",
    "coordinator_epochs_rise": "how often the coordinator has moved is counted in scopes only",
}
"""What of the guarantees no theorem covers, or not all of it, and why: they are explored in scopes.
Of no theorem is a batch whose verification and append are apart (`guards`)."""
