"""What must happen in a scope under a release that is not the newest; and under any variant at all.

A scope's claims are made for the newest release. Where an older one differs, this table says how;
it is measured, by `kafka-eos explore SCOPE --variant RELEASE --witnesses`, in all scopes of at most
`MOST_STATES` states, and a test measures it again. So a text in which an older release does nothing
is found by every exploration of that release: if not in the scope that is asked, then in its
composition's gauge, which is explored beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proofs.explore.expected import EXPECTED
from proofs.lift.source import composition_of, load_model

MOST_STATES = 2_000
"""The states of the newest release in the largest scope of which the table speaks."""

GAUGES: Mapping[str, str] = {
    "idempotent": "idempotent-tiny",
    "transactions": "transactions-tiny",
    "producer_ids": "producer-ids-alone",
}
"""Of each composition the scope that is explored beside one of which nothing is claimed. (Scopes of
processing are claimed under each of its releases.)"""

NEVER_EITHER: Mapping[tuple[str, str], tuple[str, ...]] = {}
"""What never happens under a release in a scope in which it must under the newest."""

HAPPENS: Mapping[tuple[str, str], tuple[str, ...]] = {}
"""What happens under a release in a scope that never has it under the newest."""

CORE: Mapping[str, frozenset[str]] = {}
"""What happens in a gauge whatever the rules of its variant are."""


def is_release(home: str, variant: Any) -> bool:
    """Whether a variant is a release as it was, no rule replaced."""
    return variant in load_model(home).variants.RELEASES.values()


def is_claimed(scope: str, variant: Any) -> bool:
    """Whether it is known of a named scope what must happen under a release."""
    found = EXPECTED.get(scope)
    small = found is not None and (found.distinct <= MOST_STATES or scope.startswith("processing"))
    return small and is_release(composition_of(scope), variant)
