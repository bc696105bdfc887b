"""The configurations of a survey: every scope that is small enough, and other eras where they
differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proofs.coverage.events import events_of
from proofs.coverage.survey import Survey, SurveyCase
from proofs.explore.expected import EXPECTED
from proofs.explore.scope import DEFAULT_VARIANT, read_pairs
from proofs.lift.patch import Patch
from proofs.lift.source import COMPOSITIONS, composition_of, load_model, model_for
from proofs.trace.replay import scope_of

LARGEST = 200_000
"""The number of states of the largest scope whose graph is kept."""

NOT_WORTH_COMPILING = 2_000
"""The number of states of the largest scope that integers explore before C is compiled."""

ERAS = read_pairs(
    """
first_sequence=strict: idempotent-tiny
first_sequence=unknown_producer_id: idempotent-tiny idempotent-timeout
restart_window=full: idempotent-tiny
head_truncation=evicts: idempotent-deletion idempotent-loss
validation=epoch_only: idempotent-tiny
validation=none: idempotent-tiny
recovery=reset_2_3: idempotent-tiny
recovery=reset_2_3/retries=one: idempotent-tiny
recovery=reset_2_0: idempotent-tiny
expiry=queued_only: idempotent-trouble
retries=one: idempotent-tiny
acks=leader: idempotent-tiny
acks=none: delivery-one-in-flight
idempotence=disabled: idempotent-tiny idempotent-too-large idempotent-timeout
idempotence=disabled/retries=one: idempotent-tiny
idempotence=disabled/retries=none: delivery
sequence_order=wraps: idempotent-tiny idempotent-wrap
2.4.1: idempotent-tiny idempotent-expiry idempotent-timeout idempotent-forgotten-split
2.0.0: idempotent-timeout idempotent-too-large idempotent-forgotten idempotent-forgotten-split
2.0.0/retries=one: idempotent-forgotten
3.9.2-zookeeper: producer-ids
2.8.2: producer-ids
v1: transactions-tiny transactions-default transactions-markers transactions-guards
    transactions-offsets transactions-writes transactions-offsets-log transactions-offsets-again
    transactions-guards-partitions transactions-two-expirations transactions-moves
    transactions-in-flight transactions-in-flight-again transactions-in-flight-three
    transactions-in-flight-three/expirations=2 transactions-in-flight-offsets
    transactions-rejection transactions-in-flight-rejection
