"""The named mutants of transactions and of who consumes in them, and what cannot be expressed."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.lift.patch import Patch
from proofs.mutants.row import BASE, Mutant, mutant

V1 = "4.3.1/level=2/requests=v1"
NOTHING_LATE = "transactions-late-batch/delays=0"
IN_TURN = f"{NOTHING_LATE}/expirations=0"


def released(
    name: str, reference: str, mechanism: str, scope: str, variant: str, breaks: str, twin: str
) -> Mutant:
    """What some release does; its twin has the better rule."""
    return Mutant(name, "variant", reference, mechanism, scope, variant, breaks, twin)


RELEASED: tuple[Mutant, ...] = (
    released(
        "delayed_end_txn",
        "KAFKA-17754, Jepsen's report on Bufstream 0.1.0",
        "EndTxn of V1 that its client gave up arrives in the next transaction, and ends it",
        "transactions-default",
        V1,
        "no_lost_write",
        BASE,
    ),
    released(
        "late_produce_hangs",
        "KAFKA-14402, KIP-890",
        "a batch comes after its transaction's marker; no coordinator knows of what it opens",
        "transactions-late-batch/begun=1/delays=1/unheard=0",
        f"{V1}/verification=none",
        "no_write_outside",
        V1,
    ),
    released(
        "marker_at_equal_epoch",
        "KAFKA-19446, KIP-1228",
        "a late marker has the epoch in which the next transaction writes, and ends it",
        "transactions-markers",
        "4.1.2",
        "no_lost_write",
        "4.1.2/marker_epoch=newer",
    ),
    released(
        "marker_strictly_greater",
        "KAFKA-19999",
        "a leader refuses the marker that a coordinator sends again after a lost answer",
        "transactions-markers",
        f"{BASE}/marker_epoch=strictly_newer",
        "markers_are_taken",
        BASE,
    ),
    released(
        "produce_during_completion",
        "KAFKA-18575",
        "the next transaction's batch comes before the marker of the last, and is not registered",
        "transactions-default",
        f"{BASE}/ongoing=of_producer_id",
        "markers_are_taken",
        BASE,
    ),
    released(
        "late_offset_commit",
        "KAFKA-15449",
        "TxnOffsetCommit comes after the marker: an offset is pending that nobody ends",
        "transactions-offsets",
        "3.3.2",
        "no_write_outside",
        "3.9.2",
    ),
    released(
        "timeout_without_bump",
        "KAFKA-6119",
        "a transaction that lasted too long is aborted in its own epoch; its producer writes on",
        "transactions-small/moves=0/delays=0",
        f"{V1}/verification=none/fence=same_epoch",
        "no_write_outside",
        f"{V1}/verification=none",
    ),
    released(
        "exhausted_epoch_not_rotated",
        "KAFKA-20090",
        "an abort by the coordinator at the last epoch takes no new producer id",
        "transactions-exhausted",
        f"{BASE}/rotation=clients",
        "last_epoch_is_nobodys",
        BASE,
    ),
    released(
        "next_producer_id_not_logged",
        "KAFKA-20310",
        "the producer id that is to take over is lost with the coordinator that chose it",
        "transactions-exhausted",
        f"{BASE}/id_memory=in_memory",
        "last_epoch_is_nobodys",
        BASE,
    ),
    released(
        "marker_without_leader",
        "KAFKA-20734",
        "a coordinator takes a partition without a leader for deleted, and its marker for written",
        "transactions-leaderless",
        BASE,
        "no_lost_write",
        f"{BASE}/leaderless_marker=waits",
    ),
    released(
        "no_generation_check",
        "KIP-447",
        "a member that the group has replaced commits its offset all the same",
        "processing",
        "4.3.1/generation_check=absent",
        "offsets_never_go_back",
        "4.3.1",
    ),
    released(
        "unstable_offset_read",
        "KIP-447",
        "a member begins where the group was while its predecessor's offset is pending",
        "processing",
        "4.3.1/offset_reads=unstable",
        "output_produced_once",
        "4.3.1",
    ),
)
"""What some release does."""

PATCHED: tuple[Mutant, ...] = (
    mutant(
        "ongoing_not_logged",
        "Redpanda #6019",
        "a partition is added before the log has it: a failover forgets the first half",
        "transactions-small/timeouts=0/delays=0",
        "no_lost_write",
        Patch(
            "add_partitions.on_add_partitions",
            "changed(k, c, image, requester, failed(Error.NONE))",
            "answered(replace(c, known=image), failed(Error.NONE))",
        ),
    ),
    mutant(
        "empty_abort_fences_itself",
        "KAFKA-18464",
        "EndTxn took the next epoch, its answer is lost, and its retry is taken for a zombie's",
        "transactions-tiny",
        "no_false_fencing",
        Patch("end_txn.end_v2", "is_retry(k, c, request)", "False"),
    ),
    mutant(
        "end_txn_epoch_not_compared",
        "KAFKA-9600",
        "EndTxn of an instance that was replaced ends the transaction of the one that lives",
        IN_TURN,
        "no_lost_write",
        Patch("end_txn.end_v1", "request.producer_epoch != metadata.producer_epoch", "False"),
        on=V1,
    ),
    mutant(
        "verification_is_a_boolean",
        "KAFKA-14884",
        "the coordinator has said yes, a marker comes, and then the batch is written",
        "transactions-guards",
        "no_write_outside",
        Patch(
            "leader.on_verified",
            "guard == leader.verifications[batch.producer_id].guard",
            "True",
        ),
        on=V1,
    ),
    mutant(
        "lso_inclusive",
        "Redpanda #3036",
        "the record at the last stable offset is read too",
        "transactions-tiny",
        "no_dirty_read",
        Patch(
            "leader.last_stable_offset",
            "first_open(k, leader)",
            "min(first_open(k, leader) + 1, len(leader.log))",
        ),
    ),
    mutant(
        "commit_of_nothing",
        "librdkafka 1.7.0 change log",
        "nothing was registered yet: the commit succeeds, and what waits is not sent",
        "transactions-tiny",
        "no_lost_write",
        Patch("client.commit_transaction", "not has_work(client)", "not client.is_started"),
        on=V1,
    ),
    mutant(
        "end_txn_error_ignored",
        "librdkafka 1.6.0 change log",
        "an instance that was replaced is told that its commit succeeded",
        IN_TURN,
        "no_lost_write",
        Patch(
            "client.on_ended",
            "answer.error != Error.NONE",
            "answer.error != Error.NONE and effect_of(answer.error) != Effect.DIE",
        ),
        on=V1,
    ),
    mutant(
        "bump_inside_transaction",
        "librdkafka #3575",
        "a client asks for the next epoch in mid-transaction, which aborts what it has written",
        NOTHING_LATE,
        "no_lost_write",
        Patch("client.in_error", "ClientState.ABORTABLE_ERROR", "ClientState.INITIALIZING"),
        Patch(
            "client.on_producer_id",
            "ClientState.READY",
            "ClientState.IN_TRANSACTION if client.begun > 0"
            " and client.outcomes[present(client)] == Outcome.OPEN else ClientState.READY",
        ),
        on=V1,
    ),
    mutant(
        "send_failure_not_poisoning",
        "KAFKA-9279",
        "a record has failed, and the commit succeeds all the same",
        "transactions-late-batch/delays=1",
        "no_lost_write",
        Patch(
            "client.give_up",
            "in_batch_error(k, settled(client, partition), Effect.ABORT)",
            "settled(client, partition)",
        ),
        on=V1,
    ),
    mutant(
        "pending_state_leaks",
        "KAFKA-5351, KAFKA-7519",
        "an append fails, and the transition that waited for it stays pending",
        "live-log",
        "makes_progress",
        Patch(
            "coordinator.append_fails",
            "nothing_appended(written)",
            "replace(nothing_appended(written), is_stopped=True)",
        ),
        Patch("coordinator.is_pending", "c.is_appending", "(c.is_appending or c.is_stopped)"),
    ),
    mutant(
        "late_produce_adopted",
        "KIP-890",
        "an abort takes no next epoch: a late batch lands in the transaction after it, whose own"
        " batch is then a duplicate",
        "transactions-late-batch/delays=1",
        "no_aborted_read",
        Patch(
            "end_txn.prepared_with_next_epoch",
            "next_epoch(epoch)",
            "next_epoch(epoch) if metadata.state == TransactionState.PREPARE_COMMIT else epoch",
        ),
    ),
    mutant(
        "double_bump_on_fence",
        "KAFKA-19367",
        "a coordinator that aborts takes two epochs, and behind the last the numbers begin anew",
        "transactions-exhausted",
        "markers_are_taken",
        Patch(
            "coordinator.fencing",
            "next_epoch(metadata.producer_epoch)",
            "metadata.producer_epoch + 2 if metadata.producer_epoch + 2 <= k.bounds.max_epoch"
            " else metadata.producer_epoch + 1 - k.bounds.max_epoch",
        ),
    ),
    mutant(
        "failed_fence_burns_epoch",
        "KAFKA-9666",
        "each abort whose append fails takes one more epoch, and behind the last they begin anew",
        "transactions-trouble-log/failures=1/unheard=1",
        "markers_are_taken",
        Patch(
            "coordinator.fencing",
            "k.variant.fence == Fence.SAME_EPOCH or c.unlogged_fence",
            "k.variant.fence == Fence.SAME_EPOCH",
        ),
        Patch(
            "coordinator.fencing",
            "next_epoch(metadata.producer_epoch)",
            "metadata.producer_epoch + 1 if metadata.producer_epoch < k.bounds.max_epoch else 0",
        ),
        Patch(
            "coordinator.overflows",
            "c.known.metadata.producer_epoch >= k.bounds.max_epoch",
            "False",
        ),
        on="4.3.1/level=1/requests=v1",
    ),
    mutant(
        "offsets_error_not_retried",
        "librdkafka #3221",
        "the transaction before is not complete, the answer to the offsets says to try again, and"
        " their transaction commits without them",
        "transactions-offsets/delays=0/timeouts=0/unheard=0",
        "offsets_with_outcome",
        Patch(
            "client.on_offsets_committed",
            "answer.error == Error.NONE",
            "answer.error == Error.NONE or effect_of(answer.error) == Effect.RETRY",
        ),
    ),
)
"""Defects as patches."""

TRANSACTIONAL: tuple[Mutant, ...] = (*RELEASED, *PATCHED)
"""Those that are checked."""

ANSWERED: Mapping[str, tuple[str, str]] = {
    "delayed_end_txn": ("visible_as_decided", "end/visible_as_decided"),
    "late_produce_hangs": ("no_write_outside", "batch_arrives/no_write_outside"),
    "marker_at_equal_epoch": ("all_or_none", "marker_arrives/visible_as_decided"),
    "marker_strictly_greater": ("markers_are_taken", "marker_is_written/markers_are_taken"),
    "late_offset_commit": ("no_write_outside", "batch_arrives/no_write_outside"),
    "timeout_without_bump": ("no_write_outside", "batch_arrives/no_write_outside"),
    "exhausted_epoch_not_rotated": ("last_epoch_is_nobodys", "time_out/ids_are_remembered"),
    "next_producer_id_not_logged": (
        "last_epoch_is_nobodys",
        "take_over_with_append/ids_are_remembered",
    ),
    "ongoing_not_logged": ("visible_as_decided", "add/partitions_are_in_transactions"),
    "empty_abort_fences_itself": ("no_false_fencing", "transaction_is_ended/no_false_fencing"),
    "end_txn_epoch_not_compared": ("coordinator_fences", "end/fenced_change_nothing"),
    "produce_during_completion": ("markers_are_taken", "told_batch/open_is_before_its_marker"),
    "lso_inclusive": ("last_stable_offset_sound", "always/what_is_stable_is_decided"),
    "commit_of_nothing": ("acked_is_stored_once", "commit_transaction/committed_is_stored"),
    "end_txn_error_ignored": ("all_or_none", "i_end/told_is_decided"),
    "bump_inside_transaction": ("acked_is_stored_once", "i_begin/sent_is_counted"),
    "send_failure_not_poisoning": ("acked_is_stored_once", "give_up/settled_is_stored"),
    "late_produce_adopted": ("visible_as_decided", "end/one_outcome"),
    "double_bump_on_fence": ("markers_are_taken", "time_out/nobody_rests_at_the_last"),
    "failed_fence_burns_epoch": ("markers_are_taken", "time_out/written_is_past"),
    "offsets_error_not_retried": ("all_or_none", "my_offsets/settled_is_stored"),
}
"""The theorem that each mutant of transactions breaks, and its first obligation that fails: by
`prove --mutant NAME`, which answers with the mutant's trace. Where the theorem is about another
guarantee than the trace, that rests on this."""

UNANSWERED: Mapping[str, str] = {
    "verification_is_a_boolean": (
        "a batch that is verified and appended some time after is of no theorem (guards)"
    ),
    "pending_state_leaks": "what happens in the end is of no theorem",
    "marker_without_leader": "each theorem assumes that leaders are there (leaders_are_there)",
}
"""Those that no theorem sees, and why: they are explored."""

_COMPACTION = "logs that are compacted"
_ROUNDS = (
    "answers to markers as events of their own: here the coordinator hears one together with what"
    " the partition writes"
)

UNEXPRESSED: Mapping[str, str] = {
    "upgrade_without_bump": "a client that changes its conversation within a run",
    "completion_written_twice": _ROUNDS,
    "late_callback_removes_newer": _ROUNDS,
    "lso_ahead_of_applied": "replicas whose state follows their log",
    "stale_first_unstable_offset": "logs that are truncated",
    "marker_compacted_as_key": _COMPACTION,
    "aborted_index_lost_by_cleaner": _COMPACTION,
    "markers_share_a_compaction_key": _COMPACTION,
}
"""Defects that shipped, and what the model lacks to show them."""
