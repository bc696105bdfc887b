"""No producer id is given twice, for any number of brokers, of blocks, and of ids in a block.

Theory of operation. The store counts a block when a broker takes it, so no broker holds a block
ahead of the store, and no two brokers hold the same block. A given id belongs to a block that no
broker will begin to use, or its broker has already used the block beyond the id. If a broker finds
in the store the block that it tried to write, under its own name, it may take that block, because
no other broker has it. The form of the store and the moments at which brokers fetch blocks are
unknown: the clauses hold for all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from model.producer_ids.configuration import Configuration
from model.producer_ids.manager import Asking
from model.producer_ids.messages import NO_BLOCK
from model.producer_ids.world import World
from model.releases import NEWEST
from proofs.lift.dag import INFINITE, Node, eq, leaf
from proofs.lift.evaluate import Evaluator
from proofs.lift.values import Rec
from proofs.prove.engine.composition import Composition, Worlds
from proofs.prove.engine.formulas import every
from proofs.prove.engine.induction import axiom, collected, invariant
from proofs.prove.engine.smt import Formula, ProofObligation, obligation
from proofs.prove.engine.unknowns import function, number

BLOCK_SIZE = leaf("block_size", 1, INFINITE)
"""The number of ids in a block: any number."""

TAKEN = ("numbers_are_sound", "blocks_were_taken", "versions_tell_blocks")
OWNED = (*TAKEN, "what_it_finds_is_free")
PLACES = (*OWNED, "blocks_have_one_owner", "ids_have_places")

# Ghosts


def id_at(k: Configuration, block: int, place: int) -> int:
    """The id at a place of a block."""
    return block * k.bounds.block_size + place


def block_of(k: Configuration, given: int) -> int:
    """Ghost: the block of an id."""
    return given // k.bounds.block_size


def used_of(k: Configuration, given: int) -> int:
    """Ghost: the place of an id in its block."""
    return given % k.bounds.block_size


def ids_have_places(k: Configuration, w: World) -> bool:
    """An id determines its block, and its place in the block."""
    return all(
        block_of(k, id_at(k, block, place)) == block and used_of(k, id_at(k, block, place)) == place
        for block in every(k.bounds.blocks)
        for place in range(k.bounds.block_size)
    )


# Clauses


@invariant()
def numbers_are_sound(k: Configuration, w: World) -> bool:
    """Of a block in use no more than all ids are given; -1 is no block."""
    return all(
        w.managers[i].block >= NO_BLOCK
        and w.managers[i].next_block >= NO_BLOCK
        and w.managers[i].tried >= NO_BLOCK
        and w.managers[i].read_block >= NO_BLOCK
        and w.store.block >= NO_BLOCK
        and 0 <= w.managers[i].used <= k.bounds.block_size
        for i in every(k.bounds.brokers)
    )


@invariant(needs=TAKEN)
def blocks_were_taken(k: Configuration, w: World) -> bool:
    """No broker has a block that is ahead of the latest."""
    return all(
        w.managers[i].block <= w.store.block and w.managers[i].next_block <= w.store.block
        for i in every(k.bounds.brokers)
    )


@invariant(needs=OWNED)
def blocks_have_one_owner(k: Configuration, w: World) -> bool:
    """No two brokers have the same block, and none has one twice."""
    return all(
        (w.managers[i].block == NO_BLOCK or w.managers[i].block != w.managers[i].next_block)
        and (i == j or share_no_block(w, i, j))
        for i in every(k.bounds.brokers)
        for j in every(k.bounds.brokers)
    )


def share_no_block(w: World, i: int, j: int) -> bool:
    """Whether no block of one broker belongs to the other."""
    m = w.managers[i]
    n = w.managers[j]
    return (
        (m.block == NO_BLOCK or m.block != n.block)
        and (m.block == NO_BLOCK or m.block != n.next_block)
        and (m.next_block == NO_BLOCK or m.next_block != n.next_block)
    )


@invariant(needs=TAKEN)
def versions_tell_blocks(k: Configuration, w: World) -> bool:
    """A broker that has read the store, and finds its version still there, has read its block; if
    the version has changed, another broker has changed it."""
    return all(
        w.managers[i].read_version <= w.store.version
        and (w.managers[i].read_version != w.store.version or is_read(w, i))
        and (w.managers[i].read_version == w.store.version or w.store.broker != i)
        for i in every(k.bounds.brokers)
        if w.managers[i].asking == Asking.READ
    )


def is_read(w: World, i: int) -> bool:
    """Whether a broker has read the latest block."""
    return w.managers[i].read_block == w.store.block


def may_find_its_own(w: World, i: int) -> bool:
    """Whether the broker believes that the latest block is its own."""
    tried = w.managers[i].tried
    return tried != NO_BLOCK and w.store.broker == i and w.store.block == tried


@invariant(needs=(*OWNED, "blocks_have_one_owner"))
def what_it_finds_is_free(k: Configuration, w: World) -> bool:
    """What a broker would take for its own, none has."""
    return all(
        w.managers[j].block != w.store.block and w.managers[j].next_block != w.store.block
        for i in every(k.bounds.brokers)
        for j in every(k.bounds.brokers)
        if may_find_its_own(w, i)
    )


@invariant(needs=PLACES)
def given_was_taken(k: Configuration, w: World) -> bool:
    """An id that was given is of a block that was taken, and that nobody will begin to use."""
    return all(
        0 <= block_of(k, given) <= w.store.block
        and w.managers[i].next_block != block_of(k, given)
        and not (may_find_its_own(w, i) and w.store.block == block_of(k, given))
        for given in every(k.bounds.ids)
        for i in every(k.bounds.brokers)
        if given in w.given
    )


@invariant(needs=(*PLACES, "given_was_taken"))
def used_beyond_given(k: Configuration, w: World) -> bool:
    """Who uses the block of an id that was given has used it beyond that id."""
    return all(
        used_of(k, given) < w.managers[i].used
        for given in every(k.bounds.ids)
        for i in every(k.bounds.brokers)
        if given in w.given and w.managers[i].block == block_of(k, given)
    )


@invariant(needs=("numbers_are_sound", "used_beyond_given", "ids_have_places"))
def producer_ids_unique(k: Configuration, w: World) -> bool:
    """No producer id is given twice, by whichever broker, across restarts."""
    return not w.repeated


# Contracts that replace functions of the text


def next_id(_evaluator: Evaluator, _k: Any, giver: Rec) -> Node:
    """Return the id that a broker gives next, as a function of its place."""
    return function("id_at")(giver.block, giver.used)


def is_place(place: Node) -> Node:
    """Return whether a place is inside a block."""
    return (place >= 0) & (place < BLOCK_SIZE)


def next_id_tells_its_place(worlds: Worlds) -> Iterator[ProofObligation]:
    """Prove the axiom about `next_id`: by the model's text no two places have the same id."""
    evaluator = Evaluator(worlds.model, worlds.k, worlds.overrides)
    cls = worlds.model.manager.Manager
    givers = [worlds.unknowns.record(cls, name) for name in ("giver", "other_giver")]
    ids = [evaluator.call(worlds.model.manager.next_id, [worlds.k, giver]) for giver in givers]
    places: list[Formula] = [((), is_place(giver.used)) for giver in givers]
    assumed = [*places, ((), eq(*ids))]
    for name in ("block", "used"):
        same = eq(*(giver.fields[name] for giver in givers))
        yield obligation(f"producer_ids/next_id/tells_{name}", assumed, ((), same))


def unknown_function(name: str) -> Callable[..., Node]:
    """Return a ghost of which only its axioms are known."""
    return lambda _evaluator, _k, *numbers: function(name)(*numbers)


PRODUCER_IDS = Composition(
    home="producer_ids",
    bounds={"brokers": 0, "blocks": 0},
    unknown={
        ("Variant", "form"): leaf("form", 0, 2),
        ("Variant", "fetching"): leaf("fetching", 0, 1),
        ("Bounds", "block_size"): BLOCK_SIZE,
        ("Bounds", "prefetch_at"): number("prefetch_at"),
        ("Bounds", "last_block"): number("last_block"),
    },
    clauses=collected(sys.modules[__name__]),
    axioms=(axiom(ids_have_places),),
    contracts={
        "next_id": next_id,
        **{name: unknown_function(name) for name in ("id_at", "block_of", "used_of")},
    },
    lemmas=next_id_tells_its_place,
    scopes=("producer-ids", "producer-ids-alone"),
    variants=(NEWEST, "3.9.2-zookeeper", "2.8.2"),
)
