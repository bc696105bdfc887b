"""EndTxn: every cell of both tables, the guards in order, overflow, the check after the append."""

from dataclasses import replace

import pytest

from impl.coordinator.effects import SendAnswer
from impl.coordinator.states import ONLY_PENDING, PREPARED, TransactionState
from impl.protocol.errors import ErrorCode
from tests.impl.coordinator.world import A0, B0, FIRST_ID, World, producer, refused, served

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED
NONE = ErrorCode.NONE
S = TransactionState
STATES = sorted(set(S) - ONLY_PENDING)


def in_state(state: TransactionState, version: int, **rules: object) -> World:
    """A world whose id is in this state, nothing pending but what a prepared state brings."""
    world = World(**rules)
    world.init()
    if state is S.EMPTY:
        return world
    world.add(producer(FIRST_ID, 0), A0, version=version)
    if state is S.ONGOING:
        return world
    world.holds_markers = state in PREPARED
    commit = state in (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)
    world.end(producer(FIRST_ID, 0), commit=commit, version=version)
    assert world.view().image.state is state
    return world


V1 = {  # state: COMMIT, ABORT; None means that the transaction ends
    S.EMPTY: (INVALID, INVALID),
    S.ONGOING: (None, None),
    S.PREPARE_COMMIT: (BUSY, BUSY),  # CompleteX is pending while markers are sent
    S.PREPARE_ABORT: (BUSY, BUSY),
    S.COMPLETE_COMMIT: (NONE, INVALID),
    S.COMPLETE_ABORT: (INVALID, NONE),
}


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_v1(state: TransactionState, commit: bool) -> None:
    world = in_state(state, 0)
    before, log = world.view(), sum(map(len, world.log.values()))
    answer = world.end(producer(FIRST_ID, 0), commit=commit)
    wanted = V1[state][0 if commit else 1]
    if wanted is not None:
        assert answer == refused(wanted)
        assert world.view() == before
        assert sum(map(len, world.log.values())) == log
    else:
        assert answer == refused(NONE)
        assert world.state == ("CompleteCommit" if commit else "CompleteAbort")
        assert world.view().image.identity == producer(FIRST_ID, 0)
        assert world.view().image.partitions == frozenset()


V2 = {  # state: COMMIT retry, current; ABORT retry, current
    S.EMPTY: (FENCED, INVALID, FENCED, None),
    S.ONGOING: (FENCED, None, FENCED, None),
    S.PREPARE_COMMIT: (BUSY, BUSY, BUSY, BUSY),
    S.PREPARE_ABORT: (BUSY, BUSY, BUSY, BUSY),
    S.COMPLETE_COMMIT: (NONE, INVALID, INVALID, None),
    S.COMPLETE_ABORT: (INVALID, INVALID, NONE, None),
}


@pytest.mark.parametrize("is_current", [False, True])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_v2(state: TransactionState, commit: bool, is_current: bool) -> None:
    world = in_state(state, 2)
    before = world.view()
    known = before.image.producer_epoch
    who = producer(FIRST_ID, known if is_current else known - 1)
    answer = world.end(who, commit=commit, version=2)
    wanted = V2[state][(0 if commit else 2) + is_current]
    if wanted is None:
        assert answer == served(FIRST_ID, known + 1)
        assert world.state == ("CompleteCommit" if commit else "CompleteAbort")
        assert world.view().image.last_producer_epoch == known
    else:
        assert answer == (served(FIRST_ID, known) if wanted is NONE else refused(wanted))
        assert world.view() == before


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("state", sorted(PREPARED))
def test_the_rows_of_prepared_states_show_when_nothing_is_pending(
    version: int, state: TransactionState, column: int
) -> None:
    """As after an append of CompleteX that failed for good."""
    commit, is_current = column < 2, bool(column % 2)
    world = in_state(state, version)
    world.holds_appends = True
    world.write_markers()
    world.append(ErrorCode.CORRUPT_MESSAGE, is_written=False)
    assert (world.view().image.state, world.view().pending_state) == (state, None)
    epoch = world.view().image.producer_epoch - (version == 2 and not is_current)
    answer = world.end(producer(FIRST_ID, epoch), commit=commit, version=version)
    same = commit == (state is S.PREPARE_COMMIT)
    if version == 2 and is_current:
        assert answer == refused(FENCED)
    else:
        assert answer == refused(BUSY if same else INVALID)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("name", ["", None])
