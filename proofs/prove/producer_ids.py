"""No producer id is given twice: any number of brokers, of blocks, and of ids in a block.

Theory of operation. A block is counted by the store when it is taken, so what a broker holds is not
ahead of the store, and no two hold the same. An id that was given is of a block that nobody will
ever hold again, or that its broker has used beyond it. A broker that finds in the store what it had
tried to write, under its own name, may take that block: nobody else has it. Which form the store
has, and when brokers fetch, is unknown: the clauses hold whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofs.lift.containers import contains
from proofs.lift.dag import INFINITE, Node, conjunction, const, eq, leaf
from proofs.lift.evaluate import Evaluator
from proofs.lift.values import Rec, Scalars
from proofs.prove.composition import Composition, Worlds
from proofs.prove.induction import clause
from proofs.prove.smt import Formula, ProofObligation, obligation
from proofs.prove.unknowns import bound, function, number, within

FORM, FETCHING = leaf("form", 0, 2), leaf("fetching", 0, 1)
BLOCK_SIZE = leaf("block_size", 1, INFINITE)
"""Ids in a block: any number."""
BROKER, OTHER, ID, BLOCK, PLACE = (bound(name) for name in ("i", "j", "id", "block", "place"))
NONE, READ = const(-1), const(2)

id_at, block_of, used_of = (function(name) for name in ("id_at", "block_of", "used_of"))
"""The id at a place of a block; ghosts: the block of an id, and its place there."""


def manager(world: Rec, broker: Node) -> Scalars:
    """The fields of one broker's manager."""
    found: Scalars = world.managers.at(broker)
    return found


def store(world: Rec) -> Scalars:
    """The fields of the store."""
    found: Scalars = world.store
    return found


def some(block: Node) -> Node:
    """It is a block."""
    return ~block.eq(NONE)


def numbers_are_sound(world: Rec) -> Formula:
    """Of a block in use no more than all ids are given; -1 is no block."""
    m, latest = manager(world, BROKER), store(world).block
    blocks = (m.block, m.next_block, m.tried, m.read_block, latest)
    facts = conjunction(block >= NONE for block in blocks)
    return (BROKER,), facts & within(m.used, 0, BLOCK_SIZE)


def blocks_were_taken(world: Rec) -> Formula:
    """No broker has a block that is ahead of the latest."""
    m, latest = manager(world, BROKER), store(world).block
    return (BROKER,), (m.block <= latest) & (m.next_block <= latest)


def blocks_have_one_owner(world: Rec) -> Formula:
    """No two brokers have the same block, and none has one twice."""
    m, n = manager(world, BROKER), manager(world, OTHER)
    used, ahead = some(m.block), some(m.next_block)
    apart = (
        used.implies(~m.block.eq(n.block)),
        used.implies(~m.block.eq(n.next_block)),
        ahead.implies(~m.next_block.eq(n.next_block)),
    )
    twice = used.implies(~m.block.eq(m.next_block))
    others = (~BROKER.eq(OTHER)).implies(conjunction(apart))
    return (BROKER, OTHER), twice & others


def versions_tell_blocks(world: Rec) -> Formula:
    """A broker that has read the store, and finds its version still there, has read its block; if
    the version has changed, another broker has changed it."""
    m, s = manager(world, BROKER), store(world)
    same = m.read_version.eq(s.version)
    facts = (
        (m.read_version <= s.version)
        & same.implies(m.read_block.eq(s.block))
        & (same | ~s.broker.eq(BROKER))
    )
    return (BROKER,), m.asking.eq(READ).implies(facts)


def may_find_its_own(world: Rec, broker: Node) -> Node:
    """The broker would take the latest block for its own."""
    m, s = manager(world, broker), store(world)
    mine = s.broker.eq(broker) & s.block.eq(m.tried)
    return some(m.tried) & mine


def what_it_finds_is_free(world: Rec) -> Formula:
    """What a broker would take for its own, none has."""
    n, latest = manager(world, OTHER), store(world).block
    free = ~n.block.eq(latest) & ~n.next_block.eq(latest)
    return (BROKER, OTHER), may_find_its_own(world, BROKER).implies(free)


