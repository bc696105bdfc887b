"""Acknowledgement soundness: where an instance's records stand and what was decided of them is what
the instance is answered and what readers see."""

from __future__ import annotations

from model.transactions.client_state import ClientState as Client
from model.transactions.client_state import Outcome, Write
from model.transactions.coordinator import TransactionState as Txn
from model.transactions.leader import Kind
from model.transactions.messages import Error
from proofs.lift.dag import Node, conjunction, ite
from proofs.lift.values import Scalars
from proofs.prove.smt import Formula
from proofs.prove.transactions.client import (
    ONE,
    SEQUENCE,
    N,
    has_begun,
    is_started,
    one_of,
    outcome,
    own_pair,
    sent_here,
    state_of,
    there,
)
from proofs.prove.transactions.coordinator import (
    COMPLETE,
    MAX_EPOCH,
    P,
    images,
    is_answer,
    is_prepared,
    some,
)
from proofs.prove.transactions.instances import ME, InstanceState, T, is_of_group, its_pair, present
from proofs.prove.transactions.partition import I, J, entry, in_log, is_data, log
from proofs.prove.transactions.state import HERE, NONE, TransactionsState, both_are

# What is in the log


def is_own_record(s: InstanceState, stored: Scalars) -> Node:
    """A record of the instance."""
    return is_data(stored) & stored.instance.eq(ME)


def log_says_who(s: InstanceState) -> Formula:
    """A record of the instance has its transaction's pair, and its number for its sequence; no
    other record has a pair of the instance."""
    stored = log(s, I)
    pair = (stored.producer_id, stored.producer_epoch)
    t = stored.transaction
    numbered = stored.sequence.eq(ite(is_of_group(), 0, stored.number))
    mine = (
        is_started(s, t)
        & both_are(its_pair(s, t), pair)
        & (stored.number >= 0)
        & (stored.number < sent_here(s, t))
        & (t <= present(s))
        & numbered
    )
    there_is = in_log(s, I) & is_data(stored)
    owned = ite(is_own_record(s, stored), mine, s.others_hold(*pair))
    return (I,), there_is.implies(owned)


def holds(s: InstanceState, transaction: Node, record: Node) -> Node:
    """A record of a transaction is in the log here."""
    at = s.copy_at(transaction, record)
    stored = log(s, at)
    return (
        in_log(s, at)
        & is_own_record(s, stored)
        & stored.transaction.eq(transaction)
        & stored.number.eq(record)
    )


def held_is_there(s: InstanceState) -> Formula:
    """Of each record of the instance in the log it is known where one stands."""
    stored = log(s, I)
    mine = in_log(s, I) & is_own_record(s, stored)
    return (I,), mine.implies(holds(s, stored.transaction, stored.number))


def sequences_rise(s: TransactionsState) -> Formula:
    """Of each epoch no sequence stands twice in the log: they rise. The group's offsets have
    none."""
    a, b = log(s, I), log(s, J)
    records = in_log(s, I) & in_log(s, J) & is_data(a) & is_data(b) & (I < J)
    same = a.producer_id.eq(b.producer_id) & a.producer_epoch.eq(b.producer_epoch)
    known = entry(s, a.producer_id)
    latest = in_log(s, I) & is_data(a) & a.producer_epoch.eq(known.producer_epoch)
    facts = (records & same).implies(a.sequence < b.sequence) & latest.implies(
        a.sequence <= known.last_sequence
    )
    return (I, J), (~is_of_group()).implies(facts)


def remembered_is_stored(s: InstanceState) -> Formula:
    """Each batch that a leader remembers is in its log."""
    known = entry(s, P)
    at = s.placed(P, known.producer_epoch, SEQUENCE)
    stored = log(s, at)
    remembered = (
        (known.last_sequence - known.remembered < SEQUENCE)
        & (known.last_sequence >= SEQUENCE)
        & ~is_of_group()
    )
    found = (
        in_log(s, at)
        & is_data(stored)
        & stored.producer_id.eq(P)
        & stored.producer_epoch.eq(known.producer_epoch)
        & stored.sequence.eq(SEQUENCE)
    )
    return (P, SEQUENCE), remembered.implies(found)


