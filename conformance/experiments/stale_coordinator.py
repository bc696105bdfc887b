"""`stale-coordinator`: does a leader believe a deposed coordinator, on real brokers?"""

from __future__ import annotations

from conformance.experiments.story_verb import StoryVerb

_VERB = StoryVerb("stale_coordinator")
add_arguments, execute = _VERB.add_arguments, _VERB.execute
