"""What is proved of V1 without delays: what readers see, and what an instance is answered."""

from __future__ import annotations

from dataclasses import replace

from proofs.prove.induction import clause, follows
from proofs.prove.transactions import (
    client,
    ordinals,
    partition,
    records,
)
from proofs.prove.transactions.compositions import (
    ANYONE,
    BOUNDS,
    BUMPS,
    DECIDING,
    EPOCHS,
    FIRST_MARKER,
    GIVEN,
    KNOWN,
    MARKED,
    NO_WRITE_OUTSIDE,
    ON_TIME_SCOPES,
    OUTSIDE,
    PARTITION,
    SENDING,
    SOUND,
)
from proofs.prove.transactions.coordinator import without
from proofs.prove.transactions.in_words import in_words
from proofs.prove.transactions.instances_in_scope import check_instances_scope
from proofs.prove.transactions.ordinals import OrdinalSteps

ON_TIME = (
    *(step for step in DECIDING if step != "end"),
    "end_on_time",
    "batch_arrives_on_time",
    "other_writes",
)
TURNS = (*OUTSIDE, *MARKED, "first_offset_is_exact", "log_comes_next", "turns_are_prepared_once")

VISIBILITY_V1 = replace(
    ANYONE,
    unknown=without("requests", "verification"),
    clauses=(
        *NO_WRITE_OUTSIDE.clauses,
        clause(partition.log_has_epochs, *SOUND),
        *PARTITION.clauses[1:],
        clause(partition.log_comes_next, *KNOWN),
        clause(partition.turns_are_prepared_once, *KNOWN, "log_comes_next"),
        clause(partition.commits_are_wanted, *KNOWN, "turns_are_prepared_once"),
        clause(partition.ended_is_exact, *MARKED, "first_offset_is_exact"),
        clause(partition.ended_by_the_first, "ended_is_exact", "last_marker_is_last"),
        clause(partition.open_is_of_this_turn, *TURNS),
        clause(partition.visible_as_wanted, *TURNS, "open_is_of_this_turn", "ended_is_exact"),
    ),
    steps=ON_TIME,
    scopes=ON_TIME_SCOPES,
    variants=("v1",),
    rules=("batch_is_produced", "transaction_is_ended", "marker_is_written", "other_writes"),
)

IN_TIME = (
    *(step for step in ON_TIME if step not in ("end_on_time", "batch_arrives_on_time")),
    "end",
    "their_batch",
    "i_add",
    "i_add_offsets",
    *(
        step
        for step in SENDING
        if step not in ("their_batch", "their_offsets", "any_marker_arrives", "other_writes")
        and step not in ("is_asked", "i_add", "i_add_offsets")
    ),
)
PAIRS = ("given_is_not_ahead", "pairs_have_one_owner", "pairs_are_told_again", "waits_for_its_own")
WORK = ("client_has_batches", "transactions_have_turns", "work_is_ended", "ends_are_quiet")
COUNTED = (
    "fences_are_untold",
    "log_comes_next",
    "pairs_come_next",
    "turns_are_prepared_once",
    "complete_says_its_turn",
)
MY_TURN = ("nothing_is_prepared_early", "its_turn_is_now", "turns_have_pairs", *COUNTED)
SHOWS = ("given_is_not_ahead", "pairs_have_one_owner", "transactions_have_turns")
HEARD = (*GIVEN, "what_is_awaited_is_new", *PAIRS, *WORK, *MY_TURN)

TOLD_V1 = replace(
    VISIBILITY_V1,
    bounds={**BOUNDS, "transactions": 0},
    unknown=without("requests", "verification", "fence") | BUMPS,
    clauses=(
        *(
            c.also(*SHOWS) if c.name in ("ids_are_counted", "log_is_ahead") else c
            for c in VISIBILITY_V1.clauses
            if c.name != "commits_are_wanted"
        ),
        *(c for c in EPOCHS.clauses if c.name not in {d.name for d in VISIBILITY_V1.clauses}),
        clause(ordinals.fences_are_untold, *GIVEN, *SHOWS, "what_is_awaited_is_new"),
        clause(ordinals.pairs_come_next, *KNOWN, *PAIRS, "log_comes_next", "fences_are_untold"),
        clause(ordinals.given_is_not_ahead, *GIVEN, "what_is_awaited_is_new"),
        clause(client.pairs_have_one_owner, *HEARD),
        clause(ordinals.pairs_are_told_again, *HEARD),
        clause(records.client_has_batches, *PAIRS, *WORK),
        clause(ordinals.transactions_have_turns, *HEARD),
        clause(client.outcomes_are_of_states, *PAIRS, *WORK),
        clause(ordinals.work_is_ended, *HEARD),
        clause(client.ends_are_asked, *HEARD, "outcomes_are_of_states"),
        clause(ordinals.ends_are_quiet, *HEARD, "ends_are_asked"),
        clause(ordinals.waits_for_its_own, *HEARD, "ends_are_asked", "outcomes_are_of_states"),
        clause(ordinals.nothing_is_prepared_early, *HEARD, "ends_are_asked"),
        clause(ordinals.its_turn_is_now, *HEARD, "ends_are_asked"),
        clause(ordinals.turns_have_pairs, *HEARD, "ends_are_asked"),
        clause(
            ordinals.complete_says_its_turn, *KNOWN, "log_comes_next", "turns_are_prepared_once"
        ),
        clause(ordinals.open_is_of_its_turn, *HEARD, *OUTSIDE, "log_has_epochs"),
        clause(ordinals.log_says_its_turn, *HEARD, *OUTSIDE, "open_is_of_its_turn"),
        clause(ordinals.told_was_decided, *HEARD, "ends_are_asked", "outcomes_are_of_states"),
        follows(
            ordinals.visible_as_told,
            "log_says_its_turn",
            "visible_as_wanted",
            "turns_have_pairs",
            "ends_are_asked",
            "told_was_decided",
        ),
    ),
    lemmas=in_words(
        dict.fromkeys(("all_or_none", "no_aborted_read"), ("visible_as_told", *FIRST_MARKER))
    ),
    steps=IN_TIME,
    variants=("v1", "3.9.2"),
    worlds=OrdinalSteps,
    check=check_instances_scope,
    scopes=(
        *ON_TIME_SCOPES,
        "transactions-log-again",
        "transactions-log/begun=1/moves=0/unheard=0",
        "transactions-forgotten/begun=1/delays=0/unheard=0",
        "transactions-exhausted/begun=1/delays=0/unheard=0",
        "transactions-offsets-log/begun=1/delays=0/unheard=0",
    ),
    rules=(
        "producer_id_is_asked",
        "partitions_are_added",
        "offsets_are_added",
        "transaction_is_ended",
        "batch_is_produced",
        "offsets_are_committed",
        "marker_is_written",
        "append_is_done",
        "coordinator_moves",
        "transactional_id_is_forgotten",
        "transaction_times_out",
        "other_writes",
    ),
)
