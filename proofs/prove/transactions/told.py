"""What became of an instance's records: where they stand, what was decided of them, and that this
is what the instance was told and what readers see."""

from __future__ import annotations

from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node
from proofs.prove.clauses import Formula, implies
from proofs.prove.transactions.client import (
    ABORTING,
    COMMIT_ASKED,
    COMMITTED,
    COMMITTING,
    CONCURRENT,
    IN_TRANSACTION,
    INITIALIZING,
    NOTHING,
    ONE,
    READY,
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
    PREPARE_COMMIT,
    P,
    images,
    is_answer,
    is_prepared,
    some,
)
from proofs.prove.transactions.instances import ME, Instance, T, is_of_group, its_pair, present
from proofs.prove.transactions.partition import COMMIT, I, J, entry, in_log, is_data, log
from proofs.prove.transactions.state import HERE, NONE, State, both_are

# What is in the log


def is_mine(s: Instance, stored: dict[str, Node]) -> Node:
    """A record of the instance."""
    return dag.both(is_data(stored), dag.eq(stored["instance"], ME))


def log_says_who(s: Instance) -> Formula:
    """A record of the instance has its transaction's pair, and its number for its sequence; no
    other record has a pair of the instance."""
    stored = log(s, I)
    pair = (stored["producer_id"], stored["producer_epoch"])
    t = stored["transaction"]
    numbered = dag.eq(stored["sequence"], dag.ite(is_of_group(), ZERO, stored["number"]))
    mine = dag.conjunction(
        (
            is_started(s, t),
            both_are(its_pair(s, t), pair),
            dag.le(ZERO, stored["number"]),
            dag.lt(stored["number"], sent_here(s, t)),
            dag.le(t, present(s)),
            numbered,
        )
    )
    there_is = dag.both(in_log(s, I), is_data(stored))
    owned = dag.ite(is_mine(s, stored), mine, s.theirs(*pair))
    return (I,), implies(there_is, owned)


def holds(s: Instance, transaction: Node, record: Node) -> Node:
    """A record of a transaction is in the log here."""
    at = s.held_at(transaction, record)
    stored = log(s, at)
    return dag.conjunction(
        (
            in_log(s, at),
            is_mine(s, stored),
            dag.eq(stored["transaction"], transaction),
            dag.eq(stored["number"], record),
        )
    )


def held_is_there(s: Instance) -> Formula:
    """Of each record of the instance in the log it is known where one stands."""
    stored = log(s, I)
    mine = dag.both(in_log(s, I), is_mine(s, stored))
    return (I,), implies(mine, holds(s, stored["transaction"], stored["number"]))


def sequences_rise(s: State) -> Formula:
    """Of each epoch no sequence stands twice in the log: they rise. The group's offsets have
    none."""
    a, b = log(s, I), log(s, J)
    records = dag.conjunction((in_log(s, I), in_log(s, J), is_data(a), is_data(b), dag.lt(I, J)))
    same = dag.both(
        dag.eq(a["producer_id"], b["producer_id"]),
        dag.eq(a["producer_epoch"], b["producer_epoch"]),
    )
    known = entry(s, a["producer_id"])
    latest = dag.conjunction(
        (in_log(s, I), is_data(a), dag.eq(a["producer_epoch"], known["producer_epoch"]))
    )
    facts = dag.both(
        implies(records, same, dag.lt(a["sequence"], b["sequence"])),
        implies(latest, dag.le(a["sequence"], known["last_sequence"])),
    )
    return (I, J), implies(dag.negate(is_of_group()), facts)


def remembered_is_stored(s: Instance) -> Formula:
    """Each batch that a leader remembers is in its log."""
    known = entry(s, P)
    at = s.placed(P, known["producer_epoch"], SEQUENCE)
    stored = log(s, at)
    remembered = dag.conjunction(
        (
            dag.lt(dag.sub(known["last_sequence"], known["remembered"]), SEQUENCE),
            dag.le(SEQUENCE, known["last_sequence"]),
            dag.negate(is_of_group()),
        )
    )
    found = dag.conjunction(
        (
            in_log(s, at),
            is_data(stored),
            dag.eq(stored["producer_id"], P),
            dag.eq(stored["producer_epoch"], known["producer_epoch"]),
            dag.eq(stored["sequence"], SEQUENCE),
        )
    )
    return (P, SEQUENCE), implies(remembered, found)


def remembers(s: Instance, sequence: Node) -> Node:
    """Whether the leader remembers a batch of the instance's own pair and of this sequence."""
    known = entry(s, own_pair(s)[0])
    return dag.conjunction(
        (
            has_begun(s),
            dag.eq(own_pair(s)[1], known["producer_epoch"]),
            dag.le(sequence, known["last_sequence"]),
            dag.lt(dag.sub(known["last_sequence"], sequence), known["remembered"]),
        )
    )


