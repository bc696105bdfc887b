"""Acknowledgement soundness: what an instance is answered, and what readers see, agree with the
places of its records and the decisions of its transactions."""

from __future__ import annotations

from model.transactions.client_state import ClientState as State
from model.transactions.client_state import Outcome, Write
from model.transactions.configuration import Configuration
from model.transactions.coordinator import TransactionState as Txn
from model.transactions.leader import Kind, Stored
from model.transactions.messages import Error
from proofs.prove.engine.induction import guarantee, invariant
from proofs.prove.transactions.client import (
    ASKED,
    ENDING_STATES,
    ENDS,
    SENDS,
    TOLD,
    WRITING_STATES,
    has_begun,
    here,
    is_of_group,
    is_started,
    own_pair,
    present,
)
from proofs.prove.transactions.coordinator import is_answer, is_complete, is_prepared
from proofs.prove.transactions.partition import LOGGED, entry, has_data, in_log, is_data
from proofs.prove.transactions.symbolic_state import NONE, Image, InstanceState, Pair, pair

WRITTEN = (*SENDS, "batches_are_sent", "log_says_who", *ENDS, *LOGGED)
SETTLED = ("held_is_there", "sent_is_counted", "outcomes_are_of_states", *LOGGED)
STORED = (*WRITTEN, "held_is_there", "remembered_is_stored")

# Contents of the log


def is_own_record(s: InstanceState, stored: Stored) -> bool:
    """Whether the entry is a record of the instance."""
    return is_data(stored) and stored.instance == s.me


@invariant(needs=(*WRITTEN, "who_waits"))
def log_says_who(k: Configuration, s: InstanceState) -> bool:
    """A record of the instance has its transaction's pair, and its number for its sequence; no
    other record has a pair of the instance."""
    return all(
        is_as_sent(k, s, at) if is_own_record(s, at) else pair(at) in s.others_hold
        for at in s.log
        if is_data(at)
    )


def is_as_sent(k: Configuration, s: InstanceState, stored: Stored) -> bool:
    """Whether the application has sent this record in its transaction, under the transaction's
    pair."""
    t = stored.transaction
    return (
        is_started(s, t)
        and s.its_pair(t) == pair(stored)
        and 0 <= stored.number < here(s).sent[t]
        and t <= present(s)
        and stored.sequence == (0 if is_of_group(k, s) else stored.number)
    )


def holds(s: InstanceState, t: int, number: int) -> bool:
    """Whether a record of a transaction is in the log here."""
    at = s.copy_at(t, number)
    return (
        in_log(s, at)
        and is_own_record(s, s.log[at])
        and s.log[at].transaction == t
        and s.log[at].number == number
    )


@invariant(needs=LOGGED)
def held_is_there(s: InstanceState) -> bool:
    """Of each record of the instance in the log it is known where one stands."""
    return all(holds(s, at.transaction, at.number) for at in s.log if is_own_record(s, at))


@invariant(needs=LOGGED)
def sequences_rise(k: Configuration, s: InstanceState) -> bool:
    """Of each epoch no sequence stands twice in the log: they rise. The group's offsets have
    none."""
    return all(
        (not (i < j and is_data(b) and pair(a) == pair(b)) or a.sequence < b.sequence)
        and (not is_of_last_epoch(s, a) or a.sequence <= entry(s, a.producer_id).last_sequence)
        for i, a in enumerate(s.log)
        for j, b in enumerate(s.log)
        if is_data(a) and not is_of_group(k, s)
    )


def is_of_last_epoch(s: InstanceState, stored: Stored) -> bool:
    """Whether the record has the last epoch that its producer id wrote here."""
    return stored.producer_epoch == entry(s, stored.producer_id).producer_epoch


@invariant(needs=LOGGED)
def remembered_is_stored(k: Configuration, s: InstanceState) -> bool:
    """Each batch that a leader remembers is in its log."""
    return all(
        is_placed(s, (p, entry(s, p).producer_epoch), sequence)
        for p in s.producer_ids
        for sequence in s.sequences
        if entry(s, p).last_sequence - entry(s, p).remembered < sequence
        and sequence <= entry(s, p).last_sequence
        and not is_of_group(k, s)
    )


def is_placed(s: InstanceState, of: Pair, sequence: int) -> bool:
    """Whether a batch of this pair and this sequence is in the log."""
    at = s.placed(of[0], of[1], sequence)
    return has_data(s, at) and pair(s.log[at]) == of and s.log[at].sequence == sequence


