"""The theorems of transactions in layers: their clauses, the clauses that these use, and the rules
that may be those of any release."""

from __future__ import annotations

from dataclasses import replace

from proofs.prove.engine.assumptions import OF_STEPS
from proofs.prove.engine.composition import Composition
from proofs.prove.engine.induction import axiom, clause_of, clauses_of, collected
from proofs.prove.engine.unknowns import number
from proofs.prove.transactions import (
    acknowledgements,
    client,
    coordinator,
    decisions,
    epochs,
    markers,
    message_assumptions,
    pairs,
    partition,
    records,
    single_instance,
    visibility,
    writes,
)
from proofs.prove.transactions.assumptions import OF_TRANSACTIONS
from proofs.prove.transactions.in_words import in_words
from proofs.prove.transactions.last_stable_offset import (
    fold_of_entries,
    late_markers,
    stable_offsets,
)
from proofs.prove.transactions.scope_states import check_instances, check_partitions
from proofs.prove.transactions.steps import Transactions
from proofs.prove.transactions.unknown_rules import BUMPS, without

CONTRACTS = {
    "fold": fold_of_entries,
    "base_offset_of": lambda *_: number("base_offset"),
}
"""Sums over a log of any length. No clause depends on the offset with which a duplicate is
answered."""

BOUNDS = {"instances": 1, "partitions": 0, "transactions": 1, "log": 1, "producer_ids": 0}

LOG = "transactions-log/begun=0"
SMALL = (
    "transactions-rejection/begun=1",
    "transactions-forgotten/begun=0",
    "transactions-offsets/begun=1/timeouts=0",
    "transactions-markers/begun=1",
    "transactions-readers/begun=1/delays=0/unheard=0",
    "transactions-small/begun=1/unheard=0/delays=0",
)
"""Scopes in which clauses are checked on every world; together they apply each rule that is
covered."""

EVERY = (LOG, *SMALL)
"""The same scopes, and one in which appends to the transaction log take time, fail, or seem to
fail."""

LEADERLESS = "transactions-readers/begun=1/delays=0/unheard=0/leaves=1"
GUARDED = "transactions-guards-partitions"
EXPIRING = "transactions-offsets-log/delays=0"
"""Scopes in which leaders leave, batches are verified before they arrive, or batches expire."""

ON_TIME_SCOPES = (*SMALL[-2:], "transactions-rejection/unheard=0")
"""The same without delays; a batch that is refused for good is not stored."""

SEARCHED = ("transactions-default", "transactions-late-batch/delays=0")
"""Scopes in which V1, and older releases, break guarantees of other variants."""

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
    assumes=(*OF_STEPS, *OF_TRANSACTIONS),
    check=check_partitions,
    searched=SEARCHED,
    variants=("v1", "v2"),
)
"""The base of the other compositions: numbers are sound, whoever sends which request."""

EPOCHS = replace(
    ANYONE,
    clauses=(
        *SOUND,
        *collected(epochs),
        *clauses_of(epochs.epochs_unique, epochs.epochs_never_go_back),
    ),
    steps=(*COORDINATOR_STEPS, "marker_is_skipped"),
    scopes=(*EVERY, LEADERLESS),
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
    steps=(*DECIDING, "marker_is_skipped"),
    scopes=(*EVERY, LEADERLESS),
    variants=("v2",),
)


LAST_EPOCH = replace(
    ANYONE,
    clauses=(*SOUND, clause_of(decisions.ids_are_remembered)),
    axioms=(*ANYONE.axioms, axiom(decisions.epochs_rotate)),
    lemmas=in_words({"last_epoch_is_nobodys": ("ids_are_counted", "ids_are_remembered")}),
    steps=(*COORDINATOR_STEPS, "marker_is_skipped"),
    scopes=(*EVERY, LEADERLESS, "transactions-trouble-log/timeouts=1/failures=1"),
)

LEADER_STEPS = (
    "batch_is_taken",
    "batch_is_invalid",
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
    scopes=(*SMALL, GUARDED, LEADERLESS),
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

TAKING = (*DECIDING, "marker_arrives", "told_batch", "other_writes")
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
    scopes=EVERY,
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
)

FIRST_MARKER = ("ended_is_exact", "ended_by_the_first")
"""The clauses which say that the first marker after a record ends it."""

ACTS = (
    "init_transactions",
    "begin_transaction",
    "send",
    "commit_transaction",
    "abort_transaction",
    "give_up",
)
"""The calls of the application, and expirations."""
LOSSES = ("lose_coordinator", "lose_leader")
SENDS = (
    "batch_is_produced",
    "offsets_are_committed",
    "batch_is_rejected",
    "batch_is_produced_elsewhere",
    "offsets_are_committed_elsewhere",
    "batch_is_rejected_elsewhere",
)
ADDITIONS = ("partitions_are_added", "offsets_are_added")
APPENDS = ("append_is_done", "append_is_refused")
OF_ITSELF = (
    *(step for step in DECIDING if step not in ("init", "add", "end")),
    "other_writes",
)
"""The steps that the coordinator takes by itself, and its markers."""
BESIDE_INSTANCE = (
    "others_init",
    "others_end",
    *(step for step in OF_ITSELF if not step.startswith("append_")),
    *APPENDS,
)
"""The steps of the coordinator when one of the instances that send it requests is watched."""
LATE = ("end_is_sent", "batch_is_sent", "offsets_are_sent")
OWN_STEPS = (
    *BESIDE_INSTANCE,
    "late_add",
    "marker_arrives",
    *ACTS,
    *LOSSES,
    "add_partitions",
    "add_offsets",
    "producer_id_is_asked",
    "transaction_is_ended",
    *SENDS,
    *LATE,
    "my_late_end",
    "my_late_batch",
    "their_batch",
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
    scopes=(*EVERY, EXPIRING),
    check=check_instances,
)

ASKS = ("producer_id_is_asked", *ADDITIONS, "transaction_is_ended")
SENDING = (
    *ACTS,
    *LOSSES,
    *ASKS,
    *SENDS,
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
    promises=(message_assumptions.is_of_request,),
    steps=(*SENDING, "batch_is_sent", "offsets_are_sent", "my_named_batch", "others_batch"),
    check=check_instances,
    scopes=(*SMALL, EXPIRING),
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
    promises=(
        *RECORDS.promises,
        message_assumptions.pair_is_new,
        message_assumptions.refused_is_absent,
    ),
    steps=(*SENDING, "others_batch_on_time"),
    scopes=(*ON_TIME_SCOPES, EXPIRING),
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
    steps=(
        *ACTS,
        *ASKS,
        *SENDS,
        "append_is_done",
        "requester_leaves",
        "marker_is_written",
        "marker_is_answered",
        "marker_is_delayed",
        "marker_arrives",
        "other_writes",
    ),
    scopes=(
        "transactions-tiny",
        "transactions-rejection/begun=1",
        "transactions-log-again",
        "transactions-offsets-log/delays=0",
        "transactions-adopted/delays=0",
        "transactions-markers/begun=1/moves=0",
        "transactions-offsets/begun=1/timeouts=0/delays=0",
        "transactions-readers/begun=1/delays=0/unheard=0",
    ),
)
