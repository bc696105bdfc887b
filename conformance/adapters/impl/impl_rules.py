"""The rules of each model in which `impl` differs from Kafka on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.judging.compositions import IDEMPOTENT, TRANSACTIONS

OWN_RULES: Final[Mapping[str, str]] = {
    IDEMPOTENT.name: "sequence_order=wraps",
    TRANSACTIONS.name: "late_bump=asked/leaderless_marker=waits",
}
"""The rules by composition, as parts of a variant's name."""
SERVED_RULES: Final[Mapping[str, str]] = {
    **OWN_RULES,
    IDEMPOTENT.name: f"{OWN_RULES[IDEMPOTENT.name]}/restart_window=full",
}
"""The rules of `impl`'s broker as `serve` runs it."""
