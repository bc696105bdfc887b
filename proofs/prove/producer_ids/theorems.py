"""The theorem about producer ids."""

from __future__ import annotations

from model.releases import NEWEST
from proofs.prove.engine.theorem import Theorem
from proofs.prove.producer_ids.composition import PRODUCER_IDS

ONLY_EXPLORED: dict[str, str] = {
    "no_block_wasted": (
        "a sum over all blocks: it needs, for each block, a witness of who has it or gave its ids"
    ),
}
"""The guarantees that no theorem covers, and why: they are explored in scopes."""

ABOUT_PRODUCER_IDS: tuple[Theorem, ...] = (
    Theorem(
        "producer_ids_unique",
        "No producer id is given twice: by any number of brokers, with any number of blocks of any"
        " size, allocated by the controller or by ZooKeeper, across restarts and lost answers.",
        NEWEST,
        (),
        ("producer_ids_unique", "blocks_have_one_owner"),
        PRODUCER_IDS,
    ),
)
