"""What is proved of transactions, in layers: the clauses, what they stand on, and which rules are
any release's."""

from __future__ import annotations

from dataclasses import replace

from proofs.lift.dag import leaf
from proofs.prove.composition import Composition
from proofs.prove.induction import clause, follows
from proofs.prove.transactions import (
    acknowledgements,
    client,
    coordinator,
    markers,
    partition,
    records,
    single_instance,
)
from proofs.prove.transactions.coordinator import COORDINATOR_STEPS, epochs_are_many, without
from proofs.prove.transactions.in_scope import check_transactions_scope
from proofs.prove.transactions.in_words import in_words
from proofs.prove.transactions.instances import Instances
from proofs.prove.transactions.instances_in_scope import check_instances_scope, check_lone_scope
from proofs.prove.transactions.records import Records
from proofs.prove.transactions.state import HERE
from proofs.prove.transactions.steps import COVERED, Transactions
from proofs.prove.unknowns import number

CONTRACTS = {
    "first_open": partition.first_open,
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


SOUND = ("appends_take_time", "ids_are_counted", "log_is_ahead", "epochs_are_many")
GIVEN = (*SOUND, "given_is_past", "answers_are_of_images")

ANYONE = Composition(
    home="transactions",
    bounds=BOUNDS,
    unknown=without(),
    clauses=(
        clause(coordinator.appends_take_time, *SOUND),
        clause(coordinator.ids_are_counted, *SOUND),
        clause(coordinator.log_is_ahead, *SOUND),
    ),
    facts={"epochs_are_many": epochs_are_many()},
    contracts=CONTRACTS,
    worlds=Transactions,
    check=check_transactions_scope,
    searched=SEARCHED,
    variants=("v1", "v2"),
)
"""What the others begin with: numbers that are sound, whoever asks for what."""

EPOCHS = replace(
    ANYONE,
    clauses=(
        *ANYONE.clauses,
        clause(coordinator.answers_are_of_images, *SOUND),
        clause(coordinator.given_is_past, *GIVEN),
        clause(coordinator.what_is_awaited_is_new, *GIVEN),
        clause(coordinator.epochs_unique, *GIVEN, "what_is_awaited_is_new"),
        clause(coordinator.reign_is_past, *GIVEN, "what_is_awaited_is_new"),
        clause(coordinator.epochs_never_go_back, *GIVEN, "reign_is_past", "what_is_awaited_is_new"),
    ),
    steps=COORDINATOR_STEPS,
    scopes=EVERY,
    rules=rules_of(COORDINATOR_STEPS),
)

FENCING = replace(
    EPOCHS,
    clauses=(
        *(c for c in EPOCHS.clauses if c.name not in ("epochs_unique", "epochs_never_go_back")),
        clause(coordinator.fenced_change_nothing, *SOUND, "reign_is_past"),
    ),
)

DECIDING = (*COORDINATOR_STEPS, "marker_is_sent")
DECIDED = (*SOUND, "ids_are_remembered", "epochs_rotate", "prepare_is_next")
DECISIONS = replace(
    ANYONE,
    unknown=without("requests", "fence"),
    clauses=(
        *ANYONE.clauses,
        clause(coordinator.ids_are_remembered, *DECIDED),
        clause(coordinator.prepare_is_next, *DECIDED),
        clause(coordinator.decided_is_past, *DECIDED),
        clause(coordinator.prepared_is_decided, *DECIDED, "decided_is_past"),
        clause(coordinator.outcomes_are_outcomes, *SOUND),
        clause(
            coordinator.markers_say_decisions,
            *DECIDED,
            "decided_is_past",
            "prepared_is_decided",
            "outcomes_are_outcomes",
        ),
        clause(coordinator.one_outcome, *DECIDED, "decided_is_past"),
    ),
    facts={**ANYONE.facts, "epochs_rotate": coordinator.epochs_rotate()},
    steps=DECIDING,
    scopes=EVERY,
    variants=("v2",),
    rules=rules_of(DECIDING, *ONLY_V1),
)


LAST_EPOCH = replace(
    ANYONE,
    clauses=(*ANYONE.clauses, clause(coordinator.ids_are_remembered, *SOUND, "epochs_rotate")),
    facts={**ANYONE.facts, "epochs_rotate": coordinator.epochs_rotate()},
    lemmas=coordinator.last_epoch,
    steps=COORDINATOR_STEPS,
    scopes=(*EVERY, "transactions-trouble-log/timeouts=1/failures=1"),
    rules=rules_of(COORDINATOR_STEPS),
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

PARTITION = replace(
    ANYONE,
    clauses=(
        clause(partition.log_has_epochs),
        clause(partition.epochs_rise_in_the_log, *LOGGED),
        clause(partition.last_marker_is_last, *LOGGED),
        clause(partition.first_offset_is_exact, *MARKED),
    ),
    facts={},
    lemmas=partition.late_markers,
    steps=LEADER_STEPS,
    scopes=SMALL,
    rules=("batch_is_produced", "marker_is_written", "late_marker_arrives", "other_writes"),
)

LAST_STABLE = replace(
    PARTITION,
    clauses=(
        clause(partition.log_has_epochs),
        clause(partition.last_marker_is_last, *LOGGED),
        clause(partition.first_offset_is_exact, *MARKED),
        clause(partition.others_are_in_the_log, *LOGGED),
        clause(partition.ended_is_exact, *MARKED, "first_offset_is_exact"),
    ),
    lemmas=partition.stable_offsets,
)

MEETING = (*DECIDING, "batch_arrives", "marker_arrives", "other_writes")
KNOWN = (*SOUND, "partitions_are_in_transactions")
OUTSIDE = (*KNOWN, "leaders_ask", "no_write_outside")

NO_WRITE_OUTSIDE = replace(
    ANYONE,
    clauses=(
        *ANYONE.clauses,
        clause(partition.partitions_are_in_transactions, *KNOWN),
        clause(partition.no_write_outside, *OUTSIDE),
    ),
    facts={**ANYONE.facts, "leaders_ask": partition.leaders_ask()},
    lemmas=in_words({"no_write_outside": ("no_write_outside",)}),
    steps=MEETING,
    scopes=EVERY,
    rules=rules_of(MEETING),
)

REIGN = (*OUTSIDE, *GIVEN, "what_is_awaited_is_new", "reign_is_past", "open_is_not_older")

FENCED = replace(
    NO_WRITE_OUTSIDE,
    clauses=(
        *NO_WRITE_OUTSIDE.clauses,
        *(c for c in FENCING.clauses if c.name not in {d.name for d in NO_WRITE_OUTSIDE.clauses}),
        clause(partition.who_waits_begins, *SOUND),
        clause(partition.open_is_not_older, *REIGN, "who_waits_begins"),
        clause(partition.nothing_older_is_written, *REIGN),
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
PAST = (*GIVEN, "terms_are_past", "markers_are_past", "written_is_past")
ROTATED = (*GIVEN, "retries_are_taken", "nobody_rests_at_the_last", "told_is_before_its_marker")
CLOSED = (*PAST, *ROTATED, "epochs_are_compared", "open_is_before_its_marker")

MARKERS = replace(
    ANYONE,
    clauses=(
        *EPOCHS.clauses[:5],
        clause(markers.terms_are_past),
        clause(markers.markers_are_past, *PAST),
        clause(markers.written_is_past, *PAST),
        clause(markers.nobody_rests_at_the_last, *SOUND, "retries_are_taken"),
        clause(markers.told_is_before_its_marker, *ROTATED),
        clause(markers.open_is_before_its_marker, *CLOSED),
        clause(markers.markers_are_taken, *CLOSED),
    ),
    facts={
        **ANYONE.facts,
        "retries_are_taken": markers.retries_are_taken(),
        "epochs_are_compared": markers.epochs_are_compared(),
    },
    lemmas=in_words({"markers_are_taken": ("markers_are_taken",)}),
    steps=TAKING,
    worlds=markers.Takers,
    scopes=EVERY,
    rules=rules_of(MEETING),
)

OPEN = (*OUTSIDE, *DECIDED, "no_fence_fails", "log_has_epochs", *MARKED, "first_offset_is_exact")
PRESENT = (*OPEN, "open_has_present_epoch", "decided_is_past")
SAID = ("prepared_is_decided", "markers_say_decisions", "outcomes_are_outcomes")
ENDED = (*PRESENT, *SAID, "open_has_one_epoch", "ended_is_exact")

VISIBILITY = replace(
    ANYONE,
    unknown=without("requests", "fence", "marker_epoch", "level", "ongoing"),
    clauses=(
        *DECISIONS.clauses,
        *NO_WRITE_OUTSIDE.clauses[-2:],
        clause(partition.log_has_epochs, *SOUND, "outcomes_are_outcomes"),
        *PARTITION.clauses[1:],
        clause(partition.no_fence_fails, *KNOWN),
        clause(partition.open_has_present_epoch, *PRESENT),
        clause(partition.open_has_one_epoch, *PRESENT),
        clause(partition.ended_is_exact, *MARKED, "first_offset_is_exact"),
        clause(partition.ended_by_the_first, "ended_is_exact", "last_marker_is_last"),
        clause(partition.visible_as_decided, *ENDED),
    ),
    facts={**DECISIONS.facts, **NO_WRITE_OUTSIDE.facts},
    steps=MEETING,
    scopes=EVERY,
    variants=("v2",),
    rules=rules_of(MEETING, *ONLY_V1),
)

FIRST_MARKER = ("ended_is_exact", "ended_by_the_first")
"""What ends a record is the first marker behind it."""

OWN_STEPS = (
    *(step for step in MEETING if step not in ("batch_arrives",)),
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
TOLD = (
    *GIVEN,
    *DECIDED,
    "no_fence_fails",
    "what_is_awaited_is_new",
    "below_the_last",
    "next_id_is_nobodys",
)
ITS = (
    "client_speaks_v2",
    "transactions_have_pairs",
    "later_pairs_are_later",
    "pairs_have_one_owner",
)
OWNED = (*TOLD, *ITS, "before_is_known", "heirs_are_the_same", "who_waits")
SENDS = (*ITS, "writes_are_numbered", "sent_is_counted", "outcomes_are_of_states")
ENDS = ("ends_are_asked", "ends_wait_for_batches")
ASKED = (*OWNED, *SENDS, *ENDS, "decided_is_past", "prepared_is_decided")
WRITTEN = (*SENDS, "batches_are_sent", "log_says_who", *ENDS, "log_has_epochs")
STORED = (*WRITTEN, "held_is_there", "remembered_is_stored")

SHOWN = ("below_the_last", "client_speaks_v2", "transactions_have_pairs", "pairs_have_one_owner")
"""That a pair which an instance shows has an epoch."""

CLIENT_V2 = replace(
    VISIBILITY,
    unknown=without("requests", "fence", "marker_epoch", "level", "ongoing", "previous_id"),
    bounds={**BOUNDS, "transactions": 0},
    clauses=(
        *(c.also(*SHOWN) if c.name == "log_is_ahead" else c for c in VISIBILITY.clauses),
        *(c for c in EPOCHS.clauses if c.name not in {d.name for d in VISIBILITY.clauses}),
        clause(client.client_speaks_v2, *TOLD, *SENDS, *ENDS, "who_waits"),
        clause(client.writes_are_numbered, *SENDS, *ENDS, "who_waits"),
        clause(client.sent_is_counted, *SENDS, *ENDS, "who_waits"),
        clause(client.outcomes_are_of_states, *SENDS, *ENDS, "who_waits"),
        clause(client.below_the_last, *TOLD),
        clause(client.next_id_is_nobodys, *TOLD, *SHOWN),
        clause(client.before_is_known, *TOLD),
        clause(client.pairs_have_one_owner, *OWNED),
        clause(client.heirs_are_the_same, *OWNED),
        clause(client.transactions_have_pairs, *OWNED, *SENDS, *ENDS),
        clause(client.later_pairs_are_later, *OWNED),
        clause(acknowledgements.who_waits, *ASKED),
        clause(client.ends_are_asked, *ASKED),
        clause(client.ends_wait_for_batches, *ASKED),
        clause(client.batches_are_sent, *SENDS),
        clause(acknowledgements.log_says_who, *WRITTEN, "who_waits"),
        clause(acknowledgements.held_is_there, *WRITTEN),
        clause(acknowledgements.sequences_rise, "log_has_epochs"),
        clause(acknowledgements.remembered_is_stored, "log_has_epochs"),
        follows(acknowledgements.known_batch_is_placed, "remembered_is_stored"),
        follows(acknowledgements.known_batch_is_stored, *STORED, "known_batch_is_placed"),
        clause(acknowledgements.settled_is_stored, *STORED, "known_batch_is_stored", "who_waits"),
        clause(acknowledgements.committed_is_stored, *STORED, "settled_is_stored", "who_waits"),
        clause(
            acknowledgements.complete_is_decided, *TOLD, "decided_is_past", "prepared_is_decided"
        ),
        clause(acknowledgements.commits_are_asked, *ASKED, "unsent_is_undecided"),
        clause(acknowledgements.unsent_is_undecided, *ASKED, "commits_are_asked"),
        clause(
            acknowledgements.told_is_decided, *ASKED, "complete_is_decided", "commits_are_asked"
        ),
        follows(
            acknowledgements.told_is_visible,
            "log_says_who",
            "visible_as_decided",
            "commits_are_asked",
            "ends_are_asked",
            "told_is_decided",
        ),
        follows(
            acknowledgements.told_is_whole,
            "committed_is_stored",
            "log_says_who",
            "told_is_decided",
        ),
        follows(acknowledgements.stored_once, "log_says_who", "sequences_rise"),
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
    check=check_instances_scope,
)

SENDING = (
    "init_transactions",
    "begin_transaction",
    "send",
    "commit_transaction",
    "abort_transaction",
    "give_up",
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
    "any_marker_arrives",
    "other_writes",
)
NAMED = ("client_has_batches", "batches_keep_their_names", "log_has_epochs")
ACKED = (*NAMED, "log_has_names", "held_is_there")
KNOWN_BATCH = ("own_sequences_are_counted", "known_batch_is_there")
BUMPS = {("Variant", n): leaf(n, 0, 1) for n in ("bump", "late_bump", "group_memory")}

RECORDS = replace(
    ANYONE,
    bounds={**BOUNDS, "transactions": 0},
    unknown=without() | BUMPS,
    clauses=(
        clause(partition.log_has_epochs),
        clause(partition.epochs_rise_in_the_log, *LOGGED),
        clause(acknowledgements.sequences_rise, *LOGGED),
        clause(records.client_has_batches),
        clause(records.batches_keep_their_names, *NAMED),
        clause(records.log_has_names, *NAMED),
        follows(acknowledgements.stored_once, "log_has_names", "sequences_rise"),
    ),
    facts={"here_is_one": ((), coordinator.inside(HERE))},
    lemmas=in_words({"acked_once": ("stored_once",)}),
    steps=(*SENDING, "batch_is_sent", "offsets_are_sent", "my_late_batch", "my_late_offsets"),
    worlds=Records,
    check=check_instances_scope,
    scopes=SMALL,
    rules=("batch_is_produced", "offsets_are_committed", "late_batch_arrives"),
)

SETTLED = (*ACKED, *KNOWN_BATCH, "here_is_one", "sent_is_counted", "outcomes_are_of_states")

ACKNOWLEDGED = replace(
    RECORDS,
    clauses=(
        *RECORDS.clauses,
        clause(acknowledgements.held_is_there, *LOGGED),
        clause(acknowledgements.remembered_is_stored, *LOGGED),
        clause(records.own_sequences_are_counted, *NAMED),
        follows(records.known_batch_is_there, "remembered_is_stored"),
        follows(records.known_batch_is_it, *KNOWN_BATCH, *ACKED, "here_is_one"),
        clause(records.acked_is_stored, *ACKED, *KNOWN_BATCH, "known_batch_is_it"),
        clause(client.sent_is_counted, "client_has_batches"),
        clause(client.outcomes_are_of_states, "client_has_batches"),
        clause(acknowledgements.settled_is_stored, *SETTLED, "known_batch_is_it"),
        clause(acknowledgements.committed_is_stored, *SETTLED, "settled_is_stored"),
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
)
ORDERLY = ("epochs_are_many", "ids_are_counted", "log_is_memory", "epochs_are_usable", "in_step")
LONE = (
    *ORDERLY,
    "client_has_batches",
    "ends_have_work",
    "ends_are_quiet",
    "acked_is_registered",
    "who_waits_is_answered",
    "markers_are_not_ahead",
    "written_is_not_ahead",
    "in_turn",
    "epochs_are_compared",
)

SOLE_INSTANCE = replace(
    ANYONE,
    bounds={**BOUNDS, "transactions": 0},
    unknown=without() | BUMPS,
    clauses=(
        clause(coordinator.ids_are_counted, *LONE),
        clause(single_instance.log_is_memory, *LONE),
        clause(single_instance.epochs_are_usable, *LONE),
        clause(records.client_has_batches, *LONE),
        clause(single_instance.ends_have_work, *LONE),
        clause(single_instance.in_step, *LONE),
        clause(single_instance.ends_are_quiet, *LONE),
        clause(single_instance.acked_is_registered, *LONE),
        clause(single_instance.who_waits_is_answered, *LONE),
        clause(single_instance.markers_are_not_ahead, *LONE),
        clause(single_instance.written_is_not_ahead, *LONE),
        clause(single_instance.no_false_fencing, *LONE),
    ),
    facts={
        **ANYONE.facts,
        "in_turn": single_instance.in_turn(),
        "epochs_are_compared": markers.epochs_are_compared(),
    },
    contracts={**CONTRACTS, "initialized_by": lambda _evaluator, w, _answer: w.initialization},
    lemmas=in_words({"no_false_fencing": ("no_false_fencing",)}),
    steps=(*SOLE_INSTANCE_RULES, "marker_is_sent", "marker_arrives"),
    worlds=single_instance.SoleInstanceSteps,
    check=check_lone_scope,
    scopes=(
        "transactions-tiny",
        "transactions-log-again",
        "transactions-offsets-log/delays=0",
        "transactions-adopted/delays=0",
        "transactions-markers/begun=1/moves=0",
        "transactions-offsets/begun=1/timeouts=0/delays=0",
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

ONLY_EXPLORED: dict[str, str] = {}
"""What of the guarantees no theorem covers, or not all of it, and why: they are explored in scopes.
Of no theorem is a batch whose verification and append are apart (`guards`)."""
