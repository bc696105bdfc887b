"""Scopes of transactions in which impl is held to the model, and what is found there.

Each is judged as a whole, made smaller by its budgets so that it takes a second or two. What is
covered is exact: a step that is not followed any more is seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from conformance.adapters.impl.judges import judge_of, judge_range
from conformance.judging.compositions import TRANSACTIONS
from conformance.judging.findings import Summary
from conformance.judging.plan import Plan, PreparedPlan, prepare
from conformance.judging.signatures import INDEX
from impl.coordinator.effects import SendAnswer
from impl.coordinator.state_manager import TransactionStateManager
from impl.coordinator.transactions import TransactionCoordinator
from impl.producer.in_flight_requests import NO_NODE
from impl.producer.transactional_requests import TxnRequest, TxnRequestQueue
from impl.protocol.errors import ErrorCode
from tests.sizes import sized

add_partitions = TransactionCoordinator.add_partitions
find = TransactionStateManager.find
look_up = TxnRequestQueue.look_up
Planted = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., PreparedPlan]:
    """The cover of a scope of one variant."""
    where = tmp_path_factory.mktemp("scopes")

    @functools.cache
    def of(scope: str, variant: str) -> PreparedPlan:
        plan = Plan(
            scope=f"transactions-{scope}",
            variant=TRANSACTIONS.model.variants.parse(variant).name,
            actors=TRANSACTIONS.actors[0],
            traces_from=("cover",),
        )
        return prepare(plan, where / f"{scope}-{variant}".replace("/", "_"))

    return of


def judged(prepared: PreparedPlan) -> Summary:
    """All its traces, by a judge that has seen nothing before."""
    judge_of.cache_clear()
    return judge_range(prepared, 0, prepared.count).summary


COVERED = {
    ("offsets/begun=1", "v2"): (6689, 6689),
    ("offsets/begun=1/delays=0", "v1"): (1782, 1782),
    ("guards-partitions", "v1/late_bump=asked"): (2850, 2850),
    ("late-batch/begun=1/delays=1", "v2"): (8460, 8460),
    ("late-batch/begun=1/delays=1", "v1/late_bump=asked"): (20210, 20210),
    ("late-writes", "v2"): (4800, 4800),
    ("markers/begun=1", "v2"): (2541, 2541),
    ("late-marker", "v2"): (3259, 3259),
    ("readers/begun=1", "v2"): (11395, 11395),
    ("writes/delays=1", "v2"): (1695, 1695),
    ("offsets-log", "v2"): (7999, 7999),
    ("offsets-log", "v1/late_bump=asked"): (8675, 8675),
    ("log/begun=1/moves=0/timeouts=0/unheard=0", "v2"): (2258, 2258),
    ("trouble", "v2"): (193, 193),
    ("trouble", "v1"): (338, 338),
    ("trouble-log", "v2"): (670, 670),
    ("trouble-log", "3.9.2"): (848, 848),
    ("guards-partitions", "3.9.2/late_bump=asked"): (2870, 2870),
    ("guards-partitions", "3.3.2/late_bump=asked"): (2132, 2132),
    ("offsets-again", "v1"): (16686, 16686),
    ("offsets-again", "v1/group_memory=remembers"): (15832, 15832),
    ("two-expirations", "v1/late_bump=asked"): (12924, 12924),
    ("moves/begun=1", "v2"): (15524, 15524),
    ("moves/unheard=0/delays=0/expirations=0", "v1"): (13460, 13460),
    ("moves/begun=1/unheard=0", "level=0/requests=v1/late_bump=asked"): (6195, 6195),
    ("leaderless", "v2/leaderless_marker=waits"): (13810, 13810),
    ("leaderless", "v1/leaderless_marker=waits"): (27984, 27984),
}
"""Transitions that are followed, of how many."""


FULL = COVERED.keys() - {
    ("offsets/begun=1", "v2"),
    ("guards-partitions", "v1/late_bump=asked"),
    ("late-batch/begun=1/delays=1", "v2"),
    ("readers/begun=1", "v2"),
    ("writes/delays=1", "v2"),
    ("log/begun=1/moves=0/timeouts=0/unheard=0", "v2"),
    ("trouble", "v2"),
    ("trouble-log", "3.9.2"),
    ("moves/begun=1", "v2"),
    ("moves/begun=1/unheard=0", "level=0/requests=v1/late_bump=asked"),
}
"""The suite follows one of each kind, and those in which the bugs below are planted."""


@pytest.mark.parametrize(("scope", "variant"), sized(COVERED, FULL))
def test_a_scope_is_followed(prepared: Callable[..., PreparedPlan], scope: str, variant: str):
    whole = prepared(scope, variant)
    found = judged(whole)
    assert found.findings == {}
    assert (found.transitions_covered, whole.transitions_total) == COVERED[scope, variant]


# What is found


def planted(path: str, value: Any) -> Planted:
    return lambda monkeypatch: monkeypatch.setattr(path, value)


def ends_well(offsets: Any, producer_id: int, number: int) -> None:
    """Every marker is a COMMIT to the group's offsets."""
    offsets.committed.update(offsets.pending.pop(producer_id, {}))


