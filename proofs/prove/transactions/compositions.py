"""What is proved of transactions, in layers: the clauses, what they stand on, and which rules are
any release's."""

from __future__ import annotations

from dataclasses import replace

from proofs.prove.transactions import coordinator as of_coordinator
from proofs.prove.transactions.coordinator import (
    COORDINATOR_STEPS,
    clause,
    epochs_are_many,
    without,
)
from proofs.prove.transactions.in_scope import check_transactions_scope
from proofs.prove.transactions.steps import COVERED, Transactions
from proofs.prove.worlds import Composition

LAYOUT = {"instances": 1, "partitions": 0, "transactions": 1, "log": 1, "producer_ids": 0}

SMALL = ("transactions-tiny",)
"""Where clauses are checked on every world."""


def rules_of(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The rules of the world that some steps cover: scopes must take each of them."""
    return tuple(rule for rule, names in COVERED.items() if set(names) & set(steps))


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
    scopes=SMALL,
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
        clause(of_coordinator.outcomes_are_outcomes),
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
    scopes=SMALL,
    variants=("v2",),
    rules=rules_of(DECIDING),
)
