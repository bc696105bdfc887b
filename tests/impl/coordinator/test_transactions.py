"""Partitions added and markers written: a coordinator and one transaction."""

import pytest

from impl.coordinator.config import TransactionConfig
from impl.coordinator.log_records import decode_value
from impl.coordinator.markers import ACTIONS, MarkerAction
from impl.coordinator.metadata import TopicPartition
from impl.coordinator.states import TransactionState
from impl.protocol.errors import ErrorCode
from tests.impl.coordinator.world import (
    A0,
    B0,
    FIRST_ID,
    P0,
    T,
    World,
    begun,
    log_length,
    producer,
    refused,
    served,
)

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NONE = ErrorCode.NONE
S = TransactionState


# ---- AddPartitionsToTxn


@pytest.mark.parametrize("name", ["", None])
def test_adding_needs_an_id(name: str | None) -> None:
    world = begun()
    assert world.add(P0, name=name) is ErrorCode.INVALID_REQUEST
    errors = world.core.verify_partitions(name, P0, [A0])
    assert errors == {A0: ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("who", "name", "wanted"),
    [
        (P0, "other", MAPPING),
        (producer(7, 0), T, MAPPING),
        (producer(FIRST_ID, 1), T, FENCED),
        (producer(FIRST_ID, -1), T, FENCED),
    ],
)
def test_only_the_current_producer_adds_and_verifies(
    who: object, name: str, wanted: ErrorCode
) -> None:
    world = begun()
    assert world.add(who, B0, name=name) is wanted
    assert world.core.verify_partitions(name, who, [A0]) == {A0: wanted}
    assert world.view().image.partitions == {A0}


def test_partitions_are_added_once_and_the_clock_starts_with_the_first() -> None:
    world = begun()
    started = world.now_ms
    world.now_ms += 10
    length = log_length(world)
    assert world.add(P0, A0) is NONE
    assert log_length(world) == length
    assert world.add(P0, A0, B0) is NONE
    assert log_length(world) == length + 1
    image = world.view().image
    assert image.partitions == {A0, B0}
    assert (image.start_timestamp_ms, image.last_update_timestamp_ms) == (started, started + 10)


@pytest.mark.parametrize(("version", "recorded"), [(0, 0), (2, 2)])
def test_the_log_says_which_conversation_began_the_transaction(version: int, recorded: int) -> None:
    world = begun(version=version)
    value = world.log[34][-1][1]
    assert decode_value(value).client_transaction_version == recorded


def test_adding_waits_for_a_pending_transition() -> None:
    world = begun()
    world.holds_appends = True
    assert world.add(P0, B0) is None
    assert world.add(P0, A0) is BUSY
    assert world.add(producer(7, 0), A0) is BUSY
    assert world.add(producer(FIRST_ID, 1), A0) is BUSY
    assert world.core.verify_partitions(T, P0, [A0, B0]) == {
        A0: NONE,
        B0: ErrorCode.TRANSACTION_ABORTABLE,
    }
    world.append()
    assert world.core.verify_partitions(T, P0, [B0]) == {B0: NONE}


def test_before_kafka_18660_the_producer_is_looked_at_first() -> None:
    world = begun(add_partitions_pending_first=False)
    world.holds_appends = True
    world.add(P0, B0)
    assert world.add(producer(7, 0), A0) is MAPPING
    assert world.add(producer(FIRST_ID, 1), A0) is FENCED
    assert world.add(P0, A0) is BUSY


@pytest.mark.parametrize("commit", [True, False])
def test_adding_waits_for_the_markers(commit: bool) -> None:
    world = begun()
    world.holds_markers = True
    world.end(P0, commit=commit)
    assert world.add(P0, A0) is BUSY
    assert world.core.verify_partitions(T, P0, [A0]) == {A0: BUSY}
    world.write_markers()
    assert world.core.verify_partitions(T, P0, [A0]) == {A0: ErrorCode.TRANSACTION_ABORTABLE}
    world.now_ms += 7
    assert world.add(P0, B0) is NONE
    assert world.view().image.start_timestamp_ms == world.now_ms
    assert world.view().image.partitions == {B0}


def test_before_3_8_a_partition_outside_is_an_invalid_state() -> None:
    world = begun(absent_partition_error=ErrorCode.INVALID_TXN_STATE)
    assert world.core.verify_partitions(T, P0, [A0, B0]) == {
        A0: NONE,
        B0: ErrorCode.INVALID_TXN_STATE,
    }


def test_an_add_that_fails_adds_nothing() -> None:
    world = begun()
    world.holds_appends = True
    world.add(P0, B0)
    world.append(ErrorCode.NOT_ENOUGH_REPLICAS, is_written=False)
    assert world.answers[-1].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.view().image.partitions == {A0}


# ---- markers


def ended(*partitions: TopicPartition) -> World:
    world = begun(*partitions)
    world.holds_markers = True
    world.end(P0)
    return world


def test_completion_waits_for_the_last_marker() -> None:
    world = ended(A0, B0)
    world.write_markers(NONE, A0)
    assert (world.state, world.view().image.partitions) == ("PrepareCommit", {B0})
    assert world.view().markers_sent == {B0}
    world.write_markers(NONE, A0)
    assert world.state == "PrepareCommit"
    world.write_markers(NONE, B0)
    assert (world.state, world.view().markers_sent) == ("CompleteCommit", frozenset())


