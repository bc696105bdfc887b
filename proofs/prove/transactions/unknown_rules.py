"""Rules and sizes that are left unknown: theorems hold for all their values."""

from __future__ import annotations

from proofs.lift.dag import Node, leaf
from proofs.prove.engine.unknowns import number, truth
from proofs.prove.transactions.symbolic_state import PARTITIONS, PRODUCER_IDS

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
        ("leaderless_marker", 0, 1),
    )
}
"""The rules of releases, each with any value."""

BUMPS = {("Variant", n): leaf(n, 0, 1) for n in ("bump", "late_bump", "group_memory")}
"""The rules of clients, each with any value."""

SIZES = {
    ("Bounds", "partitions"): PARTITIONS,
    ("Bounds", "producer_ids"): PRODUCER_IDS,
    ("Bounds", "appends"): truth("appends"),
    ("Bounds", "offsets"): truth("offsets"),
    ("Bounds", "last_partition"): number("last_partition"),
    ("Bounds", "epochs_end"): truth("epochs_end"),
    ("Bounds", "max_epoch"): number("max_epoch"),
    ("Bounds", "exhausted_epoch"): number("exhausted_epoch"),
}
"""Sizes that may be any number, and whether appends take time, epochs end, or a partition holds the
group's offsets."""


def without(*names: str) -> dict[tuple[str, str], Node]:
    """Return the unknowns without some rules, which keep the variant's value."""
    return {key: node for key, node in (RULES | SIZES).items() if key[1] not in names}
