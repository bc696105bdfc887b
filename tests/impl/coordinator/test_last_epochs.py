"""The last epochs of a producer id, release by release, as real brokers answered.

Three brokers of a release each, the log of transactions with 3 in-sync replicas of 3; where the log
is to refuse an append, one follower was frozen. The experiments are those of `docs/breaches.md`.
"""

from dataclasses import replace

import pytest

from impl.coordinator.config import CONFIGS
from impl.coordinator.metadata import TransactionImage
from impl.coordinator.placement import partition_for
from impl.coordinator.states import TransactionState
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import ProducerIdAndEpoch
from tests.impl.coordinator.world import A0, FIRST_ID, T, World, producer, refused, served

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
NONE = ErrorCode.NONE
S = TransactionState

P = FIRST_ID - 1
P_LAST = producer(P, 32766)
P_KEPT_BACK = producer(P, 32767)
Q = FIRST_ID
CONFIG_OF = {
    "3.3.2": "2.6",
    "3.9.2": "3.8",
    "4.0.2": "4.0",
    "4.1.2": "4.1",
    "4.2.1": "4.1",
    "4.3.1": "4.3",
}


def at_last_epoch(release: str, level: int, state: TransactionState, version: int = 0) -> World:
    """T is P:32766 in this state, at a coordinator of this release."""
    world = World(replace(CONFIGS[CONFIG_OF[release]], transaction_version=level))
    world.load(
        TransactionImage(
            P,
            32766,
            60_000,
            state,
            frozenset({A0} if state is S.ONGOING else ()),
            start_timestamp_ms=world.now_ms,
            client_transaction_version=version,
        )
    )
    return world


def known(world: World, name: str = T) -> tuple[str, ProducerIdAndEpoch]:
    """State and identity, nothing pending."""
    view = world.view(name)
    assert view.pending_state is None
    return view.image.state.title, view.image.identity


def time_out(world: World) -> None:
    world.now_ms += 60_001
    world.carry_out(world.core.abort_timed_out(world.now_ms))


def open_around(world: World) -> tuple[str, str]:
    """Two more ids with open transactions: one that a scan looks at before T, and one behind it."""
    names = [f"T{number}" for number in range(200)]
    place = partition_for(T, world.config.num_partitions)
    places = {name: partition_for(name, world.config.num_partitions) for name in names}
    before = next(name for name in names if places[name] < place)
    behind = next(name for name in names if places[name] > place)
    for name in (before, behind):
        assert world.init(name=name) is not None
        assert world.add(world.view(name).image.identity, name=name) is NONE
    return before, behind


# ---- the log refuses a fence


def fence_refused(release: str, level: int) -> World:
    """A fence of P:32766 does not come into the log, which then takes what is written again."""
    world = at_last_epoch(release, level, S.ONGOING)
    world.holds_appends = True
    assert world.init() is None
    world.append(ErrorCode.NOT_ENOUGH_REPLICAS, is_written=False)
    assert world.answers[-1].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert known(world) == ("Ongoing", P_KEPT_BACK)
    world.holds_appends = False
    return world


STUCK = [("3.9.2", 0), ("4.2.1", 1)]
REPEATS = [("4.3.1", 0), ("4.3.1", 1)]


@pytest.mark.parametrize(("release", "level"), STUCK)
def test_before_4_3_a_refused_fence_leaves_no_epoch_to_fence_with(release: str, level: int) -> None:
    world = fence_refused(release, level)
    for _ in range(3):
        assert world.init() == refused(UNKNOWN)
        for commit in (True, False):
            assert world.end(P_LAST, commit=commit) == refused(FENCED)
        time_out(world)
        assert known(world) == ("Ongoing", P_KEPT_BACK)
    assert world.markers == []


@pytest.mark.parametrize(("release", "level"), STUCK)
def test_before_4_3_time_outs_behind_it_are_not_looked_at(release: str, level: int) -> None:
    world = fence_refused(release, level)
    before, behind = open_around(world)
    for _ in range(3):
        time_out(world)
        assert known(world, before)[0] == "CompleteAbort"
        assert known(world, behind)[0] == "Ongoing"


