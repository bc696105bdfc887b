"""What is proved of transactions, in layers: the clauses, what they stand on, and which rules are
any release's."""

from __future__ import annotations

from dataclasses import replace

from proofs.lift.dag import leaf
from proofs.prove.composition import Composition
from proofs.prove.induction import clause, follows
from proofs.prove.transactions import acknowledgements as of_told
from proofs.prove.transactions import client as of_client
from proofs.prove.transactions import coordinator as of_coordinator
from proofs.prove.transactions import markers as of_markers
from proofs.prove.transactions import partition as of_partition
from proofs.prove.transactions import records as of_records
from proofs.prove.transactions import single_instance as of_one
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
    "first_open": of_partition.first_open,
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
        clause(of_coordinator.appends_take_time, *SOUND),
        clause(of_coordinator.ids_are_counted, *SOUND),
        clause(of_coordinator.log_is_ahead, *SOUND),
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
        clause(of_coordinator.answers_are_of_images, *SOUND),
        clause(of_coordinator.given_is_past, *GIVEN),
        clause(of_coordinator.what_is_awaited_is_new, *GIVEN),
        clause(of_coordinator.epochs_unique, *GIVEN, "what_is_awaited_is_new"),
        clause(of_coordinator.reign_is_past, *GIVEN, "what_is_awaited_is_new"),
        clause(
            of_coordinator.epochs_never_go_back, *GIVEN, "reign_is_past", "what_is_awaited_is_new"
        ),
    ),
    steps=COORDINATOR_STEPS,
    scopes=EVERY,
    rules=rules_of(COORDINATOR_STEPS),
)

FENCING = replace(
    EPOCHS,
    clauses=(
        *(c for c in EPOCHS.clauses if c.name not in ("epochs_unique", "epochs_never_go_back")),
        clause(of_coordinator.fenced_change_nothing, *SOUND, "reign_is_past"),
    ),
)

DECIDING = (*COORDINATOR_STEPS, "marker_is_sent")
DECIDED = (*SOUND, "ids_are_remembered", "epochs_rotate", "prepare_is_next")
DECISIONS = replace(
    ANYONE,
    unknown=without("requests", "fence"),
    clauses=(
        *ANYONE.clauses,
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
    facts={**ANYONE.facts, "epochs_rotate": of_coordinator.epochs_rotate()},
    steps=DECIDING,
    scopes=EVERY,
    variants=("v2",),
    rules=rules_of(DECIDING, *ONLY_V1),
)


LAST_EPOCH = replace(
    ANYONE,
    clauses=(*ANYONE.clauses, clause(of_coordinator.ids_are_remembered, *SOUND, "epochs_rotate")),
    facts={**ANYONE.facts, "epochs_rotate": of_coordinator.epochs_rotate()},
    lemmas=of_coordinator.last_epoch,
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
        clause(of_partition.log_has_epochs),
        clause(of_partition.epochs_rise_in_the_log, *LOGGED),
        clause(of_partition.last_marker_is_last, *LOGGED),
        clause(of_partition.first_offset_is_exact, *MARKED),
    ),
    facts={},
    lemmas=of_partition.late_markers,
    steps=LEADER_STEPS,
    scopes=SMALL,
    rules=("batch_is_produced", "marker_is_written", "late_marker_arrives", "other_writes"),
)

LAST_STABLE = replace(
    PARTITION,
    clauses=(
        clause(of_partition.log_has_epochs),
        clause(of_partition.last_marker_is_last, *LOGGED),
        clause(of_partition.first_offset_is_exact, *MARKED),
        clause(of_partition.others_are_in_the_log, *LOGGED),
        clause(of_partition.ended_is_exact, *MARKED, "first_offset_is_exact"),
    ),
    lemmas=of_partition.stable_offsets,
)

