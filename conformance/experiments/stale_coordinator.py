"""`stale-coordinator`: does a leader believe a coordinator that has been deposed?"""

from __future__ import annotations

from conformance.experiments.story_verb import story_verb

VERB = story_verb(
    "stale_coordinator",
    "Let a late Produce meet a leader that verifies with a deposed coordinator (KIP-890).",
)
