"""Time-outs, expiry, failover, inspection, histories: a coordinator over time."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.coordinator.config import CONFIGS, TransactionConfig
from impl.coordinator.effects import AppendRecords, SendMarkers
from impl.coordinator.inspection import ListFilters
from impl.coordinator.log_records import decode_value, encode_key
from impl.coordinator.metadata import TransactionImage
from impl.coordinator.states import PREPARED, TransactionState
from impl.coordinator.transactions import TransactionCoordinator
from impl.protocol.errors import DecodeError, ErrorCode
from tests.impl.coordinator.world import (
    A0,
    B0,
    FIRST_ID,
    P0,
    T,
    World,
    begun,
    producer,
    refused,
    served,
)

BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NONE = ErrorCode.NONE
S = TransactionState


# ---- time-outs


def test_a_transaction_times_out_strictly_after_its_timeout() -> None:
    world = begun()
    world.now_ms += 60_000
    assert world.core.abort_timed_out(world.now_ms) == []
    world.now_ms += 1
    world.carry_out(world.core.abort_timed_out(world.now_ms))
    assert world.state == "CompleteAbort"
    assert world.markers[-1].producer == producer(FIRST_ID, 1)
    assert world.core.abort_timed_out(world.now_ms) == []


def test_a_timeout_counts_from_the_first_partition_and_through_a_failover() -> None:
    world = begun()
    world.now_ms += 59_000
    world.add(P0, B0)
    world.fail_over()
    world.now_ms += 1_001
    world.carry_out(world.core.abort_timed_out(world.now_ms))
    assert world.state == "CompleteAbort"


def timed_out(version: int = 2, **rules: object) -> World:
    world = begun(version=version, **rules)
    world.now_ms += 60_001
    world.carry_out(world.core.abort_timed_out(world.now_ms))
    assert world.state == "CompleteAbort"
    return world


def test_after_a_timeout_a_v2_producer_aborts_and_goes_on() -> None:
    world = timed_out()
    assert world.add(P0, A0, version=2) is FENCED
    assert world.end(P0, version=2) == refused(ErrorCode.INVALID_TXN_STATE)
    assert world.end(P0, commit=False, version=2) == served(FIRST_ID, 1)
    assert world.add(producer(FIRST_ID, 1), A0, version=2) is NONE


@pytest.mark.parametrize(
    ("version", "rules"), [(2, {"fence_bump": "twice"}), (0, {"transaction_version": 0})]
)
def test_after_a_timeout_other_producers_are_fenced(version: int, rules: dict[str, object]) -> None:
    world = timed_out(version, **rules)
    assert world.end(P0, commit=False, version=version) == refused(FENCED)


def test_a_timeout_that_fails_is_tried_by_the_next_scan() -> None:
    world = begun()
    world.now_ms += 60_001
    world.holds_appends = True
    for _ in range(2):
        world.carry_out(world.core.abort_timed_out(world.now_ms))
        assert world.core.abort_timed_out(world.now_ms) == []
        world.append(ErrorCode.NOT_ENOUGH_REPLICAS, is_written=False)
        assert world.answers[-1].request == "add"
    world.holds_appends = False
    world.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.carry_out(world.core.abort_timed_out(world.now_ms))
    assert world.state == "CompleteAbort"


def test_a_timeout_at_the_last_epoch_waits_for_an_id() -> None:
    world = begun(version=2)
    world.load(replace(world.view().image, producer_epoch=32766))
    world.now_ms += 60_001
    world.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.core.abort_timed_out(world.now_ms) == []
    assert world.view().pending_state is None
    world.id_error = NONE
    world.carry_out(world.core.abort_timed_out(world.now_ms))
    assert world.view().image.producer_epoch == 0


def test_a_two_phase_commit_never_times_out() -> None:
    world = begun()
    world.load(replace(world.view().image, transaction_timeout_ms=2147483647))
    assert world.core.abort_timed_out(1 << 60) == []


# ---- expiry

WEEK_MS = 604_800_000


def test_an_idle_id_is_forgotten_after_a_week() -> None:
    world = begun()
    world.end(P0)
    world.now_ms += WEEK_MS - 1
    assert world.core.remove_expired(world.now_ms) == []
    world.now_ms += 1
    world.carry_out(world.core.remove_expired(world.now_ms))
    assert world.core.view().transactions == ()
    assert world.log[34][-1] == (encode_key(T), None)
    assert world.add(P0) is MAPPING
    assert world.end(P0) == refused(MAPPING)
    world.fail_over()
    assert world.core.view().transactions == ()
    assert world.init(P0) == served(FIRST_ID + 1, 0)


def test_an_open_or_pending_id_is_not_forgotten() -> None:
    world = begun()
    assert world.core.remove_expired(1 << 60) == []
    world.holds_markers = True
    world.end(P0)
    assert world.core.remove_expired(1 << 60) == []


def test_a_tombstone_that_fails_forgets_nothing() -> None:
    world = begun()
    world.end(P0)
    world.now_ms += WEEK_MS
    world.holds_appends = True
    world.carry_out(world.core.remove_expired(world.now_ms))
    assert world.view().pending_state is S.DEAD
    assert world.init() == refused(BUSY)
    assert world.held_appends[0].timeout_ms == world.config.request_timeout_ms
    world.append(ErrorCode.NOT_ENOUGH_REPLICAS, is_written=False)
    assert world.view().pending_state is None
    world.carry_out(world.core.remove_expired(world.now_ms))
    world.core.elect(34, 1)
    world.carry_out(world.core.load(34, 1, world.log[34], world.now_ms))
    world.append(is_written=False)
    assert world.state == "CompleteCommit"


def test_a_tombstone_of_an_older_leadership_does_not_count() -> None:
    world = begun()
    world.end(P0)
    world.now_ms += WEEK_MS
    world.holds_appends = True
    for epoch in (1, 2):
        world.carry_out(world.core.remove_expired(world.now_ms))
        world.core.elect(34, epoch)
        world.carry_out(world.core.load(34, epoch, world.log[34], world.now_ms))
    world.carry_out(world.core.remove_expired(world.now_ms))
    world.append(is_written=False)
    world.append(ErrorCode.NOT_LEADER_OR_FOLLOWER, is_written=False)
    assert world.view().pending_state is S.DEAD


def test_tombstones_come_in_batches() -> None:
    world = World(num_partitions=1, max_tombstone_batch_bytes=20)
    for name in "abcdefg":
        world.init(name=name)
    effects = world.core.remove_expired(1 << 60)
    assert [effect.transactional_ids for effect in effects] == [
        ("a", "b", "c", "d"),
        ("e", "f", "g"),
    ]
    assert all(len(key) == 5 and value is None for e in effects for key, value in e.records)


# ---- failover


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_is_completed_with_all_its_markers(commit: bool) -> None:
    world = begun(A0, B0)
    world.holds_markers = True
    world.end(P0, commit=commit)
    world.write_markers(NONE, A0)
    world.fail_over()
    sent = world.held_markers[0]
    assert (sent.partitions, sent.coordinator_epoch, sent.commit) == ({A0, B0}, 1, commit)
    assert world.end(P0, commit=commit) == refused(BUSY)
    world.write_markers()
    assert world.end(P0, commit=commit) == refused(NONE)


def test_a_load_takes_the_last_word_and_skips_what_is_newer() -> None:
    world = begun()
    records = [*world.log[34], (bytes.fromhex("0009 0001 54"), b"?"), (encode_key("gone"), None)]
    world.core.elect(34, 4)
    assert world.core.load(34, 4, records, 0) == []
    assert (world.state, world.view().coordinator_epoch) == ("Ongoing", 4)


def test_a_load_of_another_epoch_is_not_taken() -> None:
    world = begun()
    world.core.elect(34, 4)
    assert world.core.load(34, 3, world.log[34], 0) == []
    assert world.core.view().loading == {34: 4}
    with pytest.raises(DecodeError):
        world.core.load(34, 4, [(encode_key(T), b"??")], 0)
    assert world.core.view().loading == {34: 4}


def test_a_resignation_of_an_older_epoch_comes_too_late() -> None:
    world = begun()
    world.core.elect(34, 4)
    world.core.resign(34, 3)
    assert world.core.view().loading == {34: 4}
    world.core.load(34, 4, world.log[34], 0)
    world.core.resign(34, 3)
    assert world.state == "Ongoing"
    world.core.resign(34, 5)
    assert world.add(P0) is ErrorCode.NOT_COORDINATOR


# ---- inspection


def test_describe_and_list() -> None:
    world = begun(A0, B0)
    world.init(name="U")
    described = world.core.describe(T)
    assert described.image == world.view().image
    assert world.core.describe("").error is ErrorCode.INVALID_REQUEST
    assert world.core.describe("V").error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    world.core.resign(world.view("U").partition)
    assert world.core.describe("U").error is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (ListFilters(), {"T", "U"}),
        (ListFilters(states=frozenset({"Empty"})), {"U"}),
        (ListFilters(states=frozenset({"Empty", "Ongoing", "Odd"})), {"T", "U"}),
        (ListFilters(producer_ids=frozenset({FIRST_ID})), {"T"}),
        (ListFilters(duration_ms=9), {"T", "U"}),
        (ListFilters(duration_ms=10), {"U"}),
        (ListFilters(pattern="T|X"), {"T"}),
        (ListFilters(pattern="[a-z]"), set()),
    ],
)
def test_lists_are_filtered(filters: ListFilters, names: set[str]) -> None:
    world = begun()
    world.init(name="U")
    world.now_ms += 10
    listed = world.core.list_transactions(filters, world.now_ms)
    assert {name for name, _ in listed.transactions} == names
    assert listed.unknown_states == (("Odd",) if "Odd" in filters.states else ())


def test_a_list_may_be_refused() -> None:
    world = begun()
    for pattern in ("(", "a{99999999999}", "(" * 5_000 + ")" * 5_000):
        listed = world.core.list_transactions(ListFilters(pattern=pattern), 0)
        assert listed.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    world.core.elect(1, 1)
    listed = world.core.list_transactions(ListFilters(), 0)
    assert listed.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_view_is_frozen() -> None:
    world = begun()
    view = world.core.view()
    world.end(P0)
    assert view.transactions[0].image.state is S.ONGOING
    assert view.coordinator_epochs == dict.fromkeys(range(50), 0)


@pytest.mark.parametrize("release", CONFIGS)
def test_every_release_commits_fences_and_times_out(release: str) -> None:
    config = CONFIGS[release]
    world = World(config)
    world.init()
    version = config.transaction_version
    assert world.add(P0, version=version) is NONE
    assert world.end(P0, version=version)[0] is NONE
    who = world.view().image.identity
    world.add(who, version=version)
    assert world.init() == refused(BUSY)
    bumps = {"4.0.0": 2}.get(release, 1)
    fenced = producer(FIRST_ID, who.producer_epoch + bumps)
    assert world.view().image.identity == fenced
    world.add(fenced, version=version)
    world.now_ms += 60_001
    world.carry_out(world.core.abort_timed_out(world.now_ms))
    aborted = producer(FIRST_ID, fenced.producer_epoch + bumps)
    assert (world.state, world.view().image.identity) == ("CompleteAbort", aborted)


# ---- histories


REQUESTS = ["init", "keep", "add", "add v2", "commit", "abort", "commit v2", "abort v2"]
EVENTS = ["time", "expire", "write", "fail", "lie", "marker", "marker again", "retry", "fail over"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(REQUESTS + EVENTS), max_size=40), st.sampled_from([0, 1, 2]))
def test_no_epoch_falls_and_what_is_prepared_completes(steps: list[str], level: int) -> None:
    """Epochs in answers to clients never fall, and none is the last one.

    Once appends and markers succeed nothing stays pending or prepared. At level 0 clients speak V1:
    its log cannot represent V2, and such a transition stays pending (see test_transactions).
    """
    steps = [step for step in steps if level or not step.endswith("v2")]
    world = World(transaction_version=level)
    world.holds_appends = world.holds_markers = True
    known = producer(FIRST_ID, 0)
    highest: dict[int, int] = {}
    for step in steps:
        seen = len(world.answers)
        take(world, step, known)
        for answer in world.answers[seen:]:
            if answer.producer.producer_id >= 0:
                known = answer.producer
                assert 0 <= known.producer_epoch < 32767
                assert highest.get(known.producer_id, 0) <= known.producer_epoch
                highest[known.producer_id] = known.producer_epoch
    settle(world)
    for view in world.core.view().transactions:
        assert view.pending_state is None
        assert view.image.state not in PREPARED


def take(world: World, step: str, known: object) -> None:
    match step.split():
        case ["init"]:
            world.init()
        case ["keep"]:
            world.init(known)
        case ["add", *v2]:
            world.add(known, A0, version=2 * len(v2))
        case ["commit" | "abort" as end, *v2]:
            world.end(known, commit=end == "commit", version=2 * len(v2))
        case ["time"]:
            world.now_ms += 60_001
            world.carry_out(world.core.abort_timed_out(world.now_ms))
        case ["expire"]:
            world.now_ms += WEEK_MS
            world.carry_out(world.core.remove_expired(world.now_ms))
        case ["write" | "fail" | "lie" as how] if world.held_appends:
            error = NONE if how == "write" else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            world.append(error, is_written=how != "fail")
        case ["marker", *again] if world.held_markers:
            world.write_markers(ErrorCode.NOT_LEADER_OR_FOLLOWER if again else NONE)
        case ["retry"]:
            world.carry_out(world.core.retry())
        case ["fail", "over"]:
            world.fail_over()


def settle(world: World) -> None:
    for _ in range(20):
        while world.held_appends:
            world.append()
        while world.held_markers:
            world.write_markers()
        world.carry_out(world.core.retry())


def test_effects_of_one_transaction_in_order() -> None:
    core = TransactionCoordinator(lambda now: (NONE, 7), TransactionConfig(num_partitions=1))
    core.elect(0, 3)
    core.load(0, 3, [], 0)
    (append,) = core.init_producer_id(1, T, 60_000, None, 0)
    assert isinstance(append, AppendRecords)
    assert (append.partition, append.coordinator_epoch) == (0, 3)
    assert decode_value(append.records[0][1]) == TransactionImage(
        7, 0, 60_000, last_update_timestamp_ms=0, previous_producer_id=7
    )
    core.on_appended(append.token, NONE, 0)
    (append,) = core.add_partitions(2, T, producer(7, 0), [A0], 0, 1)
    core.on_appended(append.token, NONE, 1)
    (append,) = core.end_txn(3, T, producer(7, 0), True, 0, 2)
    answer, markers = core.on_appended(append.token, NONE, 3)
    assert (answer.request, answer.error) == (3, NONE)
    assert markers == SendMarkers(markers.token, T, 3, producer(7, 0), True, 0, frozenset({A0}))
    (append,) = core.on_markers_written(markers, {A0: NONE})
    assert core.on_appended(append.token, NONE, 5) == []
    assert core.describe(T).image.last_update_timestamp_ms == 3
