"""Which scopes are searched, smallest first, for what tells a variant from another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from conformance.compositions import IDEMPOTENT, TRANSACTIONS, JudgedComposition
from conformance.distinguish.known import ACTORS, ONE_BROKER, THREE_BROKERS, Row
from conformance.distinguish.observers import (
    ActorObserver,
    NodesObserver,
    ServerObserver,
)
from conformance.distinguish.product import (
    Answer,
    Observer,
    Searched,
    search,
    tells_apart,
)
from conformance.distinguish.rules import Alternative

OBSERVERS: Final[Mapping[str, Callable[[str, str], Observer]]] = {
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


def scopes_for(composition: str, seen_by: str, rule: str) -> Sequence[str]:
    """Where is looked for what a rule does."""
    near = (SCOPES[composition, seen_by][0], NEAR_THE_LAST_EPOCH)
    return near if rule in AT_LAST_EPOCH else SCOPES[composition, seen_by]


def looks_at(composition: JudgedComposition) -> list[str]:
    """How systems of a composition are looked at."""
    return [seen_by for name, seen_by in SCOPES if name == composition.name]


def answer(
    composition: JudgedComposition,
    variant: str,
    alternative: Alternative,
    seen_by: str,
    seconds: float,
    *,
    known: Iterable[Row] = (),
    scopes: Sequence[str] = (),
) -> Row:
    """The shortest trace of the first scope that has one, each searched so long. In a scope from
    which a trace is `known` that tells others of this rule apart, that one is tried before."""
    asked = Row(
        composition.name,
        variant,
        alternative.rule,
        alternative.own,
        alternative.value,
        seen_by,
        Answer.NOT_VISIBLE,
    )
    searched: dict[str, int] = {}
    for scope in scopes or scopes_for(composition.name, seen_by, alternative.rule):
        first, second = (OBSERVERS[seen_by](scope, v) for v in (variant, alternative.variant))
        tried = [r for r in known if (r.rule, r.scope, r.seen_by) == (asked.rule, scope, seen_by)]
        found = _known(first, second, tried) or search(first, second, seconds)
        searched[scope] = found.pairs
        asked = replace(asked, searched=searched)
        if found.answer is Answer.FOUND:
            steps = first.trace(found.steps)
            return replace(asked, answer=found.answer, scope=scope, steps=steps)
        if found.answer is Answer.NOT_FOUND:
            asked = replace(asked, answer=found.answer)
    return asked


def _known(first: Observer, second: Observer, tried: Iterable[Row]) -> Searched | None:
    """A trace that is known, if it tells these apart."""
    for row in tried:
        if tells_apart(first, second, row.steps):
            return Searched(Answer.FOUND, 0, row.steps)
    return None
