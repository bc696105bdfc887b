"""What holds of every coordinator: epochs that never go back, decisions that stay, older instances
that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from model.transactions.coordinator import TransactionState as Txn
from proofs.lift import dag
from proofs.lift.dag import Node, conjunction, disjunction, ite, leaf
from proofs.lift.values import Scalars
from proofs.prove.composition import Worlds
from proofs.prove.smt import Formula, ProofObligation, obligation
from proofs.prove.transactions.state import (
    ANEW,
    NONE,
    PARTITIONS,
    PRODUCER_IDS,
    Image,
    TransactionsState,
    is_before,
)
from proofs.prove.transactions.steps import Transactions
from proofs.prove.unknowns import bound, number, truth

P, E, OUTCOME, TERM, PLACE = (bound(n) for n in ("p", "e", "outcome", "term", "place"))
EPOCHS_END = truth("epochs_end")
MAX_EPOCH = number("max_epoch")
EXHAUSTED = number("exhausted_epoch")
IMAGES = ("known", "log", "image")
PREPARED = (Txn.PREPARE_COMMIT, Txn.PREPARE_ABORT)
COMPLETE = (Txn.COMPLETE_COMMIT, Txn.COMPLETE_ABORT)

RULES = {
    ("Variant", name): leaf(name, low, high)
    for name, low, high in (
        ("level", 0, 2),
        ("requests", 1, 2),
        ("verification", 0, 1),
        ("marker_epoch", 0, 2),
        ("first_sequence", 0, 1),
        ("fence", 0, 1),
        ("pending", 0, 1),
        ("rotation", 0, 1),
        ("id_memory", 0, 1),
        ("older_epoch", 0, 1),
        ("ongoing", 0, 1),
        ("previous_id", 0, 1),
    )
}
"""The rules of releases: any of them."""

SIZES = {
    ("Bounds", "partitions"): PARTITIONS,
    ("Bounds", "producer_ids"): PRODUCER_IDS,
    ("Bounds", "appends"): truth("appends"),
    ("Bounds", "offsets"): truth("offsets"),
    ("Bounds", "last_partition"): number("last_partition"),
    ("Bounds", "epochs_end"): EPOCHS_END,
    ("Bounds", "max_epoch"): MAX_EPOCH,
    ("Bounds", "exhausted_epoch"): EXHAUSTED,
}
"""What is any number, and whether appends take time, epochs end, a partition is the group's."""


def without(*names: str) -> dict[tuple[str, str], Node]:
    """What is unknown but for some rules, which are the variant's."""
    return {key: node for key, node in (RULES | SIZES).items() if key[1] not in names}


def is_prepared(image: Scalars) -> Node:
    """PREPARE, of either outcome."""
    return image.state.eq(Txn.PREPARE_COMMIT) | image.state.eq(Txn.PREPARE_ABORT)


def is_ongoing(image: Scalars) -> Node:
    """A transaction is open."""
    return image.state.eq(Txn.ONGOING)


def is_complete(image: Scalars) -> Node:
    """CompleteCommit or CompleteAbort."""
    return image.state.eq(Txn.COMPLETE_COMMIT) | image.state.eq(Txn.COMPLETE_ABORT)


def counts(s: TransactionsState, which: str) -> Node:
    """Whether an image means something: what is on its way does so only while it is."""
    return s.coordinator.is_appending if which == "image" else dag.TRUE


def some(producer_id: Node) -> Node:
    """It is one."""
    return ~producer_id.eq(NONE)


def images(
    s: TransactionsState, says: Callable[[Image], Node], of: tuple[str, ...] = IMAGES
) -> Node:
    """What is so of all that is known, in the log, or on its way there."""
    return conjunction(counts(s, which).implies(says(s.known(which))) for which in of)


# Numbers


def epochs_are_many() -> Formula:
    """Where epochs end, there is one before the last that a client may use."""
    few = EXHAUSTED.eq(MAX_EPOCH - 1) & (EXHAUSTED > 0)
    return (), EPOCHS_END.implies(few)


