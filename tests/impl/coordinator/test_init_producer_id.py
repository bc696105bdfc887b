"""InitProducerId: every row, retries (KIP-360), exhaustion, the fence of an open transaction."""

from dataclasses import replace

import pytest

from impl.coordinator.config import CONFIGS
from impl.coordinator.metadata import TransactionImage
from impl.coordinator.states import TransactionState
from impl.protocol.errors import ErrorCode
from tests.impl.coordinator.world import A0, FIRST_ID, World, producer, refused, served

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
S = TransactionState
IDLE = [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]


def loaded(state: TransactionState, epoch: int, **rules: object) -> World:
    """An id that the log knows in this state; `last_producer_epoch` is not in the log."""
    world = World(**rules)
    world.load(TransactionImage(FIRST_ID - 1, epoch, 60_000, state, start_timestamp_ms=1))
    return world


ID = FIRST_ID - 1


def test_without_an_id_each_producer_has_its_own() -> None:
    world = World()
    assert world.init(name=None) == served(FIRST_ID, 0)
    assert world.init(producer(5, 5), name=None, timeout_ms=-1) == served(FIRST_ID + 1, 0)
    world.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.init(name=None) == refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert world.log == {}


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_has_bounds(timeout_ms: int) -> None:
    world = World()
    assert world.init(timeout_ms=timeout_ms) == refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    assert world.init(timeout_ms=900_000) == served(FIRST_ID, 0)


def test_an_empty_id_is_refused_before_its_timeout() -> None:
    assert World().init(name="", timeout_ms=0) == refused(ErrorCode.INVALID_REQUEST)


def test_a_broker_that_does_not_lead_says_so() -> None:
    world = World()
    world.core.resign(34)
    assert world.init() == refused(ErrorCode.NOT_COORDINATOR)
    world.core.elect(34, 1)
    assert world.init() == refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_a_fresh_id_needs_a_producer_id() -> None:
    world = World()
    world.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.init() == refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert world.core.view().transactions == ()


def test_a_fresh_id_begins_at_epoch_0_and_takes_any_producer() -> None:
    assert World().init() == served(FIRST_ID, 0)
    assert World().init(producer(7, 7)) == served(FIRST_ID, 0)


def test_a_first_append_that_fails_leaves_an_id_without_epoch() -> None:
    world = World()
    world.holds_appends = True
    assert world.init() is None
    world.append(ErrorCode.NOT_ENOUGH_REPLICAS, is_written=False)
    assert world.answers[-1].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.view().image.producer_epoch == -1
    world.holds_appends = False
    assert world.add(producer(FIRST_ID, 0)) is FENCED
    assert world.init(producer(7, 7)) == served(FIRST_ID, 0)


def test_row_a_a_pending_transition_is_waited_for() -> None:
    world = World()
    world.holds_appends = True
    assert world.init() is None
    assert world.init() == refused(BUSY)
    assert world.init(producer(7, 7)) == refused(BUSY)
    world.append()
    assert world.answers[-1].producer == producer(FIRST_ID, 0)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize(
    ("epoch", "expected", "wanted"),
    [
        (4, producer(7, 4), refused(FENCED)),  # b: another producer id
        (4, producer(7, 32766), refused(FENCED)),
        (32766, None, served(FIRST_ID, 0)),  # d: exhausted
        (32767, None, served(FIRST_ID, 0)),
        (32766, producer(ID, 32766), served(FIRST_ID, 0)),
        (4, None, served(ID, 5)),  # e
        (4, producer(ID, 4), served(ID, 5)),  # f
        (4, producer(ID, 3), refused(FENCED)),  # h
        (4, producer(ID, 5), refused(FENCED)),
        (32766, producer(ID, 4), refused(ErrorCode.UNKNOWN_SERVER_ERROR)),  # Kafka's own quirk
    ],
)
def test_rows_of_an_idle_id(
    state: TransactionState, epoch: int, expected: object, wanted: object
) -> None:
    world = loaded(state, epoch)
    assert world.init(expected) == wanted
    if wanted[0]:
        assert (world.view().image.state, world.view().pending_state) == (state, None)
    else:
        image = world.view().image
        assert (image.state, image.partitions, image.start_timestamp_ms) == (
            S.EMPTY,
            frozenset(),
            -1,
        )
        assert image.last_update_timestamp_ms == world.now_ms


@pytest.mark.parametrize("state", IDLE)
def test_row_g_a_bump_whose_answer_was_lost_is_answered_again(state: TransactionState) -> None:
    world = loaded(state, 4)
    for _ in range(3):
        assert world.init(producer(ID, 4)) == served(ID, 5)
    assert world.init() == served(ID, 6)
    assert world.init(producer(ID, 5)) == refused(FENCED)


def test_row_g_is_forgotten_by_a_failover() -> None:
    world = loaded(S.EMPTY, 4)
    assert world.init(producer(ID, 4)) == served(ID, 5)
    world.fail_over()
    assert world.init(producer(ID, 4)) == refused(FENCED)


def test_a_rotation_whose_answer_was_lost_is_answered_again() -> None:
    world = loaded(S.EMPTY, 32766)
    for _ in range(2):
        assert world.init(producer(ID, 32766)) == served(FIRST_ID, 0)
    assert world.view().image.previous_producer_id == FIRST_ID
    world = loaded(S.EMPTY, 32766)
    world.init(producer(ID, 32766))
    assert world.init(producer(ID, 0)) == refused(FENCED)
    assert world.init(producer(ID, 32766)) == served(FIRST_ID, 0)
    assert world.init(producer(ID, 32766)) == refused(FENCED)


def test_a_rotation_needs_a_producer_id() -> None:
    world = loaded(S.EMPTY, 32766)
    world.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.init() == refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert world.view().pending_state is None


