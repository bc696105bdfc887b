"""A coordinator that is elsewhere, loads, resigns, or was deposed and does not know it yet."""

from collections.abc import Callable

import pytest

from impl.coordinator.inspection import ListFilters
from impl.protocol.errors import ErrorCode
from tests.impl.coordinator.world import A0, B0, P0, T, World, begun, log_length

NONE = ErrorCode.NONE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
ELSEWHERE = ErrorCode.NOT_COORDINATOR
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
PARTITION = 34
"""Of T."""

Call = Callable[[World], ErrorCode]


def last_error(world: World) -> ErrorCode:
    return world.answers[-1].error


def init(world: World) -> ErrorCode:
    world.init()
    return last_error(world)


def init_again(world: World) -> ErrorCode:
    world.init(P0)
    return last_error(world)


def add(world: World) -> ErrorCode:
    world.add(P0, B0)
    return last_error(world)


def verify(world: World) -> ErrorCode:
    return world.core.verify_partitions(T, P0, [A0])[A0]


def commit(world: World) -> ErrorCode:
    world.end(P0)
    return last_error(world)


def commit_v2(world: World) -> ErrorCode:
    world.end(P0, version=2)
    return last_error(world)


def describe(world: World) -> ErrorCode:
    return world.core.describe(T).error


WRITING: list[Call] = [init, init_again, add, commit, commit_v2]
CALLS = [*WRITING, verify, describe]


@pytest.mark.parametrize("call", CALLS)
def test_a_broker_that_does_not_coordinate_refuses_and_does_nothing(call: Call) -> None:
    world = begun()
    before, log = len(world.markers), log_length(world)
    world.core.elect(PARTITION, 1)
    assert call(world) is LOADING
    world.core.resign(PARTITION, 2)
    assert call(world) is ELSEWHERE
    assert (len(world.markers), log_length(world)) == (before, log)
    assert world.core.view().transactions == ()


def test_a_list_is_refused_while_one_partition_loads() -> None:
    world = begun()
    world.core.elect(PARTITION - 1, 1)
    assert world.core.list_transactions(ListFilters(), 0).error is LOADING
    world.core.resign(PARTITION - 1)
    assert world.core.list_transactions(ListFilters(), 0).error is NONE


@pytest.mark.parametrize("call", WRITING)
@pytest.mark.parametrize(
    ("log_error", "wanted"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ELSEWHERE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ELSEWHERE),
        (ErrorCode.REQUEST_TIMED_OUT, UNAVAILABLE),
    ],
)
def test_who_was_deposed_and_does_not_know_cannot_write(
    call: Call, log_error: ErrorCode, wanted: ErrorCode
) -> None:
    """It answers when it hears of it, or when its replicas do not answer in time."""
    world = begun()
    image, answered = world.view().image, len(world.answers)
    world.holds_appends = True
    call(world)
    assert len(world.answers) == answered
    world.append(log_error, is_written=False)
    assert last_error(world) is wanted
    assert (world.view().image, world.view().pending_state) == (image, None)
    assert world.markers == []


def test_who_was_deposed_and_does_not_know_still_says_what_it_remembers() -> None:
    """Where nothing has to be written, nothing tells it that it is wrong."""
    world = begun()
    world.end(P0)
    world.holds_appends = True
    assert world.core.verify_partitions(T, P0, [A0]) == {A0: ErrorCode.TRANSACTION_ABORTABLE}
    assert commit(world) is NONE
    assert world.held_appends == []


@pytest.mark.parametrize("call", WRITING)
@pytest.mark.parametrize(
    ("then", "wanted"), [("resigned", ELSEWHERE), ("elected", LOADING), ("loaded", ELSEWHERE)]
)
def test_an_append_that_ends_after_a_move_is_not_remembered(
    call: Call, then: str, wanted: ErrorCode
) -> None:
    """The record may be in the log: the next load says so, not this answer."""
    world = begun()
    world.holds_appends = True
    call(world)
    records = list(world.log[PARTITION])
    if then == "resigned":
        world.core.resign(PARTITION, 1)
    else:
        world.core.elect(PARTITION, 1)
    if then == "loaded":
        world.carry_out(world.core.load(PARTITION, 1, records, world.now_ms))
    world.append()
    assert last_error(world) is wanted
    assert world.markers == []
    if then == "loaded":
        assert (world.state, world.view().pending_state) == ("Ongoing", None)


