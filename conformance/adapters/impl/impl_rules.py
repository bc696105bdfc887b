"""The rules of each model that `impl` has on purpose, other than Kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.judging.compositions import IDEMPOTENT, TRANSACTIONS

OWN_RULES: Final[Mapping[str, str]] = {
    IDEMPOTENT.name: "sequence_order=wraps",
    TRANSACTIONS.name: "late_bump=asked/leaderless_marker=waits",
}
"""By composition: parts of a variant."""
SERVED_RULES: Final[Mapping[str, str]] = {
    **OWN_RULES,
    IDEMPOTENT.name: f"{OWN_RULES[IDEMPOTENT.name]}/restart_window=full",
}
"""Those of its broker as it is served."""