def is_placed(s: Instance, sequence: Node) -> Node:
    """Whether a batch of the instance's own pair and of this sequence is in the log."""
    at = s.placed(*own_pair(s), sequence)
    stored = log(s, at)
    return dag.conjunction(
        (
            in_log(s, at),
            is_data(stored),
            both_are((stored["producer_id"], stored["producer_epoch"]), own_pair(s)),
            dag.eq(stored["sequence"], sequence),
        )
    )


def is_known(s: Instance) -> tuple[Node, Node]:
    """Whether a leader remembers the batch that the instance has for the partition here; and which
    sequence that has."""
    last = dag.sub(there(s, HERE)["written"], ONE)
    of_partition = dag.both(s.client.fields["is_started"], dag.negate(is_of_group()))
    return dag.both(of_partition, remembers(s, last)), last


def known_batch_is_placed(s: Instance) -> Formula:
    """If a leader remembers the batch that the instance has for the partition here, one of its
    sequence is in the log."""
    remembered, last = is_known(s)
    return (), implies(remembered, is_placed(s, last))


def known_batch_is_stored(s: Instance) -> Formula:
    """And it is that batch."""
    remembered, last = is_known(s)
    return (), implies(remembered, holds(s, present(s), last))


def settled_is_stored(s: Instance) -> Formula:
    """Unless something has failed, each record that was sent is in the log, but for the one that
    waits for its answer."""
    at = there(s, HERE)
    works = one_of(state_of(s), (IN_TRANSACTION, COMMITTING))
    last = dag.eq(N, dag.sub(at["written"], ONE))
    settled = dag.either(dag.negate(last), dag.eq(at["write"], NOTHING))
    sent = dag.both(dag.le(ZERO, N), dag.lt(N, at["written"]))
    return (N,), implies(works, sent, settled, holds(s, present(s), N))


def committed_is_stored(s: Instance) -> Formula:
    """What was sent in a transaction whose commit succeeded is in the log."""
    sent = dag.both(dag.le(ZERO, N), dag.lt(N, sent_here(s, T)))
    told = dag.both(dag.le(T, present(s)), dag.eq(outcome(s, T), COMMITTED))
    return (T, N), implies(told, sent, holds(s, T, N))


# What is decided


def marked(s: Instance, transaction: Node) -> Node:
    """What was decided of a transaction: its markers have the epoch after its own."""
    its_id, its_epoch = its_pair(s, transaction)
    return s.decision(its_id, dag.add(its_epoch, ONE))


def commits_are_asked(s: Instance) -> Formula:
    """Only a transaction whose commit the instance has sent is decided so, or is about to be."""
    commits = dag.either(dag.eq(marked(s, T), ONE), commits_soon(s, its_pair(s, T)))
    return (T,), implies(dag.both(is_started(s, T), commits), s.sent_end(T, ONE))


def commits_soon(s: Instance, pair: tuple[Node, Node]) -> Node:
    """A commit of a pair is in the log, or on its way there."""
    ends = (pair[0], dag.add(pair[1], ONE))

    def says(image: dict[str, Any]) -> Node:
        its = both_are((image["producer_id"], image["producer_epoch"]), ends)
        return dag.negate(dag.both(dag.eq(image["state"], PREPARE_COMMIT), its))

    return dag.negate(images(s, says, ("log", "image")))


def unsent_is_undecided(s: Instance) -> Formula:
    """Of a pair under which nothing was sent yet no commit is decided, or about to be."""
    own_id, own_epoch = own_pair(s)
    idle = dag.either(
        dag.eq(state_of(s), READY),
        dag.both(has_begun(s), dag.negate(s.client.fields["is_started"])),
    )
    decided = dag.eq(s.decision(own_id, dag.add(own_epoch, ONE)), ONE)
    commits = dag.either(decided, commits_soon(s, own_pair(s)))
    return (), implies(idle, dag.negate(commits))


def complete_is_decided(s: Instance) -> Formula:
    """What is complete says what was decided: of its pair, or of the last epoch before its id."""

    def said(image: dict[str, Any]) -> Node:
        first = dag.eq(image["producer_epoch"], ZERO)
        decided = s.decision(
            dag.ite(first, image["previous_producer_id"], image["producer_id"]),
            dag.ite(first, MAX_EPOCH, image["producer_epoch"]),
        )
        return implies(dag.eq(image["state"], COMPLETE[0]), dag.eq(decided, ONE))

    return (), images(s, said)


