"""The verdict on every systematic mutant: which verb notices it, in which configuration.

| fate       | what it means                                                                   |
|------------|---------------------------------------------------------------------------------|
| killed     | a verb ends with a finding: `verb`, `scope`, `variant` and `how` say which one   |
| equivalent | solvers prove that nothing differs, for all arguments                            |
| unseen     | no configuration that was tried shows a difference: `how` says what of it is equal |
| alive      | something happens differently, and no verb has a finding                         |
| invalid    | the language refuses the text, which is not a model                              |

A mutant is tried in a configuration in three steps, each only if the one before does not decide:

1. Does the changed function answer all calls that the configuration makes as before? (`calls.py`)
2. Does a rule behave differently in a reachable state? (`baseline.py`)
3. What does exploring the changed model find?

A difference that breaks no guarantee is checked in runs that go on for ever (`liveness`), against
the abstract specification (`refine`), and by the theorems (`prove`). If nothing differs, solvers
are asked whether anything can (`equal_values.py`). If they cannot decide, more configurations
(`FURTHER`) and the theorems are tried.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from model.releases import NEWEST
from proofs.explore.engines import EnginesDisagree
from proofs.explore.result import LimitReached, RangeBroken, SearchProgress
from proofs.explore.scope import explore_scope, read_pairs
from proofs.explore.sometimes import Sometimes
from proofs.explore.source import NotTotal
from proofs.lift.annotations import LiftError
from proofs.lift.layout import OutOfRange
from proofs.lift.source import Model, composition_of, load_model
from proofs.live.check import explore_live
from proofs.live.refine import refine
from proofs.systematic_mutants.baseline import Baseline, Overgrown
from proofs.systematic_mutants.calls import Calls, difference, is_of_world, mutated, stored_calls
from proofs.systematic_mutants.changes import SystematicMutant, functions_that_act
from proofs.systematic_mutants.equal_values import has_equal_values
from proofs.systematic_mutants.lost_proofs import first_lost
from proofs.trace.replay import configuration_of

BEST: Final = "first_sequence=strict/restart_window=full"
"""The variant with the most guarantees."""

CONFIGURATIONS: Final = read_pairs(
    f"""
first_sequence=strict/restart_window=full: idempotent-too-large idempotent-restart
    idempotent-exhaustion idempotent-late-error
    idempotent-unlucky/expiries=0/deletions=0/timeouts=0/losses=0/breaks=0
    idempotent-partitions-replicas/restarts=0
2.0.0: idempotent-deletion/restarts=0/crashes=0/breaks=0 idempotent-too-large
    idempotent-tiny/restarts=0
2.4.1/head_truncation=evicts: idempotent-deletion/restarts=0/crashes=0/breaks=0
first_sequence=unknown_producer_id: idempotent-deletion/restarts=0/crashes=0
idempotence=disabled/retries=none: delivery-one-in-flight
idempotence=disabled: delivery-one-in-flight
idempotence=disabled/retries=one: delivery-one-in-flight
2.4.1: idempotent-too-large idempotent-late-error idempotent-tiny/restarts=0
first_sequence=strict/restart_window=full/sequence_order=wraps:
    idempotent-wrap idempotent-wrap-across
first_sequence=strict/restart_window=full: idempotent-producers idempotent-expiry
    idempotent-partitions/refusals=0/breaks=0 idempotent-loss idempotent-crash idempotent-tiny
    idempotent-five-in-flight idempotent-forgotten
first_sequence=strict: idempotent-tiny
first_sequence=strict/restart_window=full/retries=one: idempotent-tiny
2.0.0: idempotent-tiny
2.4.1: idempotent-tiny
first_sequence=strict/restart_window=full: idempotent-timeout/breaks=1/refusals=0
    idempotent-deletion idempotent-failover idempotent-unresolved idempotent-partitions/refusals=0
    idempotent-split
