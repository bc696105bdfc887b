"""The fate of every systematic mutant: what small configurations make of it.

| fate      | what a mutant does                                                               |
|-----------|----------------------------------------------------------------------------------|
| breaks    | it violates a guarantee                                                          |
| loses     | a witness or an event of the configuration never happens any more                |
| stalls    | it violates a liveness property                                                  |
| refused   | it cannot be lifted, is not total, writes out of range, or has states without end |
| same      | it is the same machine in every configuration                                    |
| unmet     | the machine differs, but in no state that any configuration reaches              |
| survives  | something happens otherwise, and no guarantee speaks of it                       |

What is unmet is equivalent to the text, or the scopes are too small. A survivor is a hole in the
guarantees, or a freedom that the protocol has: when to send again, what to answer where nobody
listens. `equivalent.toml` says which.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proofs.explore.result import LimitReached, RangeBroken, SearchProgress
from proofs.explore.scope import EnginesDisagree
from proofs.lift.annotations import LiftError
from proofs.lift.source import model_for
from proofs.live.check import explore_live
from proofs.mutants.baseline import Baseline, Overgrown
from proofs.mutants.systematic import SystematicMutant

BEST = "first_sequence=strict/restart_window=full"
"""The variant of which most is guaranteed."""
WRAPS = f"{BEST}/sequence_order=wraps"
"""Where the sequence after the last one matters, too."""
FORGETS = "first_sequence=unknown_producer_id"
"""Where it matters where a log begins."""

CONFIGURATIONS: Mapping[str, Sequence[tuple[str, str]]] = {
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
        ("idempotent-too-large", "2.4.1"),
        ("idempotent-too-large", "2.0.0"),
        ("idempotent-expiry", BEST),
        ("idempotent-tiny", "first_sequence=strict"),
        ("idempotent-tiny", "2.4.1"),
        ("idempotent-tiny", "2.0.0"),
        ("idempotent-tiny/restarts=0", "2.4.1"),
        ("idempotent-tiny/restarts=0", "2.0.0"),
        ("idempotent-late-error", "2.4.1"),
        ("idempotent-tiny", f"{BEST}/retries=one"),
        ("delivery-one-in-flight", "idempotence=disabled/retries=one"),
        ("delivery-one-in-flight", "idempotence=disabled/retries=none"),
        ("idempotent-crash", BEST),
        ("idempotent-unresolved", BEST),
        ("idempotent-deletion", BEST),
        ("idempotent-deletion/restarts=0/crashes=0", FORGETS),
        ("idempotent-deletion/restarts=0/crashes=0/breaks=0", "2.0.0"),
        ("idempotent-deletion/restarts=0/crashes=0/breaks=0", "2.4.1/head_truncation=evicts"),
        ("idempotent-split", BEST),
        ("idempotent-failover", BEST),
        ("idempotent-timeout", BEST),
        ("idempotent-partitions", BEST),
        ("idempotent-partitions/refusals=0", "4.3.1"),
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

IN_THE_END: Mapping[str, Sequence[tuple[str, str]]] = {
    "idempotent": (
        ("live-timeouts", BEST),
        ("live-stream", "first_sequence=strict/sequence_order=wraps"),
        ("live-retries", BEST),
    ),
    "transactions": (
        ("live-transaction", "v2"),
        ("live-transaction", "v1"),
        ("live-two-instances", "v2"),
    ),
}
"""Where runs go on for ever: asked of what breaks nothing before. Each is as small as its
guarantees allow."""
MOST_IN_THE_END = 200_000
"""A change that makes so many states of them is left there."""

FOUND = ("breaks", "loses", "stalls", "refused")
"""The fates that a check has noticed."""
FATES = (*FOUND, "disagrees", "same", "unmet", "survives")

REFUSED = (LiftError, RangeBroken, Overgrown, IndexError)


@dataclass(frozen=True, slots=True)
class MutantFate:
    """`breaks`, `loses`, `stalls`, `refused`, `disagrees`, `same`, `unmet` or `survives`; in which
    configuration it showed, and how. Engines that disagree on a change are a defect of ours."""

    point: SystematicMutant
    fate: str
    scope: str = ""
    variant: str = ""
    how: str = ""


@functools.cache
def ground(scope: str, variant: str) -> Baseline:
    """A configuration as it is; made once."""
    return Baseline(scope, variant)


def fate_of(point: SystematicMutant) -> MutantFate:
    """Try one mutant in every configuration until something notices it."""
    safe = fate_in_configurations(point)
    return safe if safe.fate in FOUND else fate_in_the_end(point) or safe


def fate_in_configurations(point: SystematicMutant) -> MutantFate:
    """What becomes of guarantees, witnesses and events."""
    best = MutantFate(point, "same")
    model = model_for(CONFIGURATIONS[point.group][0][0], [point.patch])
    for scope, variant in CONFIGURATIONS[point.group]:
        try:
            seen = ground(scope, variant).see(model)
        except REFUSED as refusal:
            return MutantFate(point, "refused", scope, variant, str(refusal).partition("\n")[0])
        except EnginesDisagree as defect:
            return MutantFate(point, "disagrees", scope, variant, str(defect).partition("\n")[0])
        if seen.fate in FOUND:
            return MutantFate(point, seen.fate, scope, variant, seen.how)
        if seen.fate == "differs" and best.fate != "survives":
            best = MutantFate(point, "survives", scope, variant, seen.how)
        if seen.fate == "unmet" and best.fate == "same":
            best = MutantFate(point, "unmet", scope, variant)
    return best


def fate_in_the_end(point: SystematicMutant) -> MutantFate | None:
    """What runs that go on for ever show; None if they are as guaranteed, or cannot be followed."""
    for scope, variant in IN_THE_END[point.group]:
        try:
            live = explore_live(
                scope, variant, patches=[point.patch], engine="ints", progress=few_enough
            )
        except (*REFUSED, EnginesDisagree, LimitReached):
            continue
        for outcome in live.report().outcomes:
            if outcome.guaranteed and outcome.lasso is not None:
                steps = len(outcome.lasso.trace.steps)
                return MutantFate(point, "stalls", scope, variant, f"{outcome.name}, {steps} steps")
    return None


def few_enough(progress: SearchProgress) -> None:
    """Raises Overgrown."""
    if progress.distinct > MOST_IN_THE_END:
        raise Overgrown(f"more than {MOST_IN_THE_END} states")