@pytest.mark.parametrize("error", sorted(ErrorCode))
def test_what_each_answer_of_a_leader_means(error: ErrorCode) -> None:
    world = ended(A0, B0)
    world.write_markers(error, A0)
    view, action = world.view(), ACTIONS.get(error, MarkerAction.STOP)
    assert view.markers_waiting == ({A0} if action is MarkerAction.RETRY else frozenset())
    assert view.image.partitions == ({B0} if action is MarkerAction.DONE else {A0, B0})
    world.write_markers(NONE, B0)
    world.carry_out(world.core.retry())
    if action is MarkerAction.RETRY:
        assert world.markers[-1].partitions == {A0}
        world.write_markers(NONE, A0)
    stops = action is MarkerAction.STOP
    assert world.state == ("PrepareCommit" if stops else "CompleteCommit")
    assert world.view().pending_state is (S.COMPLETE_COMMIT if stops else None)


def test_the_actions_are_those_of_kafka() -> None:
    again = {error for error, action in ACTIONS.items() if action is MarkerAction.RETRY}
    done = {error for error, action in ACTIONS.items() if action is MarkerAction.DONE}
    assert {int(error) for error in again} == {3, 6, 7, 13, 19, 20, 56}
    assert {int(error) for error in done} == {0, 35, 43}


def test_a_fenced_marker_waits_for_the_next_coordinator() -> None:
    world = ended(A0)
    world.write_markers(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert world.core.retry() == []
    assert world.end(P0) == refused(BUSY)
    world.fail_over()
    assert world.markers[-1].coordinator_epoch == 1
    world.write_markers()
    assert world.state == "CompleteCommit"


def test_answers_of_an_older_end_do_not_count() -> None:
    world = ended(A0)
    first = world.held_markers[0]
    world.write_markers()
    world.add(P0, A0)
    world.end(P0)
    assert world.core.on_markers_written(first, {A0: NONE}) == []
    assert world.state == "PrepareCommit"
    world.write_markers()
    assert world.state == "CompleteCommit"


def test_answers_after_the_leader_moved_do_not_count() -> None:
    world = ended(A0)
    sent = world.held_markers[0]
    world.core.resign(34)
    assert world.core.on_markers_written(sent, {A0: NONE}) == []
    assert world.core.retry() == []


def test_complete_is_logged_again_until_it_is() -> None:
    world = ended(A0)
    world.holds_appends = True
    world.write_markers()
    for _ in range(3):
        world.append(ErrorCode.NOT_ENOUGH_REPLICAS, is_written=False)
        assert world.view().pending_state is S.COMPLETE_COMMIT
        assert world.end(P0) == refused(BUSY)
        world.carry_out(world.core.retry())
    world.append()
    assert world.state == "CompleteCommit"
    assert world.core.retry() == []


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE])
def test_complete_that_cannot_be_logged_here_is_left_to_the_next(error: ErrorCode) -> None:
    world = ended(A0)
    world.holds_appends = True
    world.write_markers()
    world.append(error, is_written=False)
    assert world.core.retry() == []
    world.holds_appends = world.holds_markers = False
    world.fail_over()
    assert world.state == "CompleteCommit"


def test_a_token_comes_back_once() -> None:
    world = begun()
    world.holds_appends = True
    world.add(P0, B0)
    token = world.held_appends[0].token
    world.append()
    with pytest.raises(KeyError):
        world.core.on_appended(token, NONE, 0)


def test_complete_is_logged_once_however_often_leaders_answer() -> None:
    world = ended(A0)
    world.holds_appends = True
    world.write_markers(NONE, A0)
    world.write_markers(NONE, A0)
    assert len(world.held_appends) == 1


def test_a_prepared_id_takes_no_partitions_even_when_nothing_is_pending() -> None:
    world = ended(A0)
    world.holds_appends = True
    world.write_markers()
    world.append(ErrorCode.CORRUPT_MESSAGE, is_written=False)
    assert world.view().pending_state is None
    assert world.add(P0, A0) is BUSY


def test_markers_of_an_older_leadership_are_not_sent_again() -> None:
    """The log that the next one reads is shorter: the end was never replicated."""
    world = ended(A0)
    world.write_markers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.core.elect(34, 1)
    assert world.core.load(34, 1, world.log[34][:2], world.now_ms) == []
    assert world.core.retry() == []
    assert world.state == "Ongoing"


# ---- V2 requests at a lower level


def test_level_0_cannot_log_a_v2_client_and_stays_busy_until_the_next_coordinator() -> None:
    """As 4.3.1 does: the exception comes between the pending mark and the append."""
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    for asks in (
        lambda world: world.add(P0, version=2),
        lambda world: world.end(P0, commit=False, version=2)[0],
    ):
        world = World(transaction_version=0)
        world.init()
        assert asks(world) is unsupported
        assert (world.state, world.core.view().pending_appends) == ("Empty", ())
        assert world.init() == refused(BUSY)
        assert world.core.remove_expired(1 << 60) == []
        world.fail_over()
        assert world.init() == served(FIRST_ID, 1)


def test_level_1_serves_v2_clients() -> None:
    world = begun(version=2, transaction_version=1)
    assert world.end(P0, version=2) == served(FIRST_ID, 1)


def test_a_prepared_v2_transaction_loaded_at_level_0_is_not_completed() -> None:
    world = begun(version=2)
    world.holds_markers = True
    world.end(P0, version=2)
    world.config = TransactionConfig(transaction_version=0)
    world.fail_over()
    world.write_markers()
    assert world.core.retry() == []
    assert (world.state, world.view().pending_state) == ("PrepareCommit", S.COMPLETE_COMMIT)
