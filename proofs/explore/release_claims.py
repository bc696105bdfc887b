"""The claims about a scope under releases that are not the newest, and under any other variant.

A scope's claims are made for the newest release. This table says how older releases differ. It is
measured, by `kafka-eos explore SCOPE --variant RELEASE --witnesses`, in all scopes of at most
`MOST_STATES` states, and a test measures it again. If a text disables an older release, every
exploration of that release finds this: in the explored scope, or in its composition's gauge, which
is explored next to it. If a rule is replaced, everything that happens under each release and each
rule must happen in the gauge: its core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proofs.explore.expected import EXPECTED
from proofs.lift.source import composition_of, load_model

MOST_STATES = 1_400
"""The number of states, under the newest release, of the largest scope in the table."""

Names = Mapping[tuple[str, str], frozenset[str]]
"""Events and witnesses, by scope and release."""


def read_names(text: str) -> Names:
    """Read the names of a text of lines `SCOPE RELEASE ...: NAME ...`."""
    found = dict[tuple[str, str], frozenset[str]]()
    for line in text.strip().splitlines():
        (scope, *releases), names = (part.split() for part in line.split(":"))
        found |= {(scope, release): frozenset(names) for release in releases}
    return found


GAUGES: Mapping[str, str] = {
    "idempotent": "idempotent-tiny",
    "transactions": "transactions-tiny",
    "producer_ids": "producer-ids-alone",
}
"""The gauge of each composition: a scope that is explored next to scopes without claims. (Scopes of
processing have claims under each of its releases.)"""

MEASURED_TOO = ("processing",)
"""Larger scopes that are also in the table, because their composition has no small scope."""

NEVER = read_names(
    """
idempotent-shared-id 2.4.1 2.0.0: client_receives_producer_id
idempotent-producers 2.4.1 2.0.0: client_receives_producer_id
idempotent-five-in-flight 2.4.1 2.0.0: client_receives_producer_id
idempotent-late-error 2.4.1 2.0.0: client_receives_producer_id
idempotent-wrap 2.4.1 2.0.0: client_receives_producer_id
idempotent-wrap-across 2.4.1 2.0.0: client_receives_producer_id
delivery 2.4.1 2.0.0: client_receives_producer_id
delivery-one-in-flight 2.4.1 2.0.0: client_receives_producer_id
producer-ids-alone 2.8.2 2.4.1 2.0.0: all_is_given
transactions-in-flight-moves 3.3.2: zombie_died batch_is_produced_again
"""
)
"""Events that never happen in a scope under these releases, although they must under the newest."""

HAPPENS = read_names(
    """
idempotent-tiny 2.4.1 2.0.0: something_failed
idempotent-five-forgotten 2.4.1 2.0.0: something_failed
idempotent-expiry 2.4.1 2.0.0: something_failed
idempotent-restart 2.4.1 2.0.0: something_failed
idempotent-loss 2.4.1 2.0.0: something_failed
idempotent-forgotten 2.4.1 2.0.0: something_failed
transactions-guards-partitions 3.9.2 3.3.2: late_addition_arrives
transactions-window 3.9.2 3.3.2: late_addition_arrives
transactions-in-flight 3.9.2 3.3.2: late_addition_arrives
"""
)
"""Events that happen in a scope under these releases, and never under the newest."""

CORE: Mapping[str, frozenset[str]] = {
    "idempotent-tiny": frozenset(
        {
            *("client_sends", "request_arrives", "late_request_arrives", "connection_breaks"),
            *("leader_restarts", "batch_behind_another", "something_acknowledged"),
        }
    ),
    "transactions-tiny": frozenset(
        {
            *("instance_begins", "producer_id_is_asked", "transaction_begins", "record_is_sent"),
            *("batch_is_produced", "commit_is_asked", "abort_is_asked", "transaction_is_ended"),
            *("marker_is_written", "something_committed", "something_aborted"),
        }
    ),
    "producer-ids-alone": frozenset(
        {"producer_asks", "producer_id_is_given", "block_turns_over", "a_block_is_used_up"}
    ),
}
"""Everything that happens in a gauge under each release, and under the newest with any one rule
replaced."""


def never_in(scope: str, release: str, never: Mapping[str, str]) -> dict[str, str]:
    """Return what never happens in a scope under a release, with the reason; `never` is what the
    scope says for the newest release."""
    why = f"not in {release}"
    more = dict.fromkeys(sorted(NEVER.get((scope, release), ())), why)
    happens = HAPPENS.get((scope, release), frozenset())
    return {name: why for name, why in {**never, **more}.items() if name not in happens}


def release_of(home: str, variant: Any) -> str:
    """Return the name of the release that equals a variant; "" if a rule is replaced."""
    releases = load_model(home).variants.RELEASES
    return next((name for name, release in releases.items() if release == variant), "")


def is_claimed(scope: str, variant: Any) -> bool:
    """Whether there are claims about what must happen in a named scope under a release."""
    found = EXPECTED.get(scope)
    is_small = found is not None and (found.distinct <= MOST_STATES or scope in MEASURED_TOO)
    return is_small and bool(release_of(composition_of(scope), variant))
