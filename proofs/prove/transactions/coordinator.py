"""What holds of every coordinator: epochs that never go back, decisions that stay, older instances
that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from proofs.lift import dag
from proofs.lift.dag import ZERO, Node, const
from proofs.lift.values import Rec
from proofs.prove.clauses import Formula, implies
from proofs.prove.smt import Obligation, obligation
from proofs.prove.transactions.state import (
    ANEW,
    NONE,
    PARTITIONS,
    PRODUCER_IDS,
    State,
    is_before,
)
from proofs.prove.transactions.steps import Transactions
from proofs.prove.unknowns import number, truth
from proofs.prove.worlds import WorldClause, Worlds

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, ABSENT = (const(i) for i in (0, 1, 2, 3, 6))
COMPLETE = (const(4), const(5))
P, E, OUTCOME, TERM, PLACE = (number(n) for n in ("p", "e", "outcome", "term", "place"))
EPOCHS_END = truth("epochs_end")
MAX_EPOCH = number("max_epoch")
EXHAUSTED = number("exhausted_epoch")
IMAGES = ("known", "log", "image")

RULES = {
    ("Variant", name): dag.leaf(name, low, high)
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


def clause(formula: Callable[..., Formula], *uses: str) -> WorldClause:
    """A clause named and described as its function is."""
    says = " ".join((formula.__doc__ or "").split())
    return WorldClause(formula.__name__, says, formula, frozenset(uses))


def also(of: WorldClause, *uses: str) -> WorldClause:
    """The same clause, where it stands on more."""
    return replace(of, uses=of.uses.union(uses))


def follows(formula: Callable[..., Formula], *uses: str) -> WorldClause:
    """A clause that needs no induction: others imply it."""
    return replace(clause(formula, *uses), follows=True)


def is_prepared(image: dict[str, Any]) -> Node:
    """PREPARE, of either outcome."""
    return dag.either(dag.eq(image["state"], PREPARE_COMMIT), dag.eq(image["state"], PREPARE_ABORT))


def counts(s: State, which: str) -> Node:
    """Whether an image means something: what is on its way does so only while it is."""
    return s.coordinator.fields["is_appending"] if which == "image" else dag.TRUE


def some(producer_id: Node) -> Node:
    """It is one."""
    return dag.negate(dag.eq(producer_id, NONE))


def images(s: State, says: Callable[[dict[str, Any]], Node], of: tuple[str, ...] = IMAGES) -> Node:
    """What is so of all that is known, in the log, or on its way there."""
    return dag.conjunction(implies(counts(s, which), says(s.known(which))) for which in of)


# Numbers


def epochs_are_many() -> Formula:
    """Where epochs end, there is one before the last that a client may use."""
    few = dag.both(dag.eq(EXHAUSTED, dag.sub(MAX_EPOCH, const(1))), dag.lt(ZERO, EXHAUSTED))
    return (), implies(EPOCHS_END, few)


def is_unborn(image: dict[str, Any]) -> Node:
    """The id has a producer id in memory, and nobody has had an epoch yet."""
    return dag.both(dag.eq(image["state"], EMPTY), dag.eq(image["producer_epoch"], NONE))


def is_nameless(image: dict[str, Any]) -> Node:
    """Nobody has had an epoch, and nothing was before."""
    absent = dag.either(dag.eq(image["state"], EMPTY), dag.eq(image["state"], ABSENT))
    names = ("producer_epoch", "last_producer_epoch", "previous_producer_id", "next_producer_id")
    return dag.conjunction((absent, *(dag.eq(image[name], NONE) for name in names)))


def is_unlogged(s: State, image: dict[str, Any]) -> Node:
    """Nothing of the id is there yet, and its producer id is in memory only."""
    return dag.both(is_unborn(s.known("known")), dag.eq(image["state"], ABSENT))


def ids_are_counted(s: State) -> Formula:
    """Every producer id was counted when it was taken; an id that is forgotten has none."""
    count = s.coordinator.fields["given_producer_ids"]

    def sound(image: dict[str, Any]) -> Node:
        nobody = dag.eq(image["state"], ABSENT)
        return dag.conjunction(
            (
                dag.le(NONE, image["producer_id"]),
                dag.lt(image["producer_id"], count),
                dag.eq(nobody, dag.eq(image["producer_id"], NONE)),
                dag.either(is_nameless(image), dag.le(ZERO, image["producer_epoch"])),
                implies(nobody, is_nameless(image)),
                dag.le(NONE, image["producer_epoch"]),
                implies(EPOCHS_END, dag.le(image["producer_epoch"], MAX_EPOCH)),
                dag.le(NONE, image["next_producer_id"]),
                dag.lt(image["next_producer_id"], count),
                implies(some(image["next_producer_id"]), is_prepared(image)),
                implies(
                    some(image["next_producer_id"]),
                    dag.lt(image["producer_id"], image["next_producer_id"]),
                ),
            )
        )

    return (), dag.both(dag.le(ZERO, count), images(s, sound))


def log_is_ahead(s: State) -> Formula:
    """What is in the log, or on its way there, is not older than what is known; but where a fence
    has failed, its epoch is in memory."""
    known, failed = s.known("known"), s.coordinator.fields["unlogged_fence"]
    is_ongoing = dag.eq(known["state"], ONGOING)

    def ahead(image: dict[str, Any]) -> Node:
        same = dag.eq(image["producer_id"], known["producer_id"])
        coming = image["next_producer_id"]
        told = dag.either(
            dag.lt(known["producer_id"], coming), dag.eq(coming, known["next_producer_id"])
        )
        facts = (
            dag.le(known["producer_id"], image["producer_id"]),
            dag.either(is_ongoing, implies(same, not_before(known, image))),
            implies(some(coming), dag.lt(known["producer_id"], coming)),
            implies(some(coming), told),
        )
        return dag.either(is_unlogged(s, image), dag.conjunction(facts))

    image = s.known("image")
    same = dag.eq(image["producer_id"], known["producer_id"])
    moves = dag.either(failed, dag.negate(dag.eq(image["producer_epoch"], known["producer_epoch"])))
    fences = dag.both(dag.eq(image["last_producer_epoch"], NONE), moves)
    aborts = implies(fences, dag.eq(known["state"], ONGOING))
    prepared = dag.both(
        implies(same, not_before(known, image)),
        implies(is_prepared(image), dag.both(same, aborts)),
    )
    goes_on = dag.both(same, dag.either(dag.eq(image["state"], ONGOING), is_prepared(image)))
    ongoing = dag.both(dag.eq(known["state"], ONGOING), implies(counts(s, "image"), goes_on))
    ongoing = implies(failed, ongoing)
    nobody = dag.both(dag.eq(s.known("log")["state"], ABSENT), dag.negate(counts(s, "image")))
    parts = (
        images(s, ahead, ("log", "image")),
        implies(counts(s, "image"), prepared),
        ongoing,
        implies(dag.eq(known["state"], ABSENT), nobody),
    )
    return (), dag.conjunction(parts)


def not_before(a: dict[str, Any], b: dict[str, Any]) -> Node:
    """The epoch of a is not after that of b."""
    return dag.le(a["producer_epoch"], b["producer_epoch"])


def appends_take_time(s: State) -> Formula:
    """Only where appends take time is one on its way; where none is, nobody waits; and behind what
    is prepared only its completion is, once all markers are there."""
    c, known, image = s.coordinator.fields, s.known("known"), s.known("image")
    busy = c["is_appending"]
    completes = dag.both(busy, is_prepared(known))
    finished = dag.disjunction(dag.eq(image["state"], state) for state in COMPLETE)
    there = known["partitions"].at(PLACE)
    return (PLACE,), dag.conjunction(
        (
            implies(busy, SIZES["Bounds", "appends"]),
            dag.either(busy, dag.both(dag.eq(s.awaited, ZERO), dag.negate(is_answer(s)))),
            dag.le(ZERO, s.awaited),
            implies(completes, dag.both(finished, dag.eq(s.awaited, ZERO))),
            implies(dag.both(completes, inside(PLACE)), dag.negate(there)),
        )
    )


def is_answer(s: State) -> Node:
    """The answer that waits for an append tells a producer id."""
    answer = s.coordinator.fields["answer"].fields
    return dag.both(dag.eq(answer["error"], ZERO), some(answer["producer_id"]))


def inside(place: Node) -> Node:
    """It is a partition."""
    return dag.both(dag.le(ZERO, place), dag.lt(place, PARTITIONS))


# Epochs


def given_is_past(s: State) -> Formula:
    """A pair that was told is not ahead of what is known; of the next producer id, only the first
    epoch may have been told."""
    count = s.coordinator.fields["given_producer_ids"]

    def past(image: dict[str, Any]) -> Node:
        mine, coming = dag.eq(P, image["producer_id"]), dag.eq(P, image["next_producer_id"])
        return dag.both(
            implies(mine, dag.le(E, image["producer_epoch"])), implies(coming, dag.le(E, ZERO))
        )

    numbers = dag.both(dag.le(ZERO, P), dag.lt(P, count))
    return (P, E), implies(s.given(P, E), dag.both(numbers, images(s, past)))


def what_is_awaited_is_new(s: State) -> Formula:
    """Who waits for a new pair waits for the one on its way to the log, which nobody was told; who
    waits for one at all, for that one."""
    c = s.coordinator.fields
    answer, image = c["answer"].fields, s.known("image")
    told = (answer["producer_id"], answer["producer_epoch"])
    this = dag.both(dag.eq(told[0], image["producer_id"]), dag.eq(told[1], image["producer_epoch"]))
    waits = dag.both(c["is_appending"], dag.lt(ZERO, s.awaited))
    anew = dag.eq(s.awaited, ANEW)
    return (), implies(waits, dag.both(this, implies(anew, dag.negate(s.given(*told)))))


def answers_are_of_images(s: State) -> Formula:
    """What an answer will tell is what the image makes known, or the next producer id's first."""
    c = s.coordinator.fields
    answer, image = c["answer"].fields, s.known("image")
    told = (answer["producer_id"], answer["producer_epoch"])
    good = is_answer(s)
    this = dag.both(dag.eq(told[0], image["producer_id"]), dag.eq(told[1], image["producer_epoch"]))
    after = dag.both(dag.eq(told[0], image["next_producer_id"]), dag.eq(told[1], ZERO))
    return (), implies(dag.both(c["is_appending"], good), dag.either(this, after))


