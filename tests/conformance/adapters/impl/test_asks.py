"""What impl is asked beyond the transitions of scopes, each with the planted bug that shows it.

A question without a bug proves nothing: `conformance mutants` hunts each. What nothing asks stands
here with its reason.
"""

from __future__ import annotations

import pytest

from conformance.campaigns.mutants import MUTANTS

pytestmark = pytest.mark.fast

ASKED = """
a member that was removed commits: stale_member_commits
a member of an older generation commits: stale_generation_commits
a static member that was replaced commits: fenced_instance_commits
who is no member commits: commit_outside_needs_no_member
several rows of offsets in one request: one_row_of_offsets_stays one_row_of_offsets_sent
two partitions of the group's log: one_offsets_log
two partitions of the transaction log: one_transaction_log
members after the group's coordinator moved: group_forgotten pending_offsets_forgotten
a transaction before its time-out: timeout_comes_early
a transactional id before its expiration: id_forgotten_too_early
a producer id before its expiration: producer_forgotten_too_early
a follower that fetches: follower_knows_no_producers
a follower that is sent what a later leader wrote: follower_takes_later_epochs
a follower that truncates its log: truncation_keeps_producers truncation_keeps_the_end
a load that another election overtook: overtaken_load_counts
a resignation that comes late: late_resignation_counts
a newer epoch at EndTxn: newer_epoch_ends_in_v1
a newer epoch at AddPartitionsToTxn: newer_epoch_joins
a stranger at InitProducerId: stranger_gets_an_epoch
EndTxn with the last epoch while no producer id can be had: ends_without_producer_id
a log that says that an id was forgotten: forgotten_id_is_loaded
markers of the transaction before: marker_of_before_counts
a plain batch inside a transaction: plain_batch_in_transaction
a plain batch while a transaction is verified: plain_batch_ends_verification
DUPLICATE_SEQUENCE_NUMBER at a client: duplicate_fails_transaction
UNKNOWN_PRODUCER_ID at a client: unknown_producer_at_coordinator_is_fatal
a broker of an older epoch asks for a block: old_epoch_gets_block
an answer of the controller that comes twice: late_block_counts
TRANSACTION_ABORTABLE at a client: abortable_answer_is_fatal
what the log of transactions keeps: log_forgets_the_beginning
a request that is overdue at a client: overdue_requests_stay
a client that may not get a producer id: refused_initialization_is_final
a cluster that gives no new epochs: bump_is_always_possible lost_batches_go_unnoticed
a batch that is refused until its client gives up: attempts_count_twice
a batch whose parts are too large again: parts_stay_as_large
an answer that names another leader: unknown_leader_is_believed
whether the log may have a record that failed: refused_record_is_safe_to_send_again
a coordinator that throttles: throttled_request_is_lost
the offset of each record: offset_of_the_batch_is_told
a deletion above the high watermark: deletes_above_high_watermark
what is refused while replicas are missing: refused_again_after_the_append
what is answered once replicas have it: stored_where_replicas_are_missing
a leader that has lost its state of a producer: lost_state_bumps_no_epoch
a follower that is sent a batch without a producer id: plain_writer_is_remembered
a broker that hears of no block, or of an older one: late_request_is_awaited refused_block_is_used
several errors in an answer to AddPartitionsToTxn: first_error_hides_others
a call that is repeated before its result was seen: repeated_call_is_refused
"""
"""What is asked, and the bugs that show it is."""

NOT_ASKED = {
    "blocks of producer ids in ZooKeeper": "impl reads and writes in one call what the model does"
    " in two events; tests/impl/broker/test_zookeeper.py holds it to a server",
    "transactions of followers": "a transaction's leaders have one replica: followers share"
    " `ProducerStates.replay` with loads, which the scopes of moves take",
    "batches behind a truncation inside a batch": "logs are cut at batches: the model has no"
    " offsets inside them",
    "groups of the new protocol (KIP-848)": "the model's members have generations, and no epochs",
    "members that leave": "LeaveGroup is no event of the model: who leaves is as one that crashed",
    "delayed fetches, quotas, throttling": "they change no outcome of exactly-once",
}
"""What nothing asks, and why."""


def rows() -> dict[str, list[str]]:
    pairs = (line.rpartition(": ") for line in ASKED.strip().splitlines())
    return {what: bugs.split() for what, _, bugs in pairs}


def test_each_ask_is_shown_by_a_planted_bug():
    for what, bugs in rows().items():
        assert bugs, what
        assert set(bugs) <= MUTANTS.keys(), what


def test_what_is_not_asked_says_why():
    assert all(NOT_ASKED.values())
    assert not NOT_ASKED.keys() & rows().keys()
