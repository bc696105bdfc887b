"""A partition that nobody leads when its marker is due: does the marker wait, or is it skipped?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.systems.transactions_nodes.leaderless import (
    ABORT,
    BEFORE,
    COMMIT,
    ORDERS,
    decide_without_leader,
)
from conformance.systems.transactions_nodes.nodes import Nodes
from conformance.transactions.facts.lab import Lab, experiment
from conformance.transactions.wire import Conversation

TIMES: Final = 3


@experiment("v1", nodes=3, alone=True, seated=True)
def leaderless_v1(lab: Lab) -> None:
    """A commit by V1 requests, in each order."""
    _decided(lab, lab.v1, ORDERS, COMMIT)


@experiment("v2", nodes=3, alone=True, seated=True)
def leaderless_v2(lab: Lab) -> None:
    """V2 requests."""
    _decided(lab, lab.v2, ORDERS, COMMIT)


@experiment("v1", nodes=3, alone=True, seated=True)
def leaderless_abort_v1(lab: Lab) -> None:
    """An abort by V1 requests."""
    _decided(lab, lab.v1, (BEFORE,), ABORT)


@experiment("v2", nodes=3, alone=True, seated=True)
def leaderless_abort_v2(lab: Lab) -> None:
    """V2 requests."""
    _decided(lab, lab.v2, (BEFORE,), ABORT)


def _decided(lab: Lab, c: Conversation, orders: Sequence[str], committed: bool) -> None:
    """Each order three times."""
    nodes = Nodes(lab.ground, c)
    for order in orders:
        turns = [decide_without_leader(nodes, c, order, committed) for _ in range(TIMES)]
        for alike in zip(*turns, strict=True):
            seen = " | ".join(sorted({fact.observed for fact in alike}))
            lab.fact(f"{order}: {alike[0].name}", alike[0].expected, seen)
