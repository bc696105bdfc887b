"""`delayed-end-txn`: does a delayed EndTxn end the next transaction, on a real broker?"""

from __future__ import annotations

from conformance.experiments.story_verb import StoryVerb

_VERB = StoryVerb("delayed_end_txn")
add_arguments, execute = _VERB.add_arguments, _VERB.execute
