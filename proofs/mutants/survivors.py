"""The fate of every systematic mutant: what small settings make of it.

A mutant *breaks* a promise; or it is *refused*, as it cannot be lifted, writes what no leaf can
hold, has states without end, or fails where a rule must be total; or it is the *same* machine in
every setting; or *unmet*: the machine is another one, but in no state that any setting reaches; or
it *survives*: something happens otherwise, and no promise speaks of it. What is unmet is equivalent
to the text, or the scopes are too small; a survivor is a hole in the promises, or a freedom that
the protocol has (when to send again, what to answer to whom nobody listens). `explained.py` says
which.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proofs.explore.result import RangeBroken
from proofs.explore.scope import EnginesDisagree
from proofs.lift.noted import LiftError
from proofs.lift.text import model_for
from proofs.mutants.ground import Ground, Overgrown
from proofs.mutants.systematic import Point

BEST = "first_sequence=strict/restart_window=full"
"""The variant of which most is promised."""
WRAPS = f"{BEST}/sequence_order=wraps"
"""Where the sequence after the last one matters, too."""
FORGETS = "first_sequence=unknown_producer_id"
"""Where it matters where a log begins."""

SETTINGS: Mapping[str, Sequence[tuple[str, str]]] = {
    "idempotent": (
        ("idempotent-tiny", BEST),
        ("idempotent-producers", BEST),
        ("idempotent-restart", BEST),
        ("idempotent-exhaustion", BEST),
        ("idempotent-late-error", BEST),
        ("idempotent-wrap", WRAPS),
        ("idempotent-wrap-across", WRAPS),
        ("idempotent-loss", BEST),
        ("delivery-one-in-flight", "idempotence=disabled"),
        ("idempotent-forgotten", BEST),
        ("idempotent-five-in-flight", BEST),
        ("idempotent-too-large", BEST),
        ("idempotent-expiry", BEST),
        ("idempotent-tiny", "first_sequence=strict"),
        ("idempotent-tiny", "2.4.1"),
        ("idempotent-tiny", "2.0.0"),
        ("idempotent-crash", BEST),
        ("idempotent-unresolved", BEST),
        ("idempotent-deletion", BEST),
        ("idempotent-deletion/restarts=0/crashes=0", FORGETS),
        ("idempotent-split", BEST),
        ("idempotent-failover", BEST),
        ("idempotent-timeout", BEST),
        ("idempotent-partitions", BEST),
    ),
    "transactions": (
        ("transactions-tiny", "v2"),
        ("transactions-trouble", "v2"),
        ("transactions-tiny", "v1"),
        ("transactions-trouble", "v1"),
        ("transactions-log-again", "v1"),
        ("transactions-trouble-log", "v2"),
        ("transactions-offsets-log", "v1"),
        ("transactions-guards-partitions", "v1"),
        ("transactions-window", "v2"),
        ("transactions-two-errors", "v2"),
        ("transactions-exhausted/delays=0/moves=0/unheard=0", "v2"),
        ("transactions-exhausted/delays=0/timeouts=0/unheard=0", "v2"),
        ("transactions-adopted", "v2"),
        ("transactions-default", "v2"),
        ("transactions-writes", "v1"),
        ("transactions-late-batch/begun=1/delays=1/unheard=0", "v1"),
        ("transactions-offsets/delays=0/unheard=0/timeouts=0", "v2"),
        ("transactions-small/delays=0/unheard=0", "v2"),
        ("transactions-markers/moves=0", "v2"),
    ),
}
"""Where mutants are tried, by their group, until one breaks something: first where most shows. Only
where a batch is given up does it matter that a duplicate has its epoch."""

REFUSED = (LiftError, RangeBroken, EnginesDisagree, Overgrown, IndexError)


@dataclass(frozen=True, slots=True)
class Fate:
    """`breaks`, `refused`, `same`, `unmet` or `survives`; in which setting it showed, and how."""

    point: Point
    fate: str
    scope: str = ""
    variant: str = ""
    how: str = ""


@functools.cache
def ground(scope: str, variant: str) -> Ground:
    """A setting as it is; made once."""
    return Ground(scope, variant)


def fate_of(point: Point) -> Fate:
    """Try one mutant in every setting until it breaks something."""
    best = Fate(point, "same")
    model = model_for(SETTINGS[point.group][0][0], [point.patch])
    for scope, variant in SETTINGS[point.group]:
        try:
            seen = ground(scope, variant).see(model)
        except REFUSED as refusal:
            return Fate(point, "refused", scope, variant, str(refusal))
        if seen.fate == "breaks":
            return Fate(point, "breaks", scope, variant, seen.how)
        if seen.fate == "differs" and best.fate != "survives":
            best = Fate(point, "survives", scope, variant, seen.how)
        if seen.fate == "unmet" and best.fate == "same":
            best = Fate(point, "unmet", scope, variant)
    return best
