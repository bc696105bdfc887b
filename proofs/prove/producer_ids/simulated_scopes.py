"""The scopes whose transitions are compared with the steps of the theorem about producer ids."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.prove.producer_ids.composition import PRODUCER_IDS

VARIANTS_OF_IDS = PRODUCER_IDS.variants
ALONE = "producer-ids-alone"
MORE_SIMULATED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "producer_ids_unique": (
        *((scope, v) for scope in ("producer-ids", ALONE) for v in VARIANTS_OF_IDS),
        *((f"{ALONE}/asked={asked}", v) for asked in (3, 5) for v in VARIANTS_OF_IDS[:2]),
    ),
}
"""The scopes that `prove --simulate` checks, in addition to those in which the clauses are
checked."""