def who_waits(s: Instance) -> Formula:
    """Where an append is the instance's own, it waits for just that: its first pair, the end that
    it has asked for, or to ask again; another waits for the end of its own pair."""
    c, image = s.coordinator.fields, s.known("image")
    answer = c["answer"].fields
    good = dag.eq(answer["error"], ZERO)
    mine = dag.both(c["is_appending"], dag.eq(c["requester"], ME))
    later = dag.both(dag.eq(answer["error"], CONCURRENT), dag.eq(state_of(s), INITIALIZING))
    state = state_of(s)
    begins = dag.eq(state, INITIALIZING)
    own_id, own_epoch = own_pair(s)
    ends = dag.conjunction(
        (
            one_of(state, (COMMITTING, ABORTING)),
            s.client.fields["is_started"],
            s.sent_end(present(s), dag.ite(dag.eq(state, COMMITTING), ONE, ZERO)),
            is_prepared(image),
            dag.eq(dag.eq(image["state"], PREPARE_COMMIT), dag.eq(state, COMMITTING)),
            dag.eq(image["producer_id"], own_id),
            dag.eq(image["producer_epoch"], dag.add(own_epoch, ONE)),
        )
    )
    told = dag.both(some(answer["producer_id"]), dag.le(ZERO, answer["producer_epoch"]))
    unsaid = dag.negate(s.given(answer["producer_id"], answer["producer_epoch"]))
    anew = dag.eq(image["last_producer_epoch"], NONE)
    starts = dag.conjunction((begins, anew, dag.negate(is_prepared(image))))
    waits = dag.conjunction((good, told, unsaid, dag.either(starts, ends)))
    nobody = dag.eq(c["requester"], NONE)
    another = dag.conjunction(
        (c["is_appending"], dag.negate(mine), dag.negate(nobody), is_answer(s))
    )
    its = s.theirs(image["producer_id"], dag.sub(image["producer_epoch"], ONE))
    unheard = dag.negate(s.mine(answer["producer_id"], answer["producer_epoch"]))
    facts = (
        dag.either(
            dag.both(c["is_appending"], dag.negate(one_of(image["state"], COMPLETE))), nobody
        ),
        implies(mine, dag.either(waits, later)),
        implies(another, dag.both(unheard, implies(is_prepared(image), its))),
    )
    return (), dag.conjunction(facts)


def told_is_decided(s: Instance) -> Formula:
    """What the application was told is committed was decided so."""
    told = dag.both(dag.le(T, present(s)), dag.eq(outcome(s, T), COMMITTED))
    return (T,), implies(dag.both(told, is_started(s, T)), dag.eq(marked(s, T), ONE))


# What follows


def told_is_visible(s: Instance) -> Formula:
    """A record of the instance becomes visible, wherever it stands, if and only if its transaction
    was decided to commit, which its application asked for; it is so once that was told."""
    stored, marker = log(s, I), log(s, s.ended(I))
    t = stored["transaction"]
    asked = outcome(s, t)
    ended = dag.conjunction(
        (in_log(s, I), is_mine(s, stored), dag.negate(dag.eq(s.ended(I), NONE)))
    )
    visible = dag.eq(marker["kind"], COMMIT)
    facts = (
        dag.eq(visible, dag.eq(marked(s, t), ONE)),
        implies(visible, one_of(asked, (COMMIT_ASKED, COMMITTED))),
        implies(dag.eq(asked, COMMITTED), visible),
    )
    return (I,), implies(ended, dag.conjunction(facts))


def told_is_whole(s: Instance) -> Formula:
    """Once a commit was told, each record that was sent here is in the log, and was decided to be
    visible; so it is with each partition, at its own time."""
    sent = dag.both(dag.le(ZERO, N), dag.lt(N, sent_here(s, T)))
    told = dag.both(dag.le(T, present(s)), dag.eq(outcome(s, T), COMMITTED))
    there_is = dag.both(holds(s, T, N), dag.eq(marked(s, T), ONE))
    return (T, N), implies(told, sent, there_is)


def stored_once(s: Instance) -> Formula:
    """No record of the instance stands twice in the log here; the group's offsets may."""
    a, b = log(s, I), log(s, J)
    both = dag.conjunction((in_log(s, I), in_log(s, J), is_mine(s, a), is_mine(s, b)))
    same = dag.both(dag.eq(a["transaction"], b["transaction"]), dag.eq(a["number"], b["number"]))
    here = dag.negate(is_of_group())
    return (I, J), implies(dag.conjunction((here, both, same)), dag.eq(I, J))