def given_was_taken(world: Rec) -> Formula:
    """An id that was given is of a block that was taken, and that nobody will begin to use."""
    m, s = manager(world, BROKER), store(world)
    block = block_of(ID)
    found = may_find_its_own(world, BROKER) & s.block.eq(block)
    ahead = m.next_block.eq(block)
    free = ~(ahead | found)
    facts = within(block, 0, s.block) & free
    return (ID, BROKER), contains(world.given, ID).implies(facts)


def used_beyond_given(world: Rec) -> Formula:
    """Who uses the block of an id that was given has used it beyond that id."""
    m = manager(world, BROKER)
    user = contains(world.given, ID) & m.block.eq(block_of(ID))
    return (ID, BROKER), user.implies(used_of(ID) < m.used)


def producer_ids_unique(world: Rec) -> Formula:
    """No producer id is given twice, by whichever broker, across restarts."""
    return (), ~world.repeated


def ids_have_places() -> Formula:
    """An id tells its block, and its place there."""
    given = id_at(BLOCK, PLACE)
    told = block_of(given).eq(BLOCK) & used_of(given).eq(PLACE)
    return (BLOCK, PLACE), is_place(PLACE).implies(told)


def is_place(place: Node) -> Node:
    """It is inside a block."""
    return (place >= 0) & (place < BLOCK_SIZE)


def next_id(_evaluator: Evaluator, _k: Any, giver: Rec) -> Node:
    """The id that a broker gives next, as a function of its place."""
    return id_at(giver.block, giver.used)


def next_id_tells_its_place(worlds: Worlds) -> Iterator[ProofObligation]:
    """What `next_id` stands for: by the model's text no two places have the same id."""
    evaluator = Evaluator(worlds.model, worlds.k, worlds.of.unknown)
    cls = worlds.model.manager.Manager
    givers = [worlds.unknowns.record(cls, name) for name in ("giver", "other_giver")]
    ids = [evaluator.call(worlds.model.manager.next_id, [worlds.k, giver]) for giver in givers]
    places: list[Formula] = [((), is_place(giver.used)) for giver in givers]
    assumed = [*places, ((), eq(*ids))]
    for name in ("block", "used"):
        same = eq(*(giver.fields[name] for giver in givers))
        yield obligation(f"producer_ids/next_id/tells_{name}", assumed, ((), same))


TAKEN = ("numbers_are_sound", "blocks_were_taken", "versions_tell_blocks")
OWNED = (*TAKEN, "what_it_finds_is_free")
PLACES = (*OWNED, "blocks_have_one_owner", "ids_have_places")
UNIQUE = clause(producer_ids_unique, "numbers_are_sound", "used_beyond_given", "ids_have_places")

PRODUCER_IDS = Composition(
    home="producer_ids",
    bounds={"brokers": 0, "blocks": 0},
    unknown={
        ("Variant", "form"): FORM,
        ("Variant", "fetching"): FETCHING,
        ("Bounds", "block_size"): BLOCK_SIZE,
        ("Bounds", "prefetch_at"): number("prefetch_at"),
        ("Bounds", "last_block"): number("last_block"),
    },
    clauses=(
        clause(numbers_are_sound),
        clause(blocks_were_taken, *TAKEN),
        clause(blocks_have_one_owner, *OWNED),
        clause(versions_tell_blocks, *TAKEN),
        clause(what_it_finds_is_free, *OWNED, "blocks_have_one_owner"),
        clause(given_was_taken, *PLACES),
        clause(used_beyond_given, *PLACES, "given_was_taken"),
        UNIQUE,
    ),
    facts={"ids_have_places": ids_have_places()},
    contracts={"next_id": next_id},
    lemmas=next_id_tells_its_place,
    scopes=("producer-ids", "producer-ids-alone"),
    variants=("4.3.1", "3.9.2-zookeeper", "2.8.2"),
    functions={
        "id_at": lambda k, block, place: int(block * k.bounds.block_size + place),
        "block_of": lambda k, given: int(given // k.bounds.block_size),
        "used_of": lambda k, given: int(given % k.bounds.block_size),
    },
    numbers={
        "?i": "brokers",
        "?j": "brokers",
        "?id": "ids",
        "?block": "blocks",
        "?place": "block_size",
    },
)