MEETING = (*DECIDING, "batch_arrives", "marker_arrives", "other_writes")
KNOWN = (*SOUND, "partitions_are_in_transactions")
OUTSIDE = (*KNOWN, "leaders_ask", "no_write_outside")

NO_WRITE_OUTSIDE = replace(
    ANYONE,
    clauses=(
        *ANYONE.clauses,
        clause(of_partition.partitions_are_in_transactions, *KNOWN),
        clause(of_partition.no_write_outside, *OUTSIDE),
    ),
    facts={**ANYONE.facts, "leaders_ask": of_partition.leaders_ask()},
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
        clause(of_partition.who_waits_begins, *SOUND),
        clause(of_partition.open_is_not_older, *REIGN, "who_waits_begins"),
        clause(of_partition.nothing_older_is_written, *REIGN),
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
        clause(of_markers.terms_are_past),
        clause(of_markers.markers_are_past, *PAST),
        clause(of_markers.written_is_past, *PAST),
        clause(of_markers.nobody_rests_at_the_last, *SOUND, "retries_are_taken"),
        clause(of_markers.told_is_before_its_marker, *ROTATED),
        clause(of_markers.open_is_before_its_marker, *CLOSED),
        clause(of_markers.markers_are_taken, *CLOSED),
    ),
    facts={
        **ANYONE.facts,
        "retries_are_taken": of_markers.retries_are_taken(),
        "epochs_are_compared": of_markers.epochs_are_compared(),
    },
    lemmas=in_words({"markers_are_taken": ("markers_are_taken",)}),
    steps=TAKING,
    worlds=of_markers.Takers,
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
        clause(of_partition.log_has_epochs, *SOUND, "outcomes_are_outcomes"),
        *PARTITION.clauses[1:],
        clause(of_partition.no_fence_fails, *KNOWN),
        clause(of_partition.open_has_present_epoch, *PRESENT),
        clause(of_partition.open_has_one_epoch, *PRESENT),
        clause(of_partition.ended_is_exact, *MARKED, "first_offset_is_exact"),
        clause(of_partition.ended_by_the_first, "ended_is_exact", "last_marker_is_last"),
        clause(of_partition.visible_as_decided, *ENDED),
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
        clause(of_client.client_speaks_v2, *TOLD, *SENDS, *ENDS, "who_waits"),
        clause(of_client.writes_are_numbered, *SENDS, *ENDS, "who_waits"),
        clause(of_client.sent_is_counted, *SENDS, *ENDS, "who_waits"),
        clause(of_client.outcomes_are_of_states, *SENDS, *ENDS, "who_waits"),
        clause(of_client.below_the_last, *TOLD),
        clause(of_client.next_id_is_nobodys, *TOLD, *SHOWN),
        clause(of_client.before_is_known, *TOLD),
        clause(of_client.pairs_have_one_owner, *OWNED),
        clause(of_client.heirs_are_the_same, *OWNED),
        clause(of_client.transactions_have_pairs, *OWNED, *SENDS, *ENDS),
        clause(of_client.later_pairs_are_later, *OWNED),
        clause(of_told.who_waits, *ASKED),
        clause(of_client.ends_are_asked, *ASKED),
        clause(of_client.ends_wait_for_batches, *ASKED),
        clause(of_client.batches_are_sent, *SENDS),
        clause(of_told.log_says_who, *WRITTEN, "who_waits"),
        clause(of_told.held_is_there, *WRITTEN),
        clause(of_told.sequences_rise, "log_has_epochs"),
        clause(of_told.remembered_is_stored, "log_has_epochs"),
        follows(of_told.known_batch_is_placed, "remembered_is_stored"),
        follows(of_told.known_batch_is_stored, *STORED, "known_batch_is_placed"),
        clause(of_told.settled_is_stored, *STORED, "known_batch_is_stored", "who_waits"),
        clause(of_told.committed_is_stored, *STORED, "settled_is_stored", "who_waits"),
        clause(of_told.complete_is_decided, *TOLD, "decided_is_past", "prepared_is_decided"),
        clause(of_told.commits_are_asked, *ASKED, "unsent_is_undecided"),
        clause(of_told.unsent_is_undecided, *ASKED, "commits_are_asked"),
        clause(of_told.told_is_decided, *ASKED, "complete_is_decided", "commits_are_asked"),
        follows(
            of_told.told_is_visible,
            "log_says_who",
            "visible_as_decided",
            "commits_are_asked",
            "ends_are_asked",
            "told_is_decided",
        ),
        follows(of_told.told_is_whole, "committed_is_stored", "log_says_who", "told_is_decided"),
        follows(of_told.stored_once, "log_says_who", "sequences_rise"),
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
        clause(of_partition.log_has_epochs),
        clause(of_partition.epochs_rise_in_the_log, *LOGGED),
        clause(of_told.sequences_rise, *LOGGED),
        clause(of_records.client_has_batches),
        clause(of_records.batches_keep_their_names, *NAMED),
        clause(of_records.log_has_names, *NAMED),
        follows(of_told.stored_once, "log_has_names", "sequences_rise"),
    ),
    facts={"here_is_one": ((), of_coordinator.inside(HERE))},
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
        clause(of_told.held_is_there, *LOGGED),
        clause(of_told.remembered_is_stored, *LOGGED),
        clause(of_records.own_sequences_are_counted, *NAMED),
        follows(of_records.known_batch_is_there, "remembered_is_stored"),
        follows(of_records.known_batch_is_it, *KNOWN_BATCH, *ACKED, "here_is_one"),
        clause(of_records.acked_is_stored, *ACKED, *KNOWN_BATCH, "known_batch_is_it"),
        clause(of_client.sent_is_counted, "client_has_batches"),
        clause(of_client.outcomes_are_of_states, "client_has_batches"),
        clause(of_told.settled_is_stored, *SETTLED, "known_batch_is_it"),
        clause(of_told.committed_is_stored, *SETTLED, "settled_is_stored"),
    ),
    steps=SENDING,
    scopes=ON_TIME_SCOPES,
    rules=("batch_is_produced",),
)