def epochs_unique(s: State) -> Formula:
    """InitProducerId tells a pair that nobody was told before; but for whoever shows the pair
    before the present one: it may hear the present one again."""
    return (), dag.negate(s.repeated)


def reign_is_past(s: State) -> Formula:
    """What InitProducerId told last is not ahead of what is known, or the id is forgotten."""
    reign = (s.reign_id, s.reign_epoch)

    def past(image: dict[str, Any]) -> Node:
        known = (image["producer_id"], image["producer_epoch"])
        return dag.either(dag.eq(image["state"], ABSENT), dag.negate(is_before(known, reign)))

    count = s.coordinator.fields["given_producer_ids"]
    return (), dag.both(dag.lt(s.reign_id, count), images(s, past))


def epochs_never_go_back(s: State) -> Formula:
    """What InitProducerId tells is never before what it told before."""
    return (), dag.negate(s.went_back)


def fenced_change_nothing(s: State) -> Formula:
    """After InitProducerId has told a pair, no EndTxn and no AddPartitionsToTxn of an older pair
    changes what the coordinator knows, or logs."""
    return (), dag.negate(s.disturbed)


# Decisions


def ids_are_remembered(s: State) -> Formula:
    """Where epochs end, whoever comes to the last takes the next producer id, and the log has
    it."""

    def rests(image: dict[str, Any]) -> Node:
        last = dag.le(MAX_EPOCH, image["producer_epoch"])
        return implies(last, some(image["next_producer_id"]))

    return (), implies(EPOCHS_END, images(s, rests))


