"""Declares clauses about the prefixes of a log, and about what a leader remembers of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from proofs.prove.engine.induction import Clause, Declarer, declared
from proofs.prove.idempotent.proof_state import after_replay


def of_leader(s: Any) -> tuple[Any, ...]:
    """Return the subject of a clause about a memory: what the leader knows."""
    return s, s.known


def of_replay(s: Any, length: Any) -> tuple[Any, ...]:
    """Return the subject of a clause about a memory: what a leader knows that replays a prefix of
    the log."""
    return s, after_replay(s, length)


def of_prefix(s: Any, length: Any) -> tuple[Any, ...]:
    """Return the subject of a clause about a prefix of the log."""
    return s, length


def is_prefix(s: Any, length: int) -> bool:
    """Whether the log has a prefix of this length."""
    return 0 <= length <= len(s.log)


def prefix_invariant(*, needs: Iterable[str] = ()) -> Declarer:
    """Declare a clause about every prefix of the log."""
    uses = frozenset(needs)
    return declared(
        "invariants",
        lambda name, says, f: Clause(name, says, f, uses, subject=of_prefix, prefixes=True),
    )


APPENDED = ("offsets_rise", "nothing_stored_is_empty", "watermark_within_log", "accepted_follows")
"""The clauses that each clause about a memory needs."""


def memory_invariant(*, needs: Iterable[str] = (), of_now: bool = True) -> Declarer:
    """Declare a clause about a memory. It becomes two clauses: one about what the leader knows (if
    `of_now`), one about what any leader would know that replays a prefix of the log."""
    own, others = tuple(needs), (f"history/{name}" for name in needs)
    now = frozenset((*own, *APPENDED))
    replayed = frozenset((*others, *APPENDED, "history_agrees"))
    kinds: list[Callable[[str, str, Any], Clause]] = [
        lambda name, says, f: Clause(
            f"history/{name}",
            f"After any replay: {says}",
            f,
            replayed,
            subject=of_replay,
            prefixes=True,
            within=is_prefix,
        )
    ]
    if of_now:
        kinds.insert(0, lambda name, says, f: Clause(name, says, f, now, subject=of_leader))
    return declared("invariants", *kinds)
