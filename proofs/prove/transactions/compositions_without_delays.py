"""The theorems of V1 without delays: what readers see, and what an instance is answered."""

from __future__ import annotations

from dataclasses import replace

from proofs.prove.engine.induction import clause_of, clauses_of, collected
from proofs.prove.transactions import (
    client,
    coordinator,
    ordinal_visibility,
    ordinals,
    pairs,
    partition,
    records,
)
from proofs.prove.transactions.compositions import (
    ACTS,
    ANYONE,
    ASKS,
    BESIDE_INSTANCE,
    BOUNDS,
    DECIDING,
    ENDED,
    EPOCHS,
    EXPIRING,
    FIRST_MARKER,
    LOG,
    LOSSES,
    NO_WRITE_OUTSIDE,
    ON_TIME_SCOPES,
    PARTITION,
    SENDS,
    SOUND,
)
from proofs.prove.transactions.in_words import in_words
from proofs.prove.transactions.scope_states import check_instances
from proofs.prove.transactions.unknown_rules import BUMPS, without

ON_TIME = (
    *(step for step in DECIDING if step != "end"),
    "end_on_time",
    "batch_arrives_on_time",
    "other_writes",
)
APPENDED = (
    LOG,
    "transactions-log/begun=1/moves=0/unheard=0",
    "transactions-forgotten/begun=1/delays=0/unheard=0",
)
"""Scopes without delays in which appends take time, or the transactional id is forgotten."""

VISIBILITY_V1 = replace(
    ANYONE,
    unknown=without("requests", "verification"),
    clauses=(
        *NO_WRITE_OUTSIDE.clauses,
        clause_of(partition.log_has_epochs).also(*coordinator.SOUND),
        *PARTITION.clauses[1:],
        *ENDED,
        *collected(ordinal_visibility),
        clause_of(ordinal_visibility.visible_as_wanted),
    ),
    steps=ON_TIME,
    scopes=(*ON_TIME_SCOPES, *APPENDED),
    variants=("v1",),
)

IN_TIME = (
    *BESIDE_INSTANCE,
    "others_add",
    *ACTS,
    *LOSSES,
    *ASKS,
    *SENDS,
    "their_batch",
)
TOLD_V1 = replace(
    VISIBILITY_V1,
    bounds={**BOUNDS, "transactions": 0},
    unknown=without("requests", "verification", "fence") | BUMPS,
    clauses=(
        *(
            c.also(*ordinals.SHOWS) if c.name in ("ids_are_counted", "log_is_ahead") else c
            for c in VISIBILITY_V1.clauses
            if c.name != "commits_are_wanted"
        ),
        *(c for c in EPOCHS.clauses if c not in SOUND),
        *(
            c.also(*ordinals.PAIRS, *ordinals.WORK)
            for c in clauses_of(records.client_has_batches, client.outcomes_are_of_states)
        ),
        clause_of(pairs.pairs_have_one_owner).also(*ordinals.HEARD),
        clause_of(client.ends_are_asked).also(*ordinals.HEARD, "outcomes_are_of_states"),
        *collected(ordinals),
        clause_of(ordinals.visible_as_told),
    ),
    lemmas=in_words(
        dict.fromkeys(("all_or_none", "no_aborted_read"), ("visible_as_told", *FIRST_MARKER))
    ),
    steps=IN_TIME,
    variants=("v1", "3.9.2"),
    check=check_instances,
    scopes=(
        *ON_TIME_SCOPES,
        *APPENDED,
        "transactions-log-again",
        "transactions-exhausted/begun=1/delays=0/unheard=0",
        EXPIRING,
    ),
)