@pytest.mark.parametrize("moves", ["resigns", "is elected again"])
def test_who_resigns_forgets_its_markers(moves: str) -> None:
    world = begun(A0, B0)
    world.holds_markers = True
    world.end(P0)
    world.write_markers(ErrorCode.NOT_LEADER_OR_FOLLOWER, A0)
    (sent,) = world.held_markers
    if moves == "resigns":
        world.core.resign(PARTITION, 1)
    else:
        world.core.elect(PARTITION, 1)
    assert world.core.retry() == []
    late = dict.fromkeys(sent.partitions, NONE)
    assert world.core.on_markers_written(sent, late) == []
    assert world.core.abort_timed_out(world.now_ms + 10**9) == []
    assert world.core.remove_expired(world.now_ms + 10**12) == []


def test_who_loads_ends_and_forgets_nothing() -> None:
    world = begun()
    world.init(name="idle")
    for partition in world.core.view().coordinator_epochs:
        world.core.elect(partition, 1)
    assert world.core.abort_timed_out(world.now_ms + 10**9) == []
    assert world.core.remove_expired(world.now_ms + 10**12) == []


def test_a_load_that_is_overtaken_does_not_count() -> None:
    """The partition moves away, and perhaps back, before its log is read."""
    world = begun()
    records = list(world.log[PARTITION])
    world.core.elect(PARTITION, 1)
    world.core.resign(PARTITION, 2)
    assert world.core.load(PARTITION, 1, records, world.now_ms) == []
    assert init(world) is ELSEWHERE
    world.core.elect(PARTITION, 3)
    assert world.core.load(PARTITION, 1, records, world.now_ms) == []
    assert init(world) is LOADING


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commits", [True, False])
def test_after_the_load_all_markers_go_again_under_the_new_epoch(
    version: int, commits: bool
) -> None:
    world = begun(A0, B0, version=version)
    world.holds_markers = True
    world.end(P0, commit=commits, version=version)
    world.write_markers(NONE, A0)
    old = world.held_markers.pop()
    world.core.elect(PARTITION, 1)
    assert verify(world) is LOADING
    world.carry_out(world.core.load(PARTITION, 1, world.log[PARTITION], world.now_ms))
    (sent,) = world.held_markers
    assert (sent.coordinator_epoch, sent.partitions) == (1, {A0, B0})
    assert (sent.producer, sent.commit) == (old.producer, old.commit)
    assert sent.transaction_version == old.transaction_version == version
    world.holds_markers = False
    assert commit(world) is (BUSY if version == 0 else ErrorCode.PRODUCER_FENCED)
    world.carry_out(world.core.on_markers_written(old, dict.fromkeys([A0, B0], NONE)))
    assert world.view().pending_state is not None
    world.write_markers()
    assert world.state == ("CompleteCommit" if commits else "CompleteAbort")


def test_a_deposed_coordinators_fenced_marker_ends_its_attempt() -> None:
    world = begun(A0, B0)
    world.holds_markers = True
    world.end(P0)
    world.write_markers(ErrorCode.TRANSACTION_COORDINATOR_FENCED, A0)
    assert world.core.retry() == []
    assert (world.state, world.end(P0)) == ("PrepareCommit", (BUSY, (-1, -1)))


def test_a_deposed_coordinator_cannot_complete_and_leaves_it() -> None:
    world = begun()
    world.holds_markers = True
    world.end(P0)
    world.holds_appends = True
    world.write_markers()
    world.append(ErrorCode.NOT_LEADER_OR_FOLLOWER, is_written=False)
    assert world.core.retry() == []
    assert (world.state, world.view().pending_state) == ("PrepareCommit", None)
    assert (commit(world), init(world), add(world)) == (BUSY, BUSY, BUSY)
