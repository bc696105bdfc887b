"""Which scopes are searched, smallest first, for what tells a variant from another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from conformance.compositions import IDEMPOTENT, TRANSACTIONS, JudgedComposition
from conformance.distinguish.alternatives import Alternative
from conformance.distinguish.known import ACTORS, ONE_BROKER, THREE_BROKERS, RuleVisibility
from conformance.distinguish.observers import (
    ActorObserver,
    NodesObserver,
    ServerObserver,
)
from conformance.distinguish.product import (
    SearchResult,
    VariantObserver,
    Visibility,
    distinguishes,
    search,
)

OBSERVERS: Final[Mapping[str, Callable[[str, str], VariantObserver]]] = {
    ONE_BROKER: ServerObserver,
    THREE_BROKERS: NodesObserver,
    ACTORS: ActorObserver,
}
"""How a system is looked at."""

SCOPES: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    (TRANSACTIONS.name, ONE_BROKER): (
        "transactions-tiny",
        "transactions-markers",
        "transactions-late-writes",
    ),
    (TRANSACTIONS.name, THREE_BROKERS): (
        "transactions-tiny",
        "transactions-leaderless",
        "transactions-default",
    ),
    (TRANSACTIONS.name, ACTORS): (
        "transactions-tiny",
        "transactions-late-writes",
        "transactions-leaderless",
        "transactions-markers/marker_losses=0/moves=0",
    ),
    (IDEMPOTENT.name, ACTORS): ("idempotent-tiny", "idempotent-default"),
}
"""Where is looked, by composition and observer."""


NEAR_THE_LAST_EPOCH: Final = "transactions-exhausted/delays=0/unheard=0/moves=0"
AT_LAST_EPOCH: Final = frozenset({"rotation", "id_memory", "previous_id"})
"""Rules that say what happens at the last epoch: they are looked for near it, others elsewhere."""


def scopes_for(composition: str, observer: str, rule: str) -> Sequence[str]:
    """Where is looked for what a rule does."""
    near = (SCOPES[composition, observer][0], NEAR_THE_LAST_EPOCH)
    return near if rule in AT_LAST_EPOCH else SCOPES[composition, observer]


def looks_at(composition: JudgedComposition) -> list[str]:
    """How systems of a composition are looked at."""
    return [observer for name, observer in SCOPES if name == composition.name]


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
    """The shortest trace of the first scope that has one, each searched so long. In a scope from
    which a trace is `known` that tells others of this rule apart, that one is tried before."""
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
        first, second = (OBSERVERS[observer](scope, v) for v in (variant, alternative.variant))
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


def _known(
    first: VariantObserver, second: VariantObserver, tried: Iterable[RuleVisibility]
) -> SearchResult | None:
    """A trace that is known, if it tells these apart."""
    for row in tried:
        if distinguishes(first, second, row.steps):
            return SearchResult(Visibility.FOUND, 0, row.steps)
    return None