def remembers(s: InstanceState, sequence: Node) -> Node:
    """Whether the leader remembers a batch of the instance's own pair and of this sequence."""
    known = entry(s, own_pair(s)[0])
    return (
        has_begun(s)
        & own_pair(s)[1].eq(known.producer_epoch)
        & (sequence <= known.last_sequence)
        & (known.last_sequence - sequence < known.remembered)
    )


def is_placed(s: InstanceState, sequence: Node) -> Node:
    """Whether a batch of the instance's own pair and of this sequence is in the log."""
    at = s.placed(*own_pair(s), sequence)
    stored = log(s, at)
    return (
        in_log(s, at)
        & is_data(stored)
        & both_are((stored.producer_id, stored.producer_epoch), own_pair(s))
        & stored.sequence.eq(sequence)
    )


def is_known(s: InstanceState) -> tuple[Node, Node]:
    """Whether a leader remembers the batch that the instance has for the partition here; and which
    sequence that has."""
    last = there(s, HERE).written - 1
    of_partition = s.client.is_started & ~is_of_group()
    return of_partition & remembers(s, last), last


def known_batch_is_placed(s: InstanceState) -> Formula:
    """If a leader remembers the batch that the instance has for the partition here, one of its
    sequence is in the log."""
    remembered, last = is_known(s)
    return (), remembered.implies(is_placed(s, last))


def known_batch_is_stored(s: InstanceState) -> Formula:
    """And it is that batch."""
    remembered, last = is_known(s)
    return (), remembered.implies(holds(s, present(s), last))


def settled_is_stored(s: InstanceState) -> Formula:
    """Unless something has failed, each record that was sent is in the log, but for the one that
    waits for its answer."""
    at = there(s, HERE)
    works = one_of(state_of(s), (Client.IN_TRANSACTION, Client.COMMITTING))
    last = N.eq(at.written - 1)
    settled = ~last | at.write.eq(Write.NONE)
    sent = (N >= 0) & (at.written > N)
    return (N,), (works & sent & settled).implies(holds(s, present(s), N))


def committed_is_stored(s: InstanceState) -> Formula:
    """What was sent in a transaction whose commit succeeded is in the log."""
    sent = (N >= 0) & (sent_here(s, T) > N)
    told = (present(s) >= T) & outcome(s, T).eq(Outcome.COMMITTED)
    return (T, N), (told & sent).implies(holds(s, T, N))


# What is decided


def marked(s: InstanceState, transaction: Node) -> Node:
    """What was decided of a transaction: its markers have the epoch after its own."""
    its_id, its_epoch = its_pair(s, transaction)
    return s.decision(its_id, its_epoch + 1)


def commits_are_asked(s: InstanceState) -> Formula:
    """Only a transaction whose commit the instance has sent is decided so, or is about to be."""
    commits = marked(s, T).eq(1) | commits_soon(s, its_pair(s, T))
    return (T,), (is_started(s, T) & commits).implies(s.sent_end(T, ONE))


def commits_soon(s: InstanceState, pair: tuple[Node, Node]) -> Node:
    """A commit of a pair is in the log, or on its way there."""
    ends = (pair[0], pair[1] + 1)

    def says(image: Scalars) -> Node:
        its = both_are((image.producer_id, image.producer_epoch), ends)
        return ~(image.state.eq(Txn.PREPARE_COMMIT) & its)

    return ~images(s, says, ("log", "image"))


def unsent_is_undecided(s: InstanceState) -> Formula:
    """Of a pair under which nothing was sent yet no commit is decided, or about to be."""
    own_id, own_epoch = own_pair(s)
    idle = state_of(s).eq(Client.READY) | has_begun(s) & ~s.client.is_started
    decided = s.decision(own_id, own_epoch + 1).eq(1)
    commits = decided | commits_soon(s, own_pair(s))
    return (), idle.implies(~commits)


