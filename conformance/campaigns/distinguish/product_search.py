"""Selects the scopes to search, smallest first, for a trace that tells a variant from another."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from conformance.campaigns.distinguish.leaders import LeaderObserver
from conformance.campaigns.distinguish.observers import (
    ActorObserver,
    NodesObserver,
    ServerObserver,
    WorldObserver,
)
from conformance.judging.compositions import (
    IDEMPOTENT,
    PROCESSING,
    PRODUCER_IDS,
    TRANSACTIONS,
    JudgedComposition,
)
from conformance.judging.distinguish.alternatives import Alternative, alternatives
from conformance.judging.distinguish.known import (
    ACTORS,
    ONE_BROKER,
    THREE_BROKERS,
    RuleVisibility,
    rows_about,
)
from conformance.judging.distinguish.product import (
    SearchResult,
    VariantObserver,
    Visibility,
    distinguishes,
    search,
)

Observe = Callable[[str, str], VariantObserver]

OBSERVERS: Final[Mapping[tuple[str, str], Observe]] = {
    (TRANSACTIONS.name, ONE_BROKER): ServerObserver,
    (TRANSACTIONS.name, THREE_BROKERS): NodesObserver,
    (TRANSACTIONS.name, ACTORS): ActorObserver,
    (IDEMPOTENT.name, ONE_BROKER): LeaderObserver,
    (IDEMPOTENT.name, ACTORS): ActorObserver,
    (PROCESSING.name, ACTORS): WorldObserver,
    (PRODUCER_IDS.name, ACTORS): WorldObserver,
}
"""The observers of a composition's systems."""

NEEDED: Final[Mapping[str, Sequence[str]]] = {
    TRANSACTIONS.name: (ONE_BROKER, THREE_BROKERS),
    IDEMPOTENT.name: (ONE_BROKER, ACTORS),
    PROCESSING.name: (ACTORS,),
    PRODUCER_IDS.name: (ACTORS,),
}
"""The observers to try for each rule of each variant, in order, until one sees a difference. Rules
of an idempotent client are visible only at clients."""

SCOPES: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    (TRANSACTIONS.name, ONE_BROKER): (
        "transactions-tiny",
        "transactions-markers",
        "transactions-late-writes",
    ),
    (TRANSACTIONS.name, THREE_BROKERS): (
        "transactions-tiny",
        "transactions-leaderless",
    ),
    (TRANSACTIONS.name, ACTORS): (
        "transactions-tiny",
        "transactions-late-writes",
        "transactions-leaderless",
        "transactions-markers/marker_losses=0/moves=0",
    ),
    (IDEMPOTENT.name, ONE_BROKER): (
        "idempotent-tiny",
        "idempotent-restart",
        "idempotent-expiry",
        "idempotent-deletion",
    ),
    (IDEMPOTENT.name, ACTORS): (
        "idempotent-tiny",
        "idempotent-deletion",
        "idempotent-five-forgotten",
        "idempotent-timeout",
    ),
    (PROCESSING.name, ACTORS): ("processing",),
    (PRODUCER_IDS.name, ACTORS): ("producer-ids",),
}
"""The scopes to search, by composition and observer."""


NEAR_THE_LAST_EPOCH: Final = "transactions-exhausted/delays=0/unheard=0/moves=0"
AT_LAST_EPOCH: Final = frozenset({"rotation", "id_memory", "previous_id"})
"""Rules about the last epoch: the search for them takes scopes near it, and for other rules
others."""
TWO_PARTITIONS: Final = ("transactions-tiny", "transactions-default")
OTHERWISE: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    **{
        (rule, observer): ("transactions-tiny", NEAR_THE_LAST_EPOCH)
        for rule in AT_LAST_EPOCH
        for observer in (ONE_BROKER, ACTORS)
    },
    **{(rule, THREE_BROKERS): ("transactions-tiny",) for rule in AT_LAST_EPOCH},
    ("pending", THREE_BROKERS): TWO_PARTITIONS,
}
"""The scopes that replace the usual ones for some rules. Three brokers cannot be brought to the
last epoch. Pending state is visible while the marker of another partition waits."""


def scopes_for(composition: str, observer: str, rule: str) -> Sequence[str]:
    """The scopes in which the effect of a rule is searched."""
    return OTHERWISE.get((rule, observer), SCOPES[composition, observer])


def looks_at(composition: JudgedComposition) -> list[str]:
    """The observers of a composition's systems."""
    return [observer for name, observer in SCOPES if name == composition.name]


def unanswered(composition: JudgedComposition, variant: str) -> list[tuple[Alternative, str]]:
    """The rules of a variant that no known trace tells apart, each with the next observer to try.
    Raises UnknownVariant."""
    known = {o: rows_about(composition.name, variant, o) for o in NEEDED[composition.name]}
    asked_next = (
        (one, _next_observer(one, known)) for one in alternatives(composition.model, variant)
    )
    return [(one, observer) for one, observer in asked_next if observer is not None]


def _next_observer(one: Alternative, known: Mapping[str, Sequence[RuleVisibility]]) -> str | None:
    """The next observer for a rule; None if there is an answer."""
    for observer, rows in known.items():
        row = next((r for r in rows if r.answers(one)), None)
        if row is not None and row.is_found:
            return None
        if row is None or not is_whole(row):
            return observer
    return None


def is_whole(row: RuleVisibility) -> bool:
    """Whether all pairs were searched in all scopes for this rule."""
    scopes = scopes_for(row.composition, row.observer, row.rule)
    return row.answer is Visibility.NOT_VISIBLE and set(scopes) <= row.searched.keys()


def answer(
    composition: JudgedComposition,
    variant: str,
    alternative: Alternative,
    observer: str,
    seconds: float,
    *,
    known: Iterable[RuleVisibility] = (),
    scopes: Sequence[str] = (),
) -> RuleVisibility:
    """The shortest trace of the first scope that has one; each scope is searched for this long. If
    a `known` trace of a scope tells other variants of this rule apart, it is tried first."""
    asked = RuleVisibility(
        composition.name,
        variant,
        alternative.rule,
        alternative.own,
        alternative.value,
        observer,
        Visibility.NOT_VISIBLE,
    )
    searched: dict[str, int] = {}
    for scope in scopes or scopes_for(composition.name, observer, alternative.rule):
        first = _observed(composition.name, observer, scope, variant)
        second = OBSERVERS[composition.name, observer](scope, alternative.variant)
        tried = [r for r in known if (r.rule, r.scope, r.observer) == (asked.rule, scope, observer)]
        found = _known(first, second, tried) or search(first, second, seconds)
        searched[scope] = found.pairs
        asked = replace(asked, searched=searched)
        if found.answer is Visibility.FOUND:
            steps = first.trace(found.steps)
            return replace(asked, answer=found.answer, scope=scope, steps=steps)
        if found.answer is Visibility.NOT_FOUND:
            asked = replace(asked, answer=found.answer)
    return asked


@functools.lru_cache(maxsize=4)
def _observed(composition: str, observer: str, scope: str, variant: str) -> VariantObserver:
    """The observer of one variant. Many variants are compared with it, so its behaviour is
    cached."""
    return OBSERVERS[composition, observer](scope, variant)


def _known(
    first: VariantObserver, second: VariantObserver, tried: Iterable[RuleVisibility]
) -> SearchResult | None:
    """A known trace, if it tells these variants apart."""
    for row in tried:
        if distinguishes(first, second, row.steps):
            return SearchResult(Visibility.FOUND, 0, row.steps)
    return None