def is_unborn(image: Scalars) -> Node:
    """The id has a producer id in memory, and nobody has had an epoch yet."""
    return image.state.eq(Txn.EMPTY) & image.producer_epoch.eq(NONE)


def is_nameless(image: Scalars) -> Node:
    """Nobody has had an epoch, and nothing was before."""
    absent = image.state.eq(Txn.EMPTY) | image.state.eq(Txn.ABSENT)
    names = ("producer_epoch", "last_producer_epoch", "previous_producer_id", "next_producer_id")
    return conjunction((absent, *(getattr(image, name).eq(NONE) for name in names)))


def is_unlogged(s: TransactionsState, image: Scalars) -> Node:
    """Nothing of the id is there yet, and its producer id is in memory only."""
    return is_unborn(s.known("known")) & image.state.eq(Txn.ABSENT)


def ids_are_counted(s: TransactionsState) -> Formula:
    """Every producer id was counted when it was taken; an id that is forgotten has none."""
    count: Node = s.coordinator.given_producer_ids

    def sound(image: Scalars) -> Node:
        nobody = image.state.eq(Txn.ABSENT)
        return (
            (image.producer_id >= NONE)
            & (image.producer_id < count)
            & nobody.eq(image.producer_id.eq(NONE))
            & (is_nameless(image) | (image.producer_epoch >= 0))
            & nobody.implies(is_nameless(image))
            & (image.producer_epoch >= NONE)
            & EPOCHS_END.implies(image.producer_epoch <= MAX_EPOCH)
            & (image.next_producer_id >= NONE)
            & (image.next_producer_id < count)
            & some(image.next_producer_id).implies(is_prepared(image))
            & some(image.next_producer_id).implies(image.producer_id < image.next_producer_id)
        )

    return (), (count >= 0) & images(s, sound)


def log_is_ahead(s: TransactionsState) -> Formula:
    """What is in the log, or on its way there, is not older than what is known; but where a fence
    has failed, its epoch is in memory."""
    known, failed = s.known("known"), s.coordinator.unlogged_fence
    is_ongoing = known.state.eq(Txn.ONGOING)

    def ahead(image: Scalars) -> Node:
        same = image.producer_id.eq(known.producer_id)
        coming = image.next_producer_id
        told = (known.producer_id < coming) | coming.eq(known.next_producer_id)
        facts = (
            known.producer_id <= image.producer_id,
            is_ongoing | same.implies(not_before(known, image)),
            some(coming).implies(known.producer_id < coming),
            some(coming).implies(told),
        )
        return is_unlogged(s, image) | conjunction(facts)

    image = s.known("image")
    same = image.producer_id.eq(known.producer_id)
    moves = failed | ~image.producer_epoch.eq(known.producer_epoch)
    fences = image.last_producer_epoch.eq(NONE) & moves
    aborts = fences.implies(known.state.eq(Txn.ONGOING))
    prepared = same.implies(not_before(known, image)) & is_prepared(image).implies(same & aborts)
    goes_on = same & (image.state.eq(Txn.ONGOING) | is_prepared(image))
    ongoing = known.state.eq(Txn.ONGOING) & counts(s, "image").implies(goes_on)
    ongoing = failed.implies(ongoing)
    nobody = s.known("log").state.eq(Txn.ABSENT) & ~counts(s, "image")
    parts = (
        images(s, ahead, ("log", "image")),
        counts(s, "image").implies(prepared),
        ongoing,
        known.state.eq(Txn.ABSENT).implies(nobody),
    )
    return (), conjunction(parts)


def not_before(a: Scalars, b: Scalars) -> Node:
    """The epoch of a is not after that of b."""
    return a.producer_epoch <= b.producer_epoch


def appends_take_time(s: TransactionsState) -> Formula:
    """Only where appends take time is one on its way; where none is, nobody waits; and behind what
    is prepared only its completion is, once all markers are there."""
    c, known, image = s.coordinator, s.known("known"), s.known("image")
    busy = c.is_appending
    completes = busy & is_prepared(known)
    finished = disjunction(image.state.eq(state) for state in COMPLETE)
    there = known.partitions.at(PLACE)
    return (PLACE,), (
        busy.implies(SIZES["Bounds", "appends"])
        & (busy | s.awaited.eq(0) & ~is_answer(s))
        & (s.awaited >= 0)
        & completes.implies(finished & s.awaited.eq(0))
        & (completes & inside(PLACE)).implies(~there)
    )