def epochs_rotate() -> Formula:
    """Where epochs end, everyone takes the next producer id, and it is logged."""
    rules = [
        dag.eq(RULES["Variant", "rotation"], ZERO),
        dag.eq(RULES["Variant", "id_memory"], ZERO),
        dag.eq(RULES["Variant", "level"], const(2)),
    ]
    return (), implies(EPOCHS_END, dag.conjunction(rules))


def prepare_is_next(s: State) -> Formula:
    """What is prepared on its way to the log, or there and not known, has the epoch after the
    present one, or after that of a failed fence the same; only what is open commits."""
    known = s.known("known")

    def follows(image: dict[str, Any]) -> Node:
        after = dag.eq(image["producer_epoch"], dag.add(known["producer_epoch"], const(1)))
        stays = dag.both(s.coordinator.fields["unlogged_fence"], not_before(known, image))
        same = dag.eq(image["producer_id"], known["producer_id"])
        begins = (same, dag.either(after, stays), dag.negate(is_prepared(known)))
        commits = implies(dag.eq(image["state"], PREPARE_COMMIT), dag.eq(known["state"], ONGOING))
        return implies(is_prepared(image), dag.conjunction((*begins, commits)))

    logged = dag.either(is_same(s.known("log"), known), images(s, follows, ("log",)))
    return (), dag.both(images(s, follows, ("image",)), logged)