2.8.2: producer-ids-alone/asked=1 producer-ids-alone
{NEWEST}: producer-ids-alone
3.9.2-zookeeper: producer-ids-alone
{NEWEST}: producer-ids
3.9.2-zookeeper: producer-ids
{NEWEST}: processing/crashes=0 processing/timeouts=0
v2: transactions-trouble transactions-tiny
v1: transactions-trouble transactions-log-again transactions-tiny
v2: transactions-trouble-log transactions-window
    transactions-offsets/delays=0/unheard=0/timeouts=0
v1: transactions-guards-partitions transactions-late-batch/begun=1/delays=1/unheard=0
v2: transactions-default/delays=0 transactions-exhausted/delays=0/moves=0/unheard=0
    transactions-two-errors transactions-small/delays=0/unheard=0/moves=0
    transactions-exhausted/delays=0/timeouts=0/unheard=0
v1: transactions-offsets-log
v2: transactions-late-marker transactions-others transactions-leaderless transactions-adopted
    transactions-small/delays=0/unheard=0 transactions-default transactions-markers/moves=0
v1: transactions-writes
v1/fence=same_epoch: transactions-small/delays=0/unheard=0/moves=0/begun=1
marker_epoch=strictly_newer: transactions-markers/begun=1/moves=0
v1/late_bump=asked: transactions-guards-partitions
2.0.0: idempotent-expiry idempotent-forgotten
2.4.1: idempotent-forgotten
first_sequence=strict/restart_window=full: idempotent-timeout/breaks=1
v2: transactions-moves/delays=0/unheard=0/expirations=0
"""
)
"""The configurations in which mutants are tried, the smallest first, with the variants that have
the most guarantees."""

IN_THE_END: Final = read_pairs(
    """
first_sequence=strict/restart_window=full: live-retries/records=3 live-timeouts/records=3
first_sequence=strict/sequence_order=wraps: live-stream/records=3/breaks=0
v1: live-transaction
v2: live-transaction
"""
)
"""Unbounded scopes: asked about mutants that break nothing before."""

FURTHER: Final = read_pairs(
    f"""
{NEWEST}: idempotent-restart idempotent-shared-id idempotent-wrap delivery idempotent-expiry
    idempotent-loss idempotent-five-forgotten idempotent-six-in-flight
first_sequence=strict/restart_window=full: idempotent-trouble idempotent-exhausted
    idempotent-rejection idempotent-forgotten-split idempotent-partitions-replicas
2.0.0: idempotent-exhaustion idempotent-rejection
2.4.1: idempotent-timeout/breaks=1/refusals=0 idempotent-forgotten-split
2.4.1: producer-ids-alone producer-ids
2.4.1: processing/crashes=0
v1: transactions-in-flight transactions-in-flight-again transactions-in-flight-moves
    transactions-in-flight-three transactions-in-flight-rejection transactions-rejection
    transactions-between transactions-two-expirations transactions-adopted transactions-leaderless
    transactions-others transactions-late-marker transactions-trouble-log
v2: transactions-in-flight transactions-in-flight-offsets transactions-in-flight-partitions
    transactions-in-flight-leaves transactions-rejection transactions-between transactions-writes
    transactions-two-expirations transactions-offsets-again transactions-late-writes
    transactions-log-again transactions-offsets-log transactions-guards-partitions
"""
)
"""More configurations, for a change that no other configuration shows."""

REFINED: Final = read_pairs(
    """
