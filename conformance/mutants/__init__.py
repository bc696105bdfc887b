"""Bugs planted in impl, as patches: the judge must find each of them by itself.

Three rules:

1. A bug is a unified diff against `impl`, beside this file, and a row of `MUTANTS`: what an author
   could have thought, and the ground on which it shows: impl as it is shows nothing there.
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
class Ground:
    """Where bugs are hunted. `scope` may name budgets: `SCOPE/BUDGET=N`; without a `variant` it is
    impl's own."""

    scope: str
    variant: str | None = None

    def __str__(self) -> str:
        return self.scope if self.variant is None else f"{self.scope} of {self.variant}"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug, and the ground on which it shows."""

    name: str
    what: str
    ground: Ground

    @property
    def patch(self) -> Path:
        """The unified diff."""
        return FOLDER / f"{self.name}.patch"


IN_ORDER: Final = Ground("idempotent-five-in-flight/breaks=0")
"""Five batches in flight, and nothing goes wrong."""
TINY: Final = Ground("idempotent-tiny")
REFUSAL: Final = Ground("idempotent-default/breaks=0/restarts=0")
"""Three batches in flight, and a refusal."""
RESTART: Final = Ground("idempotent-restart")
PRODUCERS: Final = Ground("idempotent-producers/breaks=0/restarts=1")
"""Two producers, and a restart."""
FAILOVER: Final = Ground("idempotent-failover/refusals=0/restarts=0")
REPLICATED: Final = Ground("idempotent-failover/breaks=0/refusals=0/failovers=0")
"""Two replicas, and a restart."""
ONE_REPLICA: Final = Ground(
    "idempotent-failover/breaks=0/refusals=0/restarts=0/failovers=0",
    "acks=leader/idempotence=disabled",
)
"""Answers need not await the other replica."""
CRASH: Final = Ground("idempotent-crash/crashes=1/breaks=0")
CRASHES: Final = Ground("idempotent-crash/breaks=0")
LATE_REQUEST: Final = Ground("idempotent-crash/crashes=1")
"""A broker is killed, and a request comes late."""
DELETION: Final = Ground("idempotent-deletion/breaks=0/deletions=1/crashes=0")
EXPIRY: Final = Ground("idempotent-expiry")
FORGOTTEN: Final = Ground(
    "idempotent-trouble/refusals=0/restarts=0/deletions=0/late_errors=0/timeouts=0"
)
"""A producer is forgotten, and a broker killed."""
LATE_ERROR: Final = Ground("idempotent-late-error")
EXHAUSTION: Final = Ground("idempotent-exhaustion")
WRAP: Final = Ground("idempotent-wrap")
WRAP_ACROSS: Final = Ground("idempotent-wrap-across")
PARTITIONS: Final = Ground("idempotent-partitions/refusals=0")
IDLE: Final = Ground("idempotent-partitions/breaks=0/refusals=0/restarts=0")
"""Two partitions, and nothing goes wrong."""
TIMEOUT: Final = Ground("idempotent-timeout/breaks=1/refusals=0/timeouts=1")
TIMEOUT_REFUSED: Final = Ground("idempotent-timeout/breaks=1/timeouts=1")
"""A batch is given up, and one of the next epoch refused."""
UNRESOLVED: Final = Ground("idempotent-unresolved")
ONE_RETRY: Final = Ground("idempotent-tiny/restarts=0", "retries=one")
PLAIN: Final = Ground("delivery/breaks=1", "at-least-once")
"""Without idempotence."""

ONE_TRANSACTION: Final = Ground("transactions-tiny")
ONE_TRANSACTION_V1: Final = Ground("transactions-tiny", "v1")
LATE_V2: Final = Ground("transactions-default")
LATE_V1: Final = Ground("transactions-default", "v1")
"""Two transactions, and a request that is late."""
MOVED: Final = Ground("transactions-small/delays=0/unheard=0/timeouts=0")
TIMED_OUT: Final = Ground("transactions-small/delays=0/unheard=0/moves=0")
MARKER_LOST: Final = Ground("transactions-markers/marker_delays=0/moves=0")
MARKER_LATE: Final = Ground("transactions-markers/marker_losses=0/moves=0")
MARKER_MOVED: Final = Ground("transactions-markers/marker_losses=0")
"""A marker is late, and the coordinator moves."""

MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant
    for mutant in (
        # The leader's memory
        Mutant(
            "window_smaller_than_in_flight",
            "a leader remembers four batches, one less than may be in flight",
            IN_ORDER,
        ),
        Mutant(
            "window_kept_across_epochs",
            "a new epoch's first batch joins the batches of the old one",
            RESTART,
        ),
        Mutant(
            "first_epoch_kept",
            "the epoch of a producer id's first batch stays, whatever epoch comes later",
            RESTART,
        ),
        Mutant(
            "duplicate_remembered_again",
            "a duplicate is remembered once more, as if it were the newest batch",
            TINY,
        ),
        Mutant(
            "refusal_takes_epoch",
            "the epoch of a batch is remembered before its sequence is refused",
            TIMEOUT_REFUSED,
        ),
        Mutant(
            "expired_producer_keeps_epoch",
            "a producer that expires loses its batches, not its epoch",
            EXPIRY,
        ),
        # The leader's checks
        Mutant(
            "only_last_batch_looked_up",
            "only the newest remembered batch is recognised when it comes again",
            TINY,
        ),
        Mutant(
            "overlap_is_duplicate",
            "whatever ends at or before a remembered sequence counts as stored",
            RESTART,
        ),
        Mutant(
            "duplicate_of_any_epoch", "the lookup of duplicates does not compare the epoch", TINY
        ),
        Mutant(
            "out_of_order_for_duplicate",
            "a batch that is remembered is refused as out of order (Redpanda #3039)",
            TINY,
        ),
        Mutant("older_epoch_accepted", "a batch of an older epoch is appended", TINY),
        Mutant(
            "sequence_checked_before_epoch",
            "a batch of an older epoch is called out of order",
            LATE_REQUEST,
        ),
        Mutant(
            "new_epoch_begins_anywhere", "a new epoch may begin with any sequence", TIMEOUT_REFUSED
        ),
        Mutant(
            "new_epoch_goes_on",
            "a new epoch must go on where the old one ended, and not at 0",
            RESTART,
        ),
        Mutant("sequence_unchecked_in_epoch", "within an epoch any sequence is appended", RESTART),
        Mutant(
            "gap_accepted",
            "a batch that comes too early is appended; only what is behind is refused",
            REFUSAL,
        ),
        Mutant("zero_always_follows", "0 may follow any sequence, not only the last one", RESTART),
        Mutant(
            "first_sequence_must_be_zero",
            "the first batch of an unknown producer id must have sequence 0",
            TINY,
        ),
        Mutant("wrap_refused", "0 does not follow the last sequence (KAFKA-7693)", WRAP),
        Mutant(
            "plain_batches_deduplicated",
            "batches without a producer id are taken for those of one producer",
            PLAIN,
        ),
        Mutant(
            "too_few_replicas_accepted",
            "a batch for all replicas is appended although too few are in sync",
            TINY,
        ),
        # The leader's answers
        Mutant(
            "duplicate_answered_with_log_end",
            "a duplicate is answered with the end of the log, not with its first offset",
            TINY,
        ),
        Mutant(
            "duplicate_answered_before_replication",
            "a duplicate is acknowledged before the followers have its batch",
            FAILOVER,
        ),
        Mutant(
            "high_watermark_ignored",
            "acks=all is answered before the followers have the batch",
            FAILOVER,
        ),
        Mutant(
            "one_replica_awaits_all",
            "acks=1 is answered only when all followers have the batch",
            ONE_REPLICA,
        ),
        Mutant("refusal_without_log_start", "a refusal does not tell where the log begins", TINY),
        Mutant(
            "success_with_too_few_replicas",
            "a batch is acknowledged although replicas left while it was awaited",
            LATE_ERROR,
        ),
        Mutant(
            "success_when_overdue",
            "a batch is acknowledged when its request has waited too long",
            LATE_ERROR,
        ),
        Mutant(
            "late_error_undoes_append",
            "a batch is cut off the log again when its replicas are lost",
            LATE_ERROR,
        ),
        # The leader's log, snapshots and replay
        Mutant(
            "offset_not_stamped",
            "a batch is stored with the base offset that its client wrote",
            TINY,
        ),
        Mutant(
            "deletion_takes_one_batch_more",
            "deleting records takes the batch behind them along",
            DELETION,
        ),
        Mutant(
            "emptied_log_begins_at_zero",
            "a log whose records were all deleted gives out offset 0 again",
            DELETION,
        ),
        Mutant(
            "head_truncation_drops_state",
            "deleting a producer's last batch forgets the producer (KAFKA-7190)",
            DELETION,
        ),
        Mutant(
            "restart_forgets_log_start",
            "after a restart the log begins with the first batch in its file",
            DELETION,
        ),
        Mutant(
            "snapshot_keeps_oldest_batch",
            "the producer snapshot has the oldest remembered batch, not the last",
            RESTART,
        ),
        Mutant(
            "snapshot_forgets_batch_length",
            "the producer snapshot has each batch as one of one record",
            RESTART,
        ),
        Mutant(
            "snapshot_forgets_epoch", "a snapshot's producers come back with epoch 0", EXHAUSTION
        ),
        Mutant(
            "snapshot_of_one_producer",
            "the snapshot has only the producer that came last",
            PRODUCERS,
        ),
        Mutant(
            "snapshot_at_log_end_refused",
            "a snapshot at the very end of the log is deleted, and all is replayed",
            RESTART,
        ),
        Mutant(
            "snapshot_below_log_start_believed",
            "a snapshot of what was deleted since is loaded all the same",
            DELETION,
        ),
        Mutant(
            "snapshot_believed_to_be_newest",
            "after a kill the batches behind the last snapshot are not replayed",
            CRASH,
        ),
        Mutant(
            "recovery_keeps_what_it_replayed",
            "a killed broker remembers all that it replayed, not what a snapshot keeps",
            CRASH,
        ),
        Mutant(
            "replay_remembers_one_batch", "replaying a batch forgets the ones before it", FAILOVER
        ),
        Mutant(
            "accepted_batches_judged_again",
            "replaying checks sequences, and leaves out what a leader had accepted",
            FORGOTTEN,
        ),
        Mutant(
            "election_forgets_high_watermark",
            "a new leader begins with a high watermark of 0",
            FAILOVER,
        ),
        Mutant(
            "restart_believes_all_replicated",
            "after a restart the high watermark is the end of the log",
            REPLICATED,
        ),
        # The client's sequences
        Mutant(
            "sequences_count_batches",
            "the next sequence is one more, however many records the batch had",
            TINY,
        ),
        Mutant("retry_takes_new_sequence", "a batch that is sent again gets a new sequence", TINY),
        Mutant(
            "sequence_wraps_negative",
            "a sequence beyond the last one becomes negative (KAFKA-7692)",
            WRAP_ACROSS,
        ),
        Mutant(
            "wrap_loses_a_sequence",
            "counting is modulo the last sequence: 0 comes in its place",
            WRAP,
        ),
        Mutant(
            "last_acked_not_updated",
            "an acknowledgement does not move the last acknowledged sequence",
            TINY,
        ),
        Mutant(
            "acked_sequence_stays_at_wrap",
            "the last acknowledged sequence is the greatest number, also behind the wrap",
            WRAP,
        ),
        Mutant(
            "counter_reset_on_metadata_loss",
            "a partition without a known leader for a moment starts again at 0 (librdkafka 1.9.0)",
            IDLE,
        ),
        # The client's retries
        Mutant(
            "retries_in_reverse_order",
            "a batch that is sent again goes to the head of its queue",
            TINY,
        ),
        Mutant(
            "retries_in_raw_order",
            "batches that wait are ordered by plain numbers, also across the wrap",
            WRAP,
        ),
        Mutant(
            "disconnect_fails_one_request",
            "of a broken connection's requests only the oldest is sent again",
            TINY,
        ),
        Mutant(
            "one_request_too_many_in_flight",
            "one more request goes out than may be open at a time",
            IN_ORDER,
        ),
        Mutant("one_retry_too_many", "a batch is sent once more than retries allows", ONE_RETRY),
        Mutant(
            "exhausted_retries_bump",
            "a batch that ran out of retries counts as refused, and bumps the epoch",
            ONE_RETRY,
        ),
        Mutant(
            "late_error_is_final", "NOT_ENOUGH_REPLICAS_AFTER_APPEND fails the batch", LATE_ERROR
        ),
        Mutant("acks_weakened", "requests ask for one replica where all are configured", TINY),
        Mutant(
            "plain_retry_goes_to_the_tail",
            "without sequences a batch that is sent again goes to the end of its queue",
            PLAIN,
        ),
        # The client's epoch
        Mutant(
            "follower_out_of_order_bumps",
            "any out-of-order answer bumps the epoch, also one that only follows another's",
            TINY,
        ),
        Mutant(
            "new_epoch_overtakes_old",
            "a batch of the new epoch is sent while some of the old one are in flight",
            PARTITIONS,
        ),
        Mutant(
            "bump_keeps_sequences",
            "an epoch bump leaves the batches in flight their sequences",
            CRASHES,
        ),
        Mutant(
            "bump_keeps_last_acked",
            "an epoch bump keeps the last acknowledged sequence of the old epoch",
            CRASHES,
        ),
        Mutant(
            "bump_forgets_what_is_in_flight",
            "after an epoch bump the next new batch has sequence 0, whatever is in flight",
            RESTART,
        ),
        Mutant("bump_repeated", "a bump that was performed is still required", RESTART),
        Mutant(
            "bump_renumbers_all_partitions",
            "a bump for one partition renumbers what all others have in flight",
            PARTITIONS,
        ),
        Mutant(
            "bump_leaves_sequence_unresolved",
            "a bump does not settle the doubt about an expired batch",
            TIMEOUT,
        ),
        Mutant(
            "other_partitions_keep_sequences",
            "idle partitions take the new epoch and keep their sequences (KAFKA-12152)",
            PARTITIONS,
        ),
        Mutant(
            "reassign_in_heap_order",
            "a bump renumbers in the order of a heap, not of sequences (KAFKA-8483)",
            CRASHES,
        ),
        Mutant(
            "mark_of_renumbering_stays",
            "a batch counts as renumbered also after it was sent",
            RESTART,
        ),
        # Batches that the client gives up or splits
        Mutant(
            "only_queued_batches_expire", "a batch that awaits its answer never expires", TIMEOUT
        ),
        Mutant(
            "expired_batch_counts_as_refused",
            "a batch that expires bumps the epoch at once",
            TIMEOUT,
        ),
        Mutant(
            "expired_batch_leaves_no_doubt",
            "after a batch of unknown outcome new sequences are given at once",
            TIMEOUT,
        ),
        Mutant(
            "sequence_reused_after_unknown_outcome",
            "the sequence of an expired batch goes to the next records (franz-go #1217)",
            TIMEOUT,
        ),
        Mutant(
            "doubt_settled_too_early",
            "the doubt is settled while later batches are still in flight",
            TIMEOUT,
        ),
        Mutant(
            "gap_behind_expired_batch_ignored",
            "a gap that an expired batch left does not bump the epoch",
            TIMEOUT,
        ),
        Mutant(
            "successor_of_doubt_waits_for_ever",
            "the batch behind one of unknown outcome is sent again without end, and without a bump",
            TIMEOUT_REFUSED,
        ),
        Mutant(
            "any_follower_of_doubt_bumps",
            "after a batch of unknown outcome any out-of-order answer bumps the epoch",
            UNRESOLVED,
        ),
        Mutant(
            "late_acknowledgement_ignored",
            "the acknowledgement of an expired batch moves no sequence",
            TIMEOUT,
        ),
        # The codec
        Mutant(
            "sequence_read_unsigned",
            "the base sequence is read as an unsigned number: -1 becomes 4294967295",
            PLAIN,
        ),
        # Transactions: the coordinator, its markers, leaders, the client
        Mutant(
            "end_txn_retry_is_fenced",
            "an EndTxn of V2 that comes again is told that it is fenced",
            ONE_TRANSACTION,
        ),
        Mutant(
            "end_txn_of_older_epoch",
            "an EndTxn of V1 with an older epoch ends the transaction of another instance",
            LATE_V1,
        ),
        Mutant(
            "commit_of_aborted_acknowledged",
            "a commit is acknowledged where the transaction was aborted",
            LATE_V1,
        ),
        Mutant(
            "abort_of_nothing_refused",
            "an abort of V2 is refused where the coordinator knows of no transaction",
            ONE_TRANSACTION,
        ),
        Mutant(
            "end_keeps_epoch",
            "the end of a transaction of V2 takes no new epoch",
            ONE_TRANSACTION,
        ),
        Mutant(
            "loaded_abort_is_forgotten",
            "a coordinator that loads its log goes on with prepared commits only",
            MOVED,
        ),
        Mutant(
            "lost_marker_is_not_sent_again",
            "a marker whose answer is lost counts as written",
            MARKER_LOST,
        ),
        Mutant(
            "older_epoch_is_added",
            "a batch of an older epoch adds its partition to the transaction",
            LATE_V2,
        ),
        Mutant(
            "time_out_commits",
            "a transaction that takes too long is committed",
            TIMED_OUT,
        ),
        Mutant(
            "marker_leaves_transaction_open",
            "a marker does not end the transaction at its partition",
            ONE_TRANSACTION,
        ),
        Mutant(
            "marker_of_same_epoch_ends_next",
            "a marker of V2 that is late ends the next transaction (KIP-1228)",
            MARKER_LATE,
        ),
        Mutant(
            "marker_of_older_coordinator",
            "a marker of a coordinator that was replaced is written",
            MARKER_MOVED,
        ),
        Mutant(
            "sequences_outlive_epoch",
            "the batches of an epoch are remembered beyond the marker of the next",
            ONE_TRANSACTION,
        ),
        Mutant(
            "open_transaction_is_stable",
            "readers of committed records see what is not decided",
            ONE_TRANSACTION,
        ),
        Mutant(
            "open_transaction_vouches",
            "an open transaction of another epoch vouches for a batch (KAFKA-18575)",
            LATE_V2,
        ),
        Mutant(
            "next_epoch_is_not_taken",
            "a client goes on with its epoch, whatever EndTxn answers",
            ONE_TRANSACTION,
        ),
        Mutant(
            "sequences_go_on_in_next_epoch",
            "a client does not begin its sequences anew with the next epoch",
            ONE_TRANSACTION,
        ),
        Mutant(
            "end_overtakes_batches",
            "EndTxn leaves before all batches are acknowledged",
            ONE_TRANSACTION,
        ),
        Mutant(
            "commit_drops_records",
            "what has not left is dropped by the commit, not by the abort",
            ONE_TRANSACTION,
        ),
        Mutant(
            "abort_adds_partitions",
            "an abort still adds the partitions that nobody has asked for",
            ONE_TRANSACTION_V1,
        ),
        Mutant(
            "busy_coordinator_is_the_end",
            "a client gives up when the transaction before still ends",
            LATE_V1,
        ),
    )
}