def is_answer(s: TransactionsState) -> Node:
    """The answer that waits for an append tells a producer id."""
    answer: Scalars = s.coordinator.answer
    return answer.error.eq(0) & some(answer.producer_id)


def inside(place: Node) -> Node:
    """It is a partition."""
    return (place >= 0) & (place < PARTITIONS)


# Epochs


def given_is_past(s: TransactionsState) -> Formula:
    """A pair that was told is not ahead of what is known; of the next producer id, only the first
    epoch may have been told."""
    count: Node = s.coordinator.given_producer_ids

    def past(image: Scalars) -> Node:
        mine, coming = P.eq(image.producer_id), P.eq(image.next_producer_id)
        return mine.implies(image.producer_epoch >= E) & coming.implies(E <= 0)

    numbers = (P >= 0) & (count > P)
    return (P, E), s.given(P, E).implies(numbers & images(s, past))


def what_is_awaited_is_new(s: TransactionsState) -> Formula:
    """Who waits for a new pair waits for the one on its way to the log, which nobody was told; who
    waits for one at all, for that one."""
    c = s.coordinator
    answer, image = c.answer, s.known("image")
    told = (answer.producer_id, answer.producer_epoch)
    this = told[0].eq(image.producer_id) & told[1].eq(image.producer_epoch)
    waits = c.is_appending & (s.awaited > 0)
    anew = s.awaited.eq(ANEW)
    return (), waits.implies(this & anew.implies(~s.given(*told)))


def answers_are_of_images(s: TransactionsState) -> Formula:
    """What an answer will tell is what the image makes known, or the next producer id's first."""
    c = s.coordinator
    answer, image = c.answer, s.known("image")
    told = (answer.producer_id, answer.producer_epoch)
    good = is_answer(s)
    this = told[0].eq(image.producer_id) & told[1].eq(image.producer_epoch)
    after = told[0].eq(image.next_producer_id) & told[1].eq(0)
    return (), (c.is_appending & good).implies(this | after)


def epochs_unique(s: TransactionsState) -> Formula:
    """InitProducerId tells a pair that nobody was told before; but for whoever shows the pair
    before the present one: it may hear the present one again."""
    return (), ~s.repeated


def reign_is_past(s: TransactionsState) -> Formula:
    """What InitProducerId told last is not ahead of what is known, or the id is forgotten."""
    reign = (s.reign_id, s.reign_epoch)

    def past(image: Scalars) -> Node:
        known = (image.producer_id, image.producer_epoch)
        return image.state.eq(Txn.ABSENT) | ~is_before(known, reign)

    count: Node = s.coordinator.given_producer_ids
    return (), (s.reign_id < count) & images(s, past)


def epochs_never_go_back(s: TransactionsState) -> Formula:
    """What InitProducerId tells is never before what it told before."""
    return (), ~s.went_back


def fenced_change_nothing(s: TransactionsState) -> Formula:
    """After InitProducerId has told a pair, no EndTxn and no AddPartitionsToTxn of an older pair
    changes what the coordinator knows, or logs."""
    return (), ~s.disturbed


# Decisions


def ids_are_remembered(s: TransactionsState) -> Formula:
    """Where epochs end, whoever comes to the last takes the next producer id, and the log has
    it."""

    def rests(image: Scalars) -> Node:
        last = image.producer_epoch >= MAX_EPOCH
        return last.implies(some(image.next_producer_id))

    return (), EPOCHS_END.implies(images(s, rests))


def epochs_rotate() -> Formula:
    """Where epochs end, everyone takes the next producer id, and it is logged."""
    rules = [
        RULES["Variant", "rotation"].eq(0),
        RULES["Variant", "id_memory"].eq(0),
        RULES["Variant", "level"].eq(2),
    ]
    return (), EPOCHS_END.implies(conjunction(rules))