v2: transactions-tiny transactions-trouble transactions-trouble-log transactions-two-errors
v1: transactions-tiny transactions-trouble transactions-guards-partitions
"""
)
"""The configurations that are checked against the abstract specification."""

MOST_IN_THE_END: Final = 200_000
"""The number of states of an unbounded scope at which a change is abandoned."""
LARGEST_ON_SOURCE: Final = 5_000
"""The worlds of the largest configuration that is explored on the source."""

FAILURES: Final = (ArithmeticError, LookupError, ValueError)
"""The errors that a changed text may raise when it runs."""

NOTICED_BY: Final = {"breaks": "explore", "loses": "explore", "strays": "coverage"}
"""The verb that reports each effect of a change on a configuration."""

EQUAL_VALUES: Final = "equal values"
EQUAL_CALLS: Final = "equal calls"
EQUAL_GRAPHS: Final = "equal graphs, masked"
EQUAL: Final = (EQUAL_VALUES, EQUAL_CALLS, EQUAL_GRAPHS)
"""The kinds of equality of mutants that no check tells apart: solvers prove it for all arguments,
or it holds in the configurations that were tried, which shows nothing for others."""

FATES = ("killed", "equivalent", "unseen", "alive", "invalid")


@dataclass(frozen=True, slots=True)
class MutantVerdict:
    """The fate of a mutant."""

    fate: str
    verb: str = ""
    scope: str = ""
    variant: str = ""
    how: str = ""


@functools.cache
def calls_of(scope: str, variant: str) -> Calls:
    """Return the calls of a configuration, once in a process."""
    model = load_model(composition_of(scope))
    k = configuration_of(model, scope, variant)
    return stored_calls(model, k, functions_that_act(model), scope)


@functools.cache
def baseline(scope: str, variant: str) -> Baseline:
    """Return a configuration of the unchanged model, made once in a process."""
    return Baseline(scope, variant)


def of_group(pairs: Sequence[tuple[str, str]], group: str) -> Iterator[tuple[str, str]]:
    """Return the configurations of one composition, in their order."""
    return (pair for pair in pairs if composition_of(pair[0]) == group)


class MutantRun:
    """Tries one mutant with the verbs."""

    def __init__(self, mutant: SystematicMutant) -> None:
        self._mutant = mutant
        self._original = load_model(mutant.group)
        self._function = mutated(self._original, mutant.patch)
        self._unequal: list[tuple[str, str]] = []
        self._differs: list[str] = []

    @functools.cached_property
    def _changed(self) -> Model:
        return load_model(self._mutant.group, [self._mutant.patch])

    def verdict(self) -> MutantVerdict:
        """Return the verdict of the first verb that has one."""
        try:
            return self._explored(CONFIGURATIONS) or self._noticed_otherwise() or self._unseen()
        except (LiftError, AttributeError, TypeError) as refusal:
            return MutantVerdict("invalid", how=first_line(refusal))

    # explore

    def _explored(self, pairs: Sequence[tuple[str, str]]) -> MutantVerdict | None:
        for scope, variant in of_group(pairs, self._mutant.group):
            found = self._difference(scope, variant)
            if found is None:
                continue
            if found in ("TypeError", "AttributeError"):
                return MutantVerdict("invalid", how=found)
            self._unequal.append((scope, variant))
            noticed = self._noticed(scope, variant) or self._fails(scope, variant, found)
            if noticed is not None:
                return noticed
        return None

    def _difference(self, scope: str, variant: str) -> str | None:
        """Return how the function differs on the calls; "" (unknown) for a function of the
        world."""
        name = self._mutant.patch.function
        if is_of_world(self._original, name):
            return ""
        return difference(self._original, self._function, name, calls_of(scope, variant))

    def _noticed(self, scope: str, variant: str) -> MutantVerdict | None:
        try:
            seen = baseline(scope, variant).see(self._changed)
        except (RangeBroken, OutOfRange) as broken:
            return MutantVerdict("killed", "explore", scope, variant, first_line(broken))
        except FAILURES as failure:
            self._differs.append(f"{scope} ({variant}): {first_line(failure)}")
            return self._fails(scope, variant, first_line(failure))
        except (Overgrown, LimitReached, EnginesDisagree) as limit:
            self._differs.append(f"{scope} ({variant}): {first_line(limit)}")
            return None
        if seen.fate in NOTICED_BY:
            return MutantVerdict("killed", NOTICED_BY[seen.fate], scope, variant, seen.how)
        if seen.fate == "differs":
            self._differs.append(f"{scope} ({variant}): {seen.how}")
        if seen.fate == "same":
            self._unequal.remove((scope, variant))
        return None

    def _fails(self, scope: str, variant: str, error: str) -> MutantVerdict | None:
        """Return "killed" if a rule fails with an error in a reachable state."""
        if not error or baseline(scope, variant).states > LARGEST_ON_SOURCE:
            return None
        try:
            explore_scope(scope, variant, patches=[self._mutant.patch], engine="source", stop=True)
        except (NotTotal, *FAILURES) as failure:
            return MutantVerdict("killed", "explore", scope, variant, first_line(failure))
        return None

    # liveness, refine and prove

    def _noticed_otherwise(self) -> MutantVerdict | None:
        """Return the verdict of slower verbs on a mutant that differs somewhere."""
        if not self._differs:
            return None
        return self._refined() or self._in_the_end() or self._unproved()

    def _in_the_end(self) -> MutantVerdict | None:
        for scope, variant in of_group(IN_THE_END, self._mutant.group):
            try:
                live = explore_live(
                    scope,
                    variant,
                    patches=[self._mutant.patch],
                    engine="ints",
                    progress=few_enough,
                )
            except (RangeBroken, Overgrown, EnginesDisagree, LimitReached, *FAILURES):
                continue
            report = live.report()
            for outcome in report.outcomes:
                if outcome.guaranteed and outcome.lasso is not None:
                    how = f"{outcome.name}, {len(outcome.lasso.trace.steps)} steps"
                    return MutantVerdict("killed", "liveness", scope, variant, how)
            if report.sometimes.verdict != "holds":
                how = lost_witness(report.sometimes)
                return MutantVerdict("killed", "liveness", scope, variant, how)
        return None

    def _refined(self) -> MutantVerdict | None:
        for scope, variant in of_group(REFINED, self._mutant.group):
            if (scope, variant) in self._unequal:
                try:
                    found = refine(scope, variant, patches=(self._mutant.patch,))
                except (NotTotal, *FAILURES) as failure:
                    how = first_line(failure)
                    return MutantVerdict("killed", "refine", scope, variant, how)
                if found.trace is not None:
                    how = f"{len(found.trace.steps)} steps"
                    return MutantVerdict("killed", "refine", scope, variant, how)
                if found.sometimes.verdict != "holds":
                    how = lost_witness(found.sometimes)
                    return MutantVerdict("killed", "refine", scope, variant, how)
        return None

    def _unproved(self) -> MutantVerdict | None:
        lost = first_lost(self._mutant.group, self._mutant.patch)
        return None if lost is None else MutantVerdict("killed", "prove", how=lost)

    # no verb

    def _unseen(self) -> MutantVerdict:
        if not self._differs:
            if has_equal_values(self._mutant.group, self._mutant.patch):
                return MutantVerdict("equivalent", how=EQUAL_VALUES)
            noticed = self._explored(FURTHER) or self._unproved()
            if noticed is not None:
                return noticed
        if self._differs:
            first = self._differs[0]
            return MutantVerdict(
                "alive", how=f"{len(self._differs)} configurations differ: {first}"
            )
        return MutantVerdict("unseen", how=EQUAL_GRAPHS if self._unequal else EQUAL_CALLS)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).partition("\n")[0]


def lost_witness(claims: Sometimes) -> str:
    """Return the first thing that must happen and does not, or the reverse."""
    lost = [f"{name} is lost" for name in claims.lost]
    return next(iter([*lost, *(f"{name} happens" for name in claims.unexpected)]))


def few_enough(progress: SearchProgress) -> None:
    """Raise Overgrown if there are too many states."""
    if progress.distinct > MOST_IN_THE_END:
        raise Overgrown(f"more than {MOST_IN_THE_END} states")


def verdict_on(mutant: SystematicMutant) -> MutantVerdict:
    """Try a mutant."""
    return MutantRun(mutant).verdict()