def remembers(s: InstanceState, sequence: int) -> bool:
    """Whether the leader remembers a batch of the instance's own pair and of this sequence."""
    known = entry(s, own_pair(s)[0])
    return (
        has_begun(s)
        and own_pair(s)[1] == known.producer_epoch
        and sequence <= known.last_sequence
        and known.last_sequence - sequence < known.remembered
    )


def is_remembered(k: Configuration, s: InstanceState) -> bool:
    """Whether the leader remembers the batch that the instance has for the partition here."""
    return s.client.is_started and not is_of_group(k, s) and remembers(s, here(s).written - 1)


@invariant(needs=("remembered_is_stored",), follows=True)
def known_batch_is_placed(k: Configuration, s: InstanceState) -> bool:
    """If a leader remembers the batch that the instance has for the partition here, one of its
    sequence is in the log."""
    return not is_remembered(k, s) or is_placed(s, own_pair(s), here(s).written - 1)


@invariant(needs=(*STORED, "known_batch_is_placed"), follows=True)
def known_batch_is_stored(k: Configuration, s: InstanceState) -> bool:
    """And it is that batch."""
    return not is_remembered(k, s) or holds(s, present(s), here(s).written - 1)


@invariant(needs=SETTLED)
def settled_is_stored(s: InstanceState) -> bool:
    """Unless something has failed, each record that was sent is in the log, but for the one that
    waits for its answer."""
    return all(
        holds(s, present(s), number)
        for number in s.numbers
        if s.client.state in WRITING_STATES
        and 0 <= number < here(s).written
        and (number != here(s).written - 1 or here(s).write == Write.NONE)
    )


@invariant(needs=(*SETTLED, "settled_is_stored"))
def committed_is_stored(s: InstanceState) -> bool:
    """What was sent in a transaction whose commit succeeded is in the log."""
    return all(
        holds(s, t, number)
        for t in s.transactions
        for number in s.numbers
        if is_committed(s, t) and 0 <= number < here(s).sent[t]
    )


def is_committed(s: InstanceState, t: int) -> bool:
    """Whether the application was told that the transaction is committed."""
    return present(s) >= t and s.client.outcomes[t] == Outcome.COMMITTED


# Decisions


def marked(s: InstanceState, of: Pair) -> int:
    """The decision of a pair's transaction; its markers have the epoch after the pair's."""
    return s.decision(of[0], of[1] + 1)


def commits_soon(s: InstanceState, of: Pair) -> bool:
    """Whether a commit of a pair's transaction is in the log, or on its way there."""
    return not all(
        not (image.state == Txn.PREPARE_COMMIT and pair(image) == (of[0], of[1] + 1))
        for image in s.to_be_known
    )


@invariant(needs=(*ASKED, "unsent_is_undecided"))
def commits_are_asked(s: InstanceState) -> bool:
    """Only a transaction whose commit the instance has sent is decided so, or is about to be."""
    return all(
        (t, 1) in s.sent_end
        for t in s.transactions
        if is_started(s, t) and (marked(s, s.its_pair(t)) == 1 or commits_soon(s, s.its_pair(t)))
    )


@invariant(needs=(*ASKED, "commits_are_asked"))
def unsent_is_undecided(s: InstanceState) -> bool:
    """Of a pair under which nothing was sent yet no commit is decided, or about to be."""
    idle = s.client.state == State.READY or (has_begun(s) and not s.client.is_started)
    return not idle or not (marked(s, own_pair(s)) == 1 or commits_soon(s, own_pair(s)))


@invariant(needs=(*TOLD, "decided_is_past", "prepared_is_decided"))
def complete_is_decided(k: Configuration, s: InstanceState) -> bool:
    """What is complete says what was decided: of its pair, or of the last epoch before its id."""
    return all(
        is_decided_commit(k, s, image) for image in s.images if image.state == Txn.COMPLETE_COMMIT
    )


def is_decided_commit(k: Configuration, s: InstanceState, image: Image) -> bool:
    """Whether the end that an image completes was decided to be a commit."""
    first = image.producer_epoch == 0
    p = image.previous_producer_id if first else image.producer_id
    e = k.bounds.max_epoch if first else image.producer_epoch
    return s.decision(p, e) == 1


