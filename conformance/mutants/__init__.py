"""Bugs planted in impl, as patches: the judge must find each of them by itself.

Three rules:

1. A bug is a unified diff against `impl`, beside this file, and a row of `MUTANTS`: what an author
   could have thought, and the scope in which it shows.
2. A patch is applied to a copy, which a fresh process finds first on its path. The working tree is
   never touched, and no switch in `impl` exists for it.
3. A patch must fit exactly: each hunk's old lines stand in the file once.

Theory of operation: `plant` copies and patches, `hunt` is what the fresh process does: judge the
scope's traces until some diverge, shrink these, keep the shortest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug. `scope` may name budgets: `SCOPE/BUDGET=N`."""

    name: str
    what: str
    scope: str

    @property
    def patch(self) -> Path:
        """The unified diff."""
        return FOLDER / f"{self.name}.patch"


IN_ORDER: Final = "idempotent-medium/breaks=0/refusals=0/restarts=0"
"""Five batches in flight, and nothing goes wrong."""

MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (
        # The leader's memory
        Mutant("window_of_four", "a leader remembers four batches, not five", IN_ORDER),
        Mutant(
            "window_kept_across_epochs",
            "a new epoch's first batch joins the batches of the old one",
            "idempotent-default",
        ),
        Mutant(
            "snapshot_keeps_oldest_batch",
            "the producer snapshot has the oldest remembered batch, not the last",
            "idempotent-restart",
        ),
        # The leader's checks
        Mutant(
            "duplicate_of_any_epoch",
            "the lookup of duplicates does not compare the epoch",
            "idempotent-default",
        ),
        Mutant(
            "older_epoch_accepted",
            "a batch of an older epoch is appended",
            "idempotent-default",
        ),
        Mutant(
            "sequence_unchecked_in_epoch",
            "within an epoch any sequence is appended",
            "idempotent-default",
        ),
        Mutant(
            "first_sequence_must_be_zero",
            "the first batch of an unknown producer id must have sequence 0",
            "idempotent-default",
        ),
        Mutant(
            "wrap_refused",
            "0 does not follow the last sequence (KAFKA-7693)",
            "idempotent-wrap",
        ),
        # The leader's answers
        Mutant(
            "duplicate_answered_with_log_end",
            "a duplicate is answered with the end of the log, not with its first offset",
            "idempotent-default",
        ),
        Mutant(
            "high_watermark_ignored",
            "acks=all is answered before the followers have the batch",
            "idempotent-failover",
        ),
        Mutant(
            "offset_not_stamped",
            "a batch is stored with the base offset that its client wrote",
            "idempotent-tiny",
        ),
        # The client
        Mutant(
            "retries_in_reverse_order",
            "a batch that is sent again goes to the head of its queue (KAFKA-8483)",
            "idempotent-default",
        ),
        Mutant(
            "bump_keeps_sequences",
            "an epoch bump leaves the batches in flight their sequences",
            "idempotent-default",
        ),
        Mutant(
            "last_acked_not_updated",
            "an acknowledgement does not move the last acknowledged sequence",
            "idempotent-tiny",
        ),
    )
}