def test_an_id_is_needed(version: int, name: str | None) -> None:
    world = in_state(S.ONGOING, version)
    answer = world.end(producer(FIRST_ID, 0), version=version, name=name)
    assert answer == refused(ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    ("who", "name", "wanted"),
    [
        (producer(FIRST_ID, 0), "other", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (producer(FIRST_ID + 1, 0), "T", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (producer(FIRST_ID, 1), "T", FENCED),
        (producer(FIRST_ID, 5), "T", FENCED),
    ],
)
def test_who_is_not_known_is_refused(
    version: int, who: object, name: str, wanted: ErrorCode
) -> None:
    world = in_state(S.ONGOING, version)
    assert world.end(who, version=version, name=name) == refused(wanted)
    assert world.state == "Ongoing"


@pytest.mark.parametrize("version", [0, 2])
def test_the_order_of_id_epoch_and_pending(version: int) -> None:
    stranger, old = producer(7, 0), producer(FIRST_ID, 9)
    first = in_state(S.PREPARE_COMMIT, version)
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert first.end(stranger, version=version) == refused(BUSY if version else mapping)
    assert first.end(old, version=version) == refused(BUSY if version else FENCED)
    second = in_state(S.PREPARE_COMMIT, version, end_txn_pending_first=False)
    assert second.end(stranger, version=version) == refused(mapping)
    assert second.end(old, version=version) == refused(FENCED)
    epoch = second.view().image.producer_epoch - (version == 2)
    assert second.end(producer(FIRST_ID, epoch), version=version) == refused(BUSY)


def test_before_2_6_a_higher_epoch_passed() -> None:
    world = in_state(S.ONGOING, 0, strict_end_txn_epoch=False)
    assert world.end(producer(FIRST_ID, -1)) == refused(FENCED)
    world.holds_appends = True
    assert world.end(producer(FIRST_ID, 3)) is None
    assert world.view().pending_state is S.PREPARE_COMMIT


# ---- V2 at the end of the epochs


def at_epoch(epoch: int, **rules: object) -> World:
    """An open V2 transaction at this epoch."""
    world = World(**rules)
    world.init()
    world.load(replace(world.view().image, producer_epoch=epoch - 1))
    world.init()
    world.add(producer(FIRST_ID, epoch), A0, version=2)
    return world


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_epoch_rotates_the_producer_id(commit: bool) -> None:
    world = at_epoch(32766)
    new = served(FIRST_ID + 1, 0)
    assert world.end(producer(FIRST_ID, 32766), commit=commit, version=2) == new
    assert world.markers[-1].producer == producer(FIRST_ID, 32767)
    image = world.view().image
    assert (image.previous_producer_id, image.last_producer_epoch) == (FIRST_ID, 32766)
    assert world.end(producer(FIRST_ID, 32766), commit=commit, version=2) == new
    other = world.end(producer(FIRST_ID, 32766), commit=not commit, version=2)
    assert other == refused(INVALID)
    assert world.end(producer(FIRST_ID, 32765), commit=commit, version=2) == refused(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )


def test_at_the_very_last_epoch_only_an_abort_ends() -> None:
    """KAFKA-20090: nothing should bring an id there; it is helped out."""
    for commit, wanted in ((True, refused(ErrorCode.UNKNOWN_SERVER_ERROR)), (False, None)):
        world = at_epoch(32766)
        world.load(replace(world.view().image, producer_epoch=32767))
        answer = world.end(producer(FIRST_ID, 32767), commit=commit, version=2)
        assert answer == (wanted or served(FIRST_ID + 1 + commit, 0))


def test_without_a_new_id_the_last_epoch_cannot_end() -> None:
    world = at_epoch(32766)
    world.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answer = world.end(producer(FIRST_ID, 32766), version=2)
    assert answer == refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert (world.state, world.view().pending_state) == ("Ongoing", None)


def test_an_overflow_survives_a_failover_where_the_log_has_the_next_id() -> None:
    for logs, wanted in ((True, producer(FIRST_ID + 1, 0)), (False, producer(FIRST_ID, 32767))):
        world = at_epoch(32766, logs_producer_ids=logs)
        world.holds_markers = True
        world.end(producer(FIRST_ID, 32766), version=2)
        world.fail_over()
        assert world.state == "PrepareCommit"
        world.write_markers()
        assert world.view().image.identity == wanted


# ---- between the append and the answer


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    ("log_error", "wanted"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_failed_append_leaves_memory_as_it_was(
    version: int, log_error: ErrorCode, wanted: ErrorCode
) -> None:
    world = in_state(S.ONGOING, version)
    before = world.view()
    world.holds_appends = True
    assert world.end(producer(FIRST_ID, 0), version=version) is None
    assert world.view().pending_state is S.PREPARE_COMMIT
    assert world.end(producer(FIRST_ID, 0), version=version) == refused(BUSY)
    world.append(log_error, is_written=False)
    assert world.answers[-1] == SendAnswer("end", wanted)
    assert world.view() == before


def test_a_commit_that_failed_for_its_client_is_made_by_the_next_coordinator() -> None:
    world = in_state(S.ONGOING, 0)
    world.holds_appends = True
    world.end(producer(FIRST_ID, 0))
    world.append(ErrorCode.REQUEST_TIMED_OUT, is_written=True)
    assert world.state == "Ongoing"
    world.holds_appends = False
    world.fail_over()
    assert world.markers[-1].commit
    assert world.state == "CompleteCommit"


def test_an_append_that_ends_after_the_leader_moved_changes_nothing() -> None:
    world = in_state(S.ONGOING, 2)
    world.holds_appends = True
    world.end(producer(FIRST_ID, 0), version=2)
    partition = world.held_appends[0].partition
    world.core.resign(partition)
    world.append()
    assert world.answers[-1].error is ErrorCode.NOT_COORDINATOR
    world.core.elect(partition, 1)
    assert world.end(producer(FIRST_ID, 0), version=2) == refused(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )


def test_an_append_that_ends_while_the_next_epoch_loads_or_is_loaded() -> None:
    for is_loaded, wanted in (
        (False, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (True, ErrorCode.NOT_COORDINATOR),
    ):
        world = in_state(S.ONGOING, 2)
        world.holds_appends = True
        world.end(producer(FIRST_ID, 0), version=2)
        partition = world.held_appends[0].partition
        world.core.elect(partition, 1)
        if is_loaded:
            world.carry_out(world.core.load(partition, 1, world.log[partition], world.now_ms))
        world.append(is_written=False)
        assert world.answers[-1].error is wanted


def test_a_v2_abort_of_nothing_is_logged_and_sends_no_marker() -> None:
    world = in_state(S.EMPTY, 2)
    world.now_ms = 9_000
    assert world.end(producer(FIRST_ID, 0), commit=False, version=2) == served(FIRST_ID, 1)
    assert world.markers == []
    image = world.view().image
    assert (image.state, image.start_timestamp_ms) == (S.COMPLETE_ABORT, 9_000)
    assert world.end(producer(FIRST_ID, 1), commit=False, version=2) == served(FIRST_ID, 2)


def test_a_v2_markers_carries_the_new_epoch_and_the_version() -> None:
    world = in_state(S.ONGOING, 2)
    world.add(producer(FIRST_ID, 0), B0, version=2)
    world.end(producer(FIRST_ID, 0), version=2)
    sent = world.markers[-1]
    assert (sent.producer, sent.commit, sent.transaction_version) == (
        producer(FIRST_ID, 1),
        True,
        2,
    )
    assert sent.partitions == {A0, B0}
    assert world.add(producer(FIRST_ID, 0), version=2) is FENCED
    assert world.add(producer(FIRST_ID, 1), version=2) is NONE