def hasty(coordinator: Any, request: Any, *given: Any) -> list[Any]:
    """AddPartitionsToTxn is answered, whatever becomes of it."""
    effects = add_partitions(coordinator, request, *given)
    return [*effects, SendAnswer(request, ErrorCode.NONE)] if len(effects) == 1 else effects


def serves_at_once(states: TransactionStateManager, transactional_id: str) -> Any:
    """Who loads knows of nobody."""
    found = find(states, transactional_id)
    return None if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else found


def looks_once(queue: TxnRequestQueue, request: TxnRequest) -> None:
    """Whoever was found once is the coordinator for ever."""
    assert request.coordinator is not None
    if queue.coordinator(request.coordinator) == NO_NODE:
        look_up(queue, request)


FOUND: dict[str, tuple[str, str, Planted, str]] = {
    "aborted offsets count": (
        "offsets/begun=1",
        "v2",
        planted("impl.coordinator.offsets_state.GroupOffsets._apply_marker", ends_well),
        "leader[1].offsets.committed",
    ),
    "pending offsets are stable": (
        "offsets/begun=1",
        "v2",
        planted("impl.coordinator.offsets_state.GroupOffsets.has_pending", lambda *_: False),
        "leader[1].offsets.stable",
    ),
    "the group is not added": (
        "offsets/begun=1/delays=0",
        "v1",
        planted(
            "impl.producer.transactional_requests.TxnRequestQueue.add_offsets",
            lambda queue, identity, offsets, group: queue.txn_offset_commit(
                identity, offsets, group, queue.end_txn(identity, is_commit=False)
            ),
        ),
        "client[0].partitions[1].membership",
    ),
    "readers are not told what is aborted": (
        "readers/begun=1",
        "v2",
        planted("impl.partition.reading.find_overlapping", lambda *_: []),
        "leader[0].read_committed",
    ),
    "readers see what is open": (
        "readers/begun=1",
        "v2",
        planted(
            "impl.partition.leader.PartitionLeader.last_stable_offset",
            property(lambda leader: leader.log_end_offset),
        ),
        "leader[0].last_stable_offset",
    ),
    "a guard is not looked at": (
        "guards-partitions",
        "v1/late_bump=asked",
        planted("impl.partition.transactions.is_verified", lambda *_: True),
        "leader[0].answers.error",
    ),
    "an append that failed is on its way for ever": (
        "log/begun=1/moves=0/timeouts=0/unheard=0",
        "v2",
        planted("impl.coordinator.metadata.TransactionMetadata.cancel", lambda *_: None),
        "coordinator.answers",
    ),
    "what was reported as failed counts": (
        "log/begun=1/moves=0/timeouts=0/unheard=0",
        "v2",
        planted("impl.coordinator.state_manager.APPEND_ERRORS", {19: ErrorCode.NONE}),
        "coordinator.answers.error",
    ),
    "an answer comes before the log": (
        "offsets-log",
        "v1",
        planted("impl.coordinator.transactions.TransactionCoordinator.add_partitions", hasty),
        "coordinator.refuses",
    ),
    "epochs never end": (
        "trouble",
        "v2",
        planted("impl.coordinator.init_producer_id.is_epoch_exhausted", lambda *_: False),
        "coordinator.answers.error",
    ),
    "who loads has nothing to load": (
        "moves/begun=1",
        "v2",
        planted("impl.coordinator.state_manager.TransactionStateManager.find", serves_at_once),
        "coordinator.refuses",
    ),
    "a client keeps to a coordinator that is none": (
        "moves/begun=1",
        "v2",
        planted("impl.producer.transactional_requests.TxnRequestQueue.look_up", looks_once),
        "raised",
    ),
    "what has expired was never sent": (
        "late-batch/begun=1/delays=1",
        "v2",
        planted(
            "impl.producer.transaction_manager.TransactionManager.fail_transaction",
            lambda *_, **__: None,
        ),
        "client[0].state",
    ),
}


ON_PURPOSE = {
    ("guards-partitions", "v1"): "client[0].outcomes",
    ("leaderless", "v2"): "coordinator.markers",
}
"""Where impl is not as Kafka 4.3.1 is, and should not be."""


@pytest.mark.parametrize(("scope", "variant"), sized(ON_PURPOSE, [("leaderless", "v2")]))
def test_where_impl_departs_from_kafka_the_judge_says_so(
    prepared: Callable[..., PreparedPlan], scope: str, variant: str
):
    found = judged(prepared(scope, variant)).findings
    assert found
    field = INDEX.sub("", ON_PURPOSE[scope, variant])
    assert all(field in signature.fields for signature in found)


@pytest.mark.parametrize(
    "name", sized(FOUND, ["the group is not added", "an answer comes before the log"])
)
def test_a_planted_bug_is_found(
    prepared: Callable[..., PreparedPlan], name: str, monkeypatch: pytest.MonkeyPatch
):
    scope, variant, plant, field = FOUND[name]
    plant(monkeypatch)
    found = judged(prepared(scope, variant)).findings
    assert INDEX.sub("", field) in {path for signature in found for path in signature.fields}
