"""`delayed-end-txn`: does a delayed EndTxn end the next transaction, on a real broker?"""

from __future__ import annotations

from conformance.experiments.story_verb import story_verb

VERB = story_verb(
    "delayed_end_txn",
    "Let a delayed EndTxn arrive in the next transaction, and see what it ends (KAFKA-17754).",
)