level=0/requests=v1: transactions-trouble transactions-trouble-log/failures=2/timeouts=1
level=1: transactions-trouble-log/failures=2/timeouts=1/moves=1
verification=none: transactions-tiny
4.2.1: transactions-exhausted/delays=0/unheard=0 transactions-exhausted/delays=0/moves=0
4.2.1/level=1: transactions-trouble-log/failures=2/timeouts=1/moves=1
4.1.2: transactions-markers
4.0.2: transactions-default transactions-writes
3.9.2: transactions-default transactions-exhausted/moves=0/timeouts=0/expirations=1
3.3.2: transactions-default transactions-offsets
requests=v1/bump=goes_on: transactions-default transactions-adopted
requests=v1/late_bump=asked: transactions-guards-partitions
requests=v1/group_memory=remembers: transactions-offsets-again
leaderless_marker=waits: transactions-leaderless/leaves=2 transactions-readers/begun=1/leaves=1
requests=v1/verification=none: transactions-tiny
requests=v1/pending=after_producer: transactions-tiny
marker_epoch=not_older: transactions-tiny
marker_epoch=strictly_newer: transactions-markers
first_sequence=any: transactions-tiny
requests=v1/first_sequence=any: transactions-moves
fence=same_epoch: transactions-trouble
rotation=clients: transactions-tiny
previous_id=kept: transactions-tiny
older_epoch=asked: transactions-default
ongoing=of_producer_id: transactions-default
id_memory=in_memory: transactions-tiny
transactional_ids=of_partition: processing
generation_check=absent: processing
offset_reads=unstable: processing
processing=produce_first: processing
processing=commit_first: processing
"""
)
"""Configurations that show what the default variant never does, some with budgets by hand."""

TROUBLES: Mapping[str, Sequence[str]] = {
    "idempotent-trouble": ("rejections=1",),
    "idempotent-replicas": ("rejections=1/timeouts=0/expiries=0/deletions=0",),
    "idempotent-exhausted": ("rejections=1/losses=0/restarts=0",),
    "transactions-in-flight-three": ("expirations=2",),
    "transactions-trouble": (
        "begun=2/unheard=1",
        "delays=2/unheard=1/timeouts=1",
        "delays=1/unheard=1/expirations=1/marker_losses=1/marker_delays=1/timeouts=1",
        "delays=1/unheard=1/expirations=1/moves=1/forgotten=1",
        "unheard=1/expirations=1/marker_losses=1/marker_delays=1/timeouts=1/moves=1/forgotten=1",
        "others=1/delays=1/unheard=1/expirations=1",
        "leaves=1/delays=1/unheard=1/expirations=1/timeouts=1/others=1",
        "leaves=1/marker_losses=1/marker_delays=1/moves=1/forgotten=1",
        "others=1/marker_losses=1/marker_delays=1/timeouts=1/moves=1/forgotten=1",
        "rejections=1/delays=1/unheard=1/others=1",
        "rejections=1/marker_losses=1/marker_delays=1/timeouts=1/moves=1/forgotten=1",
        "rejections=1/leaves=1/begun=2/expirations=1",
    ),
    "transactions-moves": ("moves=2/begun=1/unheard=0",),
    "transactions-trouble-log": (
        "failures=2/moves=2",
        "unheard=2/failures=1/moves=1",
        "delays=1/failures=1/moves=1/expirations=1",
        "failures=1/moves=1/timeouts=1/marker_losses=1/marker_delays=1/forgotten=1",
        "failures=1/moves=1/others=1",
        "leaves=1/unheard=1/failures=1/moves=1",
        "unheard=1/delays=1/expirations=1",
        "unheard=1/marker_losses=1/marker_delays=1/timeouts=1/forgotten=1",
        "unheard=1/others=1",
        "rejections=1/failures=2/moves=1/unheard=1",
    ),
}
"""Budgets by hand: every two events meet in one of these scopes; all budgets at once would make the
scopes too large."""


def conversations(budgets: str) -> tuple[str, ...]:
    """Return the versions of requests for budgets: V1 too if requests may be late, because
    AddPartitionsToTxn exists only there."""
    return ("v2", "v1") if "delays" in budgets else ("v2",)


class ScopeTooLargeForSurvey(ValueError):
    """The graph of the scope is too large to keep."""


def size(scope: str) -> int:
    """Return the scope's number of states under the default variant, 0 if it has not been counted.

    Budgets by hand only reduce it.
    """
    counted = EXPECTED.get(scope.partition("/")[0])
    return counted.distinct if counted else 0


def small_scopes() -> list[str]:
    """Return the scopes that are surveyed if none is named, the smallest first."""
    models = tuple(map(load_model, COMPOSITIONS))
    every = [scope for model in models for scope in model.scopes.SCOPES]
    return sorted((scope for scope in every if size(scope) <= LARGEST), key=size)


def is_asked(scope: str, scopes: Sequence[str]) -> bool:
    """Whether a scope is among the requested ones; a scope that is too large to be listed is
    included if all small scopes of its composition are."""
    if size(scope) <= LARGEST:
        return scope in scopes
    composition = composition_of(scope)
    return {other for other in small_scopes() if composition_of(other) == composition} <= set(
        scopes
    )


def survey_cases(scopes: Sequence[str], engine: str) -> list[SurveyCase]:
    """Return the configurations to survey. Raises UnknownScope, ScopeTooLargeForSurvey."""
    for scope in scopes:
        scope_of(model_for(scope), scope)
        if size(scope) > LARGEST:
            states = f"{scope} has {size(scope):,} states"
            raise ScopeTooLargeForSurvey(f"{states}; name scopes of at most {LARGEST:,}")
    configurations = [(scope, DEFAULT_VARIANT) for scope in scopes]
    configurations += [
        (scope, variant) for scope, variant in ERAS if is_asked(scope.partition("/")[0], scopes)
    ]
    configurations += [
        (f"{scope}/{budgets}", variant)
        for scope in scopes
        for budgets in TROUBLES.get(scope, ())
        for variant in conversations(budgets)
    ]
    return [
        SurveyCase(scope, variant, engine_for(scope, engine)) for scope, variant in configurations
    ]


def engine_for(scope: str, engine: str) -> str:
    """Return integers as the engine if the scope is small and has no budgets by hand, which make
    some scopes larger."""
    is_small = size(scope) <= NOT_WORTH_COMPILING and "/" not in scope
    return "ints" if is_small else engine


def surveys(looks: Sequence[SurveyCase], patches: Sequence[Patch] = ()) -> dict[str, Survey]:
    """Return an empty survey for each model that the cases need, by composition.

    Raises PatchError.
    """
    compositions = dict.fromkeys(composition_of(look.scope) for look in looks)
    models = {h: load_model(h, patches) for h in compositions}
    return {composition: Survey(model, events_of(model)) for composition, model in models.items()}