def complete_is_decided(s: InstanceState) -> Formula:
    """What is complete says what was decided: of its pair, or of the last epoch before its id."""

    def said(image: Scalars) -> Node:
        first = image.producer_epoch.eq(0)
        decided = s.decision(
            ite(first, image.previous_producer_id, image.producer_id),
            ite(first, MAX_EPOCH, image.producer_epoch),
        )
        return image.state.eq(COMPLETE[0]).implies(decided.eq(1))

    return (), images(s, said)


def who_waits(s: InstanceState) -> Formula:
    """Where an append is the instance's own, it waits for just that: its first pair, the end that
    it has asked for, or to ask again; another waits for the end of its own pair."""
    c, image = s.coordinator, s.known("image")
    answer = c.answer
    good = answer.error.eq(0)
    mine = c.is_appending & c.requester.eq(ME)
    later = answer.error.eq(Error.CONCURRENT_TRANSACTIONS) & state_of(s).eq(Client.INITIALIZING)
    state = state_of(s)
    begins = state.eq(Client.INITIALIZING)
    own_id, own_epoch = own_pair(s)
    ends = (
        one_of(state, (Client.COMMITTING, Client.ABORTING))
        & s.client.is_started
        & s.sent_end(present(s), ite(state.eq(Client.COMMITTING), 1, 0))
        & is_prepared(image)
        & image.state.eq(Txn.PREPARE_COMMIT).eq(state.eq(Client.COMMITTING))
        & image.producer_id.eq(own_id)
        & image.producer_epoch.eq(own_epoch + 1)
    )
    told = some(answer.producer_id) & (answer.producer_epoch >= 0)
    unsaid = ~s.given(answer.producer_id, answer.producer_epoch)
    anew = image.last_producer_epoch.eq(NONE)
    starts = begins & anew & ~is_prepared(image)
    waits = good & told & unsaid & (starts | ends)
    nobody = c.requester.eq(NONE)
    another = c.is_appending & ~mine & ~nobody & is_answer(s)
    its = s.others_hold(image.producer_id, image.producer_epoch - 1)
    unheard = ~s.holds_pair(answer.producer_id, answer.producer_epoch)
    facts = (
        c.is_appending & ~one_of(image.state, COMPLETE) | nobody,
        mine.implies(waits | later),
        another.implies(unheard & is_prepared(image).implies(its)),
    )
    return (), conjunction(facts)


def told_is_decided(s: InstanceState) -> Formula:
    """What the application was told is committed was decided so."""
    told = (present(s) >= T) & outcome(s, T).eq(Outcome.COMMITTED)
    return (T,), (told & is_started(s, T)).implies(marked(s, T).eq(1))


# What follows


def told_is_visible(s: InstanceState) -> Formula:
    """A record of the instance becomes visible, wherever it stands, if and only if its transaction
    was decided to commit, which its application asked for; it is so once that was told."""
    stored, marker = log(s, I), log(s, s.ended(I))
    t = stored.transaction
    asked = outcome(s, t)
    ended = in_log(s, I) & is_own_record(s, stored) & ~s.ended(I).eq(NONE)
    visible = marker.kind.eq(Kind.COMMIT)
    facts = (
        visible.eq(marked(s, t).eq(1)),
        visible.implies(one_of(asked, (Outcome.COMMIT_ASKED, Outcome.COMMITTED))),
        asked.eq(Outcome.COMMITTED).implies(visible),
    )
    return (I,), ended.implies(conjunction(facts))


def told_is_whole(s: InstanceState) -> Formula:
    """Once a commit was told, each record that was sent here is in the log, and was decided to be
    visible; so it is with each partition, at its own time."""
    sent = (N >= 0) & (sent_here(s, T) > N)
    told = (present(s) >= T) & outcome(s, T).eq(Outcome.COMMITTED)
    there_is = holds(s, T, N) & marked(s, T).eq(1)
    return (T, N), (told & sent).implies(there_is)


def stored_once(s: InstanceState) -> Formula:
    """No record of the instance stands twice in the log here; the group's offsets may."""
    a, b = log(s, I), log(s, J)
    both = in_log(s, I) & in_log(s, J) & is_own_record(s, a) & is_own_record(s, b)
    same = a.transaction.eq(b.transaction) & a.number.eq(b.number)
    here = ~is_of_group()
    return (I, J), (here & both & same).implies(I.eq(J))