def prepare_is_next(s: TransactionsState) -> Formula:
    """What is prepared on its way to the log, or there and not known, has the epoch after the
    present one, or after that of a failed fence the same; only what is open commits."""
    known = s.known("known")

    def follows(image: Scalars) -> Node:
        after = image.producer_epoch.eq(known.producer_epoch + 1)
        stays = s.coordinator.unlogged_fence & not_before(known, image)
        same = image.producer_id.eq(known.producer_id)
        begins = (same, after | stays, ~is_prepared(known))
        commits = image.state.eq(Txn.PREPARE_COMMIT).implies(known.state.eq(Txn.ONGOING))
        return is_prepared(image).implies(conjunction((*begins, commits)))

    logged = is_same(s.known("log"), known) | images(s, follows, ("log",))
    return (), images(s, follows, ("image",)) & logged


def is_same(a: Scalars, b: Scalars) -> Node:
    """Two images are of one state and one pair."""
    return (
        a.state.eq(b.state)
        & a.producer_id.eq(b.producer_id)
        & a.producer_epoch.eq(b.producer_epoch)
    )


def decided_is_past(s: TransactionsState) -> Formula:
    """No pair ahead of the present one is decided; nor is that of a failed fence."""
    decided = ~s.decision(P, E).eq(NONE)
    count: Node = s.coordinator.given_producer_ids

    def past(image: Scalars) -> Node:
        mine, coming = P.eq(image.producer_id), P.eq(image.next_producer_id)
        return mine.implies(image.producer_epoch >= E) & ~coming

    known = s.known("known")
    undecided = (s.coordinator.unlogged_fence & P.eq(known.producer_id)).implies(
        known.producer_epoch > E
    )
    numbers = (P >= 0) & (count > P) & undecided
    return (P, E), decided.implies(numbers & images(s, past))


def prepared_is_decided(s: TransactionsState) -> Formula:
    """What is prepared says what was decided."""
    known = s.known("known")
    outcome = ite(known.state.eq(Txn.PREPARE_COMMIT), 1, 0)
    decided = s.decision(known.producer_id, known.producer_epoch).eq(outcome)
    return (), is_prepared(known).implies(decided)


def markers_say_decisions(s: TransactionsState) -> Formula:
    """Every marker that was ever sent says what its pair was decided."""
    sent = s.sent(P, E, OUTCOME, TERM)
    return (P, E, OUTCOME, TERM), sent.implies(s.decision(P, E).eq(OUTCOME))


def outcomes_are_outcomes(s: TransactionsState) -> Formula:
    """A marker commits or aborts, and has an epoch."""
    sent = s.sent(P, E, OUTCOME, TERM)
    outcome = (OUTCOME >= 0) & (OUTCOME <= 1)
    valid = outcome & (E >= 0)
    return (P, E, OUTCOME, TERM), sent.implies(valid)


def one_outcome(s: TransactionsState) -> Formula:
    """PREPARE is never known with another outcome than its pair has."""
    return (), ~s.contradicted


def last_epoch(worlds: Worlds) -> Iterator[ProofObligation]:
    """The guarantee as its text says it: no transaction is open under the last epoch."""
    assert isinstance(worlds, Transactions)
    s, evaluator = worlds.before, worlds.evaluator()
    world = worlds.world.changed(coordinator=s.coordinator)
    guarantee = worlds.model.guarantees.last_epoch_is_nobodys
    kept = evaluator.call(guarantee, [worlds.k, world])
    known = [ids_are_counted(s), ids_are_remembered(s)]
    yield obligation("transactions/always/last_epoch_is_nobodys", known, ((), kept))


COORDINATOR_STEPS = (
    "init",
    "add",
    "end",
    "time_out",
    "forget",
    "append_succeeds",
    "append_fails",
    "append_seems_to_fail",
    "take_over",
    "take_over_with_append",
    "requester_leaves",
    "marker_is_answered",
    "marker_is_written",
)