ALONE_RULES = (
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

ALONE = replace(
    ANYONE,
    bounds={**BOUNDS, "transactions": 0},
    unknown=without() | BUMPS,
    clauses=(
        clause(of_coordinator.ids_are_counted, *LONE),
        clause(of_one.log_is_memory, *LONE),
        clause(of_one.epochs_are_usable, *LONE),
        clause(of_records.client_has_batches, *LONE),
        clause(of_one.ends_have_work, *LONE),
        clause(of_one.in_step, *LONE),
        clause(of_one.ends_are_quiet, *LONE),
        clause(of_one.acked_is_registered, *LONE),
        clause(of_one.who_waits_is_answered, *LONE),
        clause(of_one.markers_are_not_ahead, *LONE),
        clause(of_one.written_is_not_ahead, *LONE),
        clause(of_one.no_false_fencing, *LONE),
    ),
    facts={
        **ANYONE.facts,
        "in_turn": of_one.in_turn(),
        "epochs_are_compared": of_markers.epochs_are_compared(),
    },
    contracts={**CONTRACTS, "begun_reign": lambda _evaluator, w, _answer: w.reign},
    lemmas=in_words({"no_false_fencing": ("no_false_fencing",)}),
    steps=(*ALONE_RULES, "marker_is_sent", "marker_arrives"),
    worlds=of_one.SoleInstanceSteps,
    check=check_lone_scope,
    scopes=(
        "transactions-tiny",
        "transactions-log-again",
        "transactions-offsets-log/delays=0",
        "transactions-adopted/delays=0",
        "transactions-markers/begun=1/moves=0",
        "transactions-offsets/begun=1/timeouts=0/delays=0",
    ),
    rules=(*ALONE_RULES, "marker_is_delayed", "late_marker_arrives"),
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