def is_same(a: dict[str, Any], b: dict[str, Any]) -> Node:
    """Two images are of one state and one pair."""
    return dag.conjunction(dag.eq(a[f], b[f]) for f in ("state", "producer_id", "producer_epoch"))


def decided_is_past(s: State) -> Formula:
    """No pair ahead of the present one is decided; nor is that of a failed fence."""
    decided = dag.negate(dag.eq(s.decision(P, E), NONE))
    count = s.coordinator.fields["given_producer_ids"]

    def past(image: dict[str, Any]) -> Node:
        mine, coming = dag.eq(P, image["producer_id"]), dag.eq(P, image["next_producer_id"])
        return dag.both(implies(mine, dag.le(E, image["producer_epoch"])), dag.negate(coming))

    known = s.known("known")
    undecided = implies(
        dag.both(s.coordinator.fields["unlogged_fence"], dag.eq(P, known["producer_id"])),
        dag.lt(E, known["producer_epoch"]),
    )
    numbers = dag.conjunction((dag.le(ZERO, P), dag.lt(P, count), undecided))
    return (P, E), implies(decided, dag.both(numbers, images(s, past)))


def prepared_is_decided(s: State) -> Formula:
    """What is prepared says what was decided."""
    known = s.known("known")
    outcome = dag.ite(dag.eq(known["state"], PREPARE_COMMIT), const(1), ZERO)
    decided = dag.eq(s.decision(known["producer_id"], known["producer_epoch"]), outcome)
    return (), implies(is_prepared(known), decided)


def markers_say_decisions(s: State) -> Formula:
    """Every marker that was ever sent says what its pair was decided."""
    sent = s.sent(P, E, OUTCOME, TERM)
    return (P, E, OUTCOME, TERM), implies(sent, dag.eq(s.decision(P, E), OUTCOME))


def outcomes_are_outcomes(s: State) -> Formula:
    """A marker commits or aborts, and has an epoch."""
    sent = s.sent(P, E, OUTCOME, TERM)
    outcome = dag.both(dag.le(ZERO, OUTCOME), dag.le(OUTCOME, const(1)))
    valid = dag.both(outcome, dag.le(ZERO, E))
    return (P, E, OUTCOME, TERM), implies(sent, valid)


def one_outcome(s: State) -> Formula:
    """PREPARE is never known with another outcome than its pair has."""
    return (), dag.negate(s.contradicted)


def last_epoch(worlds: Worlds) -> Iterator[Obligation]:
    """The guarantee as its text says it: no transaction is open under the last epoch."""
    assert isinstance(worlds, Transactions)
    s, evaluator = worlds.before, worlds.evaluator()
    world = Rec(worlds.world.cls, {**worlds.world.fields, "coordinator": s.coordinator})
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