@pytest.mark.parametrize("commit", [True, False])
def test_row_c_markers_are_waited_for(commit: bool) -> None:
    world = loaded(S.EMPTY, 4)
    world.init()
    world.add(producer(ID, 5), A0)
    world.holds_markers = True
    world.end(producer(ID, 5), commit=commit)
    assert world.init() == refused(BUSY)
    world.write_markers()
    assert world.init() == served(ID, 6)


# ---- row i: an open transaction is fenced


def open_at(epoch: int, **rules: object) -> World:
    world = loaded(S.EMPTY, epoch - 1, **rules)
    world.init(producer(ID, epoch - 1))
    assert world.view().image.last_producer_epoch == epoch - 1
    assert world.add(producer(ID, epoch), A0) is ErrorCode.NONE
    return world


@pytest.mark.parametrize(
    ("level", "bump", "aborted", "last"),
    [(0, "once", 5, -1), (2, "once", 5, 4), (2, "twice", 6, 5)],
)
@pytest.mark.parametrize("expected", [None, producer(ID, 4), producer(ID, 77)])
def test_row_i_a_fence_aborts_then_the_client_comes_again(
    level: int, bump: str, aborted: int, last: int, expected: object
) -> None:
    world = open_at(4, transaction_version=level, fence_bump=bump)
    assert world.init(expected) == refused(BUSY)
    sent = world.markers[-1]
    assert (sent.producer, sent.commit) == (producer(ID, aborted), False)
    image = world.view().image
    assert (image.state, image.identity) == (S.COMPLETE_ABORT, producer(ID, aborted))
    assert image.last_producer_epoch == last
    assert world.add(producer(ID, 4), A0) is FENCED
    assert world.init() == served(ID, aborted + 1)


def test_row_i_another_producer_id_fences_no_producer() -> None:
    world = open_at(4)
    assert world.init(producer(7, 4)) == refused(FENCED)
    assert world.state == "Ongoing"


@pytest.mark.parametrize(
    ("level", "bump", "in_memory"), [(0, "once", True), (2, "once", False), (2, "twice", True)]
)
def test_a_fence_that_fails_is_not_bumped_again(level: int, bump: str, in_memory: bool) -> None:
    world = open_at(4, transaction_version=level, fence_bump=bump)
    world.holds_appends = True
    for _ in range(3):
        assert world.init() is None
        assert world.view().pending_state is S.PREPARE_ABORT
        world.append(ErrorCode.NOT_ENOUGH_REPLICAS, is_written=False)
        assert world.answers[-1].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        view = world.view()
        assert view.image.producer_epoch == (5 if in_memory else 4)
        assert view.has_failed_epoch_fence is in_memory
        assert view.pending_state is None
    world.holds_appends = False
    assert world.init() == refused(BUSY)
    assert world.view().image.producer_epoch == (6 if bump == "twice" else 5)
    assert not world.view().has_failed_epoch_fence


def test_a_fence_at_the_last_epoch_of_clients_rotates_at_level_2() -> None:
    world = open_at(32766)
    assert world.init() == refused(BUSY)
    assert world.markers[-1].producer == producer(ID, 32767)
    assert world.view().image.identity == producer(FIRST_ID, 0)
    assert world.init() == served(FIRST_ID, 1)


def test_a_fence_at_the_last_epoch_of_clients_below_level_2() -> None:
    world = open_at(32766, transaction_version=0)
    assert world.init() == refused(BUSY)
    assert world.view().image.identity == producer(ID, 32767)
    assert world.init() == served(FIRST_ID, 0)


def test_a_fence_at_the_last_epoch_of_clients_before_4_3() -> None:
    """At level 2, too, only a client's end rotates (KAFKA-20090); the next InitProducerId does."""
    world = open_at(32766, own_aborts_rotate=CONFIGS["4.1"].own_aborts_rotate)
    assert world.init() == refused(BUSY)
    assert world.markers[-1].producer == producer(ID, 32767)
    assert world.view().image.identity == producer(ID, 32767)
    assert world.init() == served(FIRST_ID, 0)


def test_a_fence_at_level_2_needs_an_id_to_rotate_to() -> None:
    world = open_at(32766)
    world.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.init() == refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert (world.state, world.view().pending_state) == ("Ongoing", None)


def test_4_0_0_cannot_fence_at_the_last_epoch_of_clients() -> None:
    """Twice one is beyond an int16 (KAFKA-19367)."""
    world = open_at(32766, fence_bump="twice", tolerates_last_epoch=False)
    assert world.init() == refused(ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("tolerates", [True, False])
def test_an_id_that_is_stuck_at_the_very_last_epoch(level: int, tolerates: bool) -> None:
    """KAFKA-20090: nothing should bring it there; a later release lets it go on."""
    world = loaded(S.EMPTY, 0, transaction_version=level, tolerates_last_epoch=tolerates)
    image = replace(
        world.view().image, state=S.ONGOING, producer_epoch=32767, partitions=frozenset({A0})
    )
    world.load(image)
    if tolerates:
        assert world.init() == refused(BUSY)
        assert world.markers[-1].producer == producer(ID, 32767)
        rotated = producer(FIRST_ID, 0) if level else producer(ID, 32767)
        assert world.view().image.identity == rotated
    else:
        assert world.init() == refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        assert (world.state, world.view().pending_state) == ("Ongoing", None)


def test_the_timeout_of_the_request_counts_from_then_on() -> None:
    world = loaded(S.EMPTY, 4)
    world.init(timeout_ms=123)
    assert world.view().image.transaction_timeout_ms == 123
    world.holds_appends = True
    world.init(timeout_ms=456)
    assert world.held_appends[0].timeout_ms == 456