@invariant(needs=ASKED)
def who_waits(s: InstanceState) -> bool:
    """Where an append is the instance's own, it waits for just that: its first pair, the end that
    it has asked for, or to ask again; another waits for the end of its own pair."""
    c = s.coordinator
    mine = c.is_appending and c.requester == s.me
    another = c.is_appending and not mine and c.requester != NONE and is_answer(c)
    before = s.appended.producer_epoch - 1
    return (
        ((c.is_appending and not is_complete(s.appended)) or c.requester == NONE)
        and (not mine or waits_for_pair(s) or waits_to_ask_again(s))
        and (not another or pair(c.answer) not in s.holds_pair)
        and (
            not (another and is_prepared(s.appended))
            or (s.appended.producer_id, before) in s.others_hold
        )
    )


def waits_to_ask_again(s: InstanceState) -> bool:
    """Whether the instance will be told to ask for its producer id once more."""
    return (
        s.coordinator.answer.error == Error.CONCURRENT_TRANSACTIONS
        and s.client.state == State.INITIALIZING
    )


def waits_for_pair(s: InstanceState) -> bool:
    """Whether the instance will be told a pair that nobody was told: its first pair, or the pair
    after the end that it has asked for."""
    answer = s.coordinator.answer
    return (
        answer.error == 0
        and answer.producer_id != NONE
        and answer.producer_epoch >= 0
        and pair(answer) not in s.given
        and (waits_to_begin(s) or waits_to_end(s))
    )


def waits_to_begin(s: InstanceState) -> bool:
    """Whether the append under way gives the instance its pair."""
    return (
        s.client.state == State.INITIALIZING
        and s.appended.last_producer_epoch == NONE
        and not is_prepared(s.appended)
    )


def waits_to_end(s: InstanceState) -> bool:
    """Whether the append under way is the end that the instance has asked for."""
    commits = s.client.state == State.COMMITTING
    return (
        s.client.state in ENDING_STATES
        and s.client.is_started
        and (present(s), 1 if commits else 0) in s.sent_end
        and is_prepared(s.appended)
        and (s.appended.state == Txn.PREPARE_COMMIT) == commits
        and s.appended.producer_id == own_pair(s)[0]
        and s.appended.producer_epoch == own_pair(s)[1] + 1
    )


@invariant(needs=(*ASKED, "complete_is_decided", "commits_are_asked"))
def told_is_decided(s: InstanceState) -> bool:
    """What the application was told is committed was decided so."""
    return all(
        marked(s, s.its_pair(t)) == 1
        for t in s.transactions
        if is_committed(s, t) and is_started(s, t)
    )


# Guarantees


@guarantee(
    needs=(
        "log_says_who",
        "visible_as_decided",
        "commits_are_asked",
        "ends_are_asked",
        "told_is_decided",
    ),
    follows=True,
)
def told_is_visible(s: InstanceState) -> bool:
    """A record of the instance becomes visible, wherever it stands, if and only if its transaction
    was decided to commit, which its application asked for; it is so once that was told."""
    return all(
        is_visible_as(s, i, marked(s, s.its_pair(at.transaction)), at.transaction)
        for i, at in enumerate(s.log)
        if is_own_record(s, at) and s.ended(i) != NONE
    )


def is_visible_as(s: InstanceState, i: int, outcome: int, t: int) -> bool:
    """Whether a record is visible exactly if the outcome is to commit. The application must also
    have asked for the commit of a visible record, and a record must be visible if the application
    was told of its commit."""
    is_visible = s.log[s.ended(i)].kind == Kind.COMMIT
    asked = s.client.outcomes[t]
    return (
        is_visible == (outcome == 1)
        and (not is_visible or asked in (Outcome.COMMIT_ASKED, Outcome.COMMITTED))
        and (asked != Outcome.COMMITTED or is_visible)
    )


@guarantee(needs=("committed_is_stored", "log_says_who", "told_is_decided"), follows=True)
def told_is_whole(s: InstanceState) -> bool:
    """Once a commit was told, each record that was sent here is in the log, and was decided to be
    visible; so it is with each partition, at its own time."""
    return all(
        holds(s, t, number) and marked(s, s.its_pair(t)) == 1
        for t in s.transactions
        for number in s.numbers
        if is_committed(s, t) and 0 <= number < here(s).sent[t]
    )


@guarantee(needs=("log_says_who", "log_has_names", "sequences_rise"), follows=True)
def stored_once(k: Configuration, s: InstanceState) -> bool:
    """No record of the instance stands twice in the log here; the group's offsets may."""
    return all(
        i == j
        for i, a in enumerate(s.log)
        for j, b in enumerate(s.log)
        if is_own_record(s, a)
        and is_own_record(s, b)
        and a.transaction == b.transaction
        and a.number == b.number
        and not is_of_group(k, s)
    )