@pytest.mark.parametrize(("release", "level"), STUCK)
def test_before_4_3_a_refused_fence_is_forgotten_where_the_coordinator_moves(
    release: str, level: int
) -> None:
    """The log has the epoch before the fence."""
    world = fence_refused(release, level)
    _, behind = open_around(world)
    world.fail_over()
    assert known(world) == ("Ongoing", P_LAST)
    time_out(world)
    assert known(world) == ("CompleteAbort", P_KEPT_BACK)
    assert known(world, behind)[0] == "CompleteAbort"


@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize(("release", "level"), REPEATS)
def test_since_4_3_a_refused_fence_is_repeated_at_its_own_epoch(
    release: str, level: int, by_time: bool
) -> None:
    world = fence_refused(release, level)
    _, behind = open_around(world)
    if by_time:
        time_out(world)
        assert known(world, behind)[0] == "CompleteAbort"
    else:
        assert world.init() == refused(BUSY)
    fence = next(sent for sent in world.markers if sent.transactional_id == T)
    assert (fence.producer, fence.commit) == (P_KEPT_BACK, False)
    assert known(world) == ("CompleteAbort", P_KEPT_BACK)
    assert world.end(P_LAST) == refused(FENCED)
    answer = world.init()
    assert answer is not None
    error, (producer_id, epoch) = answer
    assert (error, epoch) == (NONE, 0)
    assert producer_id != P


# ---- a V2 client goes on under the last epoch


@pytest.mark.parametrize("release", ["4.0.2", "4.1.2", "4.2.1"])
def test_before_4_3_a_v2_client_goes_on_under_the_last_epoch(release: str) -> None:
    """KAFKA-20090."""
    world = at_last_epoch(release, 2, S.ONGOING, version=2)
    time_out(world)
    assert known(world) == ("CompleteAbort", P_KEPT_BACK)
    assert world.end(P_LAST, commit=False, version=2) == served(*P_KEPT_BACK)
    assert world.add(P_KEPT_BACK, version=2) is NONE
    before, behind = open_around(world)
    assert world.init() == refused(UNKNOWN)
    for commit in (True, False):
        assert world.end(P_KEPT_BACK, commit=commit, version=2) == refused(UNKNOWN)
    time_out(world)
    assert known(world) == ("Ongoing", P_KEPT_BACK)
    assert (known(world, before)[0], known(world, behind)[0]) == ("CompleteAbort", "Ongoing")


def test_since_4_3_a_v2_client_goes_on_under_the_next_producer_id() -> None:
    world = at_last_epoch("4.3.1", 2, S.ONGOING, version=2)
    time_out(world)
    assert world.end(P_LAST, commit=False, version=2) == served(Q, 0)
    assert world.add(producer(Q, 0), version=2) is NONE
    assert world.end(producer(Q, 0), version=2) == served(Q, 1)


# ---- an instance of the producer id before this one comes back


def successor_open(release: str, level: int, expected: ProducerIdAndEpoch | None) -> World:
    """InitProducerId has gone from P:32766 to Q:0, and Q has a transaction open."""
    world = at_last_epoch(release, level, S.EMPTY)
    assert world.init(expected) == served(Q, 0)
    assert world.add(producer(Q, 0)) is NONE
    return world


@pytest.mark.parametrize("expected", [None, P_LAST])
@pytest.mark.parametrize(
    ("release", "level"), [("3.3.2", 0), ("3.9.2", 0), ("4.0.2", 0), ("4.0.2", 2)]
)
def test_up_to_4_0_who_was_the_producer_id_before_fences_its_successor(
    release: str, level: int, expected: ProducerIdAndEpoch | None
) -> None:
    world = successor_open(release, level, expected)
    assert world.init(P_LAST) == refused(BUSY)
    assert world.markers[-1].producer == producer(Q, 1)
    assert known(world) == ("CompleteAbort", producer(Q, 1))
    assert world.end(producer(Q, 0)) == refused(FENCED)


@pytest.mark.parametrize("expected", [None, P_LAST])
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("release", ["4.1.2", "4.2.1", "4.3.1"])
def test_since_4_1_who_was_the_producer_id_before_is_fenced_itself(
    release: str, level: int, expected: ProducerIdAndEpoch | None
) -> None:
    world = successor_open(release, level, expected)
    assert world.init(P_LAST) == refused(FENCED)
    assert known(world) == ("Ongoing", producer(Q, 0))
    assert world.end(producer(Q, 0)) == refused(NONE)
    assert known(world) == ("CompleteCommit", producer(Q, 0))
