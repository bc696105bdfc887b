"""The guarantees of producer ids.

`producer_ids_unique` is the one that other compositions rely on.
"""

from __future__ import annotations

from model.producer_ids.configuration import Configuration, Form
from model.producer_ids.messages import NO_BLOCK
from model.producer_ids.world import World
from model.properties import Guarantee, Witness, always


def producer_ids_unique(k: Configuration, w: World) -> bool:
    """No producer id is given twice, by any brokers, also across restarts. KIP-98, section 8.3."""
    return not w.repeated


def blocks_have_one_owner(k: Configuration, w: World) -> bool:
    """No two brokers have the same block, and no block is ahead of the latest."""
    return all(
        (m.block == NO_BLOCK or (m.block != m.next_block and m.block <= w.store.block))
        and m.next_block <= w.store.block
        and not any(
            (m.block != NO_BLOCK and (m.block == other.block or m.block == other.next_block))
            or (m.next_block != NO_BLOCK and m.next_block == other.next_block)
            for other in w.managers.values()[:i]
        )
        for i, m in enumerate(w.managers.values())
    )


def no_block_wasted(k: Configuration, w: World) -> bool:
    """Each block that was taken is in use, ahead, used up, or will be found again by its owner."""
    return w.store.block + 1 <= sum(owned(k, w, b) for b in range(k.bounds.blocks))


def owned(k: Configuration, w: World, block: int) -> int:
    """1 if a broker has the block, or some of its ids were given; else 0."""
    some_given = any(
        i in w.given
        for i in range(k.bounds.ids)
        if i >= block * k.bounds.block_size and i < (block + 1) * k.bounds.block_size
    )
    held = any(
        m.block == block or m.next_block == block or m.tried == block for m in w.managers.values()
    )
    return 1 if some_given or held else 0


def nothing_is_lost(k: Configuration) -> bool:
    """No broker restarts, and no block is lost with the answer to its write. A broker that checks
    recognises its own write, if no other broker has written since."""
    recognised = k.variant.form == Form.ZOOKEEPER_CHECKED and k.bounds.brokers == 1
    return k.budgets.restarts == 0 and (recognised or k.budgets.lost == 0)


def a_block_is_used_up(k: Configuration, w: World) -> bool:
    """Sometimes: an id of a second block is given."""
    return any(i in w.given for i in range(k.bounds.ids) if i >= k.bounds.block_size)


def all_is_given(k: Configuration, w: World) -> bool:
    """Sometimes: the last block is taken."""
    return w.store.block == k.bounds.last_block


GUARANTEES: tuple[Guarantee[Configuration, World], ...] = (
    Guarantee("producer_ids_unique", producer_ids_unique, always, witness=a_block_is_used_up),
    Guarantee("blocks_have_one_owner", blocks_have_one_owner, always, witness=a_block_is_used_up),
    Guarantee("no_block_wasted", no_block_wasted, nothing_is_lost, witness=all_is_given),
)

WITNESSES: tuple[Witness[Configuration, World], ...] = (
    Witness("a_block_is_used_up", a_block_is_used_up),
    Witness("all_is_given", all_is_given),
)
