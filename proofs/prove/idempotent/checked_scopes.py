"""The scopes in which the proofs about one producer are checked."""

from __future__ import annotations

STRICT = "first_sequence=strict/restart_window=full"
RANGED_SCOPES: dict[str, str | None] = {
    "idempotent-tiny": None,
    "idempotent-failover": STRICT,
    "idempotent-wrap": "sequence_order=wraps",
}
CHECKED_SCOPES: dict[str, str | None] = {
    **RANGED_SCOPES,
    "idempotent-tiny/refusals=0": STRICT,
    "idempotent-tiny/refusals=0/restarts=0": "2.4.1",
    "idempotent-failover/refusals=0/restarts=0": "2.0.0",
    "idempotent-failover/refusals=0": STRICT,
    "idempotent-partitions/records=2": STRICT,
    "idempotent-loss": STRICT,
    "idempotent-late-error": STRICT,
    "idempotent-rejection/records=3/late_errors=0": STRICT,
    "idempotent-timeout/records=2/timeouts=1/breaks=1/refusals=1": STRICT,
}
"""The scopes in which ranges, and clauses on every state, are checked; together they apply each
step of the proofs. The small scope is checked under each variant in question in which a producer
keeps its id, the others under the variant named."""
