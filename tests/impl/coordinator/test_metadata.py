"""The two steps of a transition: which edges are legal, and what must hold for the second step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from impl.coordinator.config import TransactionConfig
from impl.coordinator.end_txn import check_still_prepared
from impl.coordinator.metadata import IllegalTransition, TransactionImage, TransactionMetadata
from impl.coordinator.states import TransactionState
from impl.protocol.errors import ErrorCode
from tests.impl.coordinator.world import A0, B0, producer

S = TransactionState
NOW_MS = 9


def metadata(state: TransactionState, *, version: int = 2, **more: Any) -> TransactionMetadata:
    empty = state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
    image = TransactionImage(
        1000,
        4,
        60_000,
        state,
        frozenset() if empty else frozenset({A0}),
        -1 if state is S.EMPTY else 5,
        5,
        previous_producer_id=1000,
        client_transaction_version=version,
    )
    return TransactionMetadata("T", replace(image, **more), TransactionConfig())


Prepare = Callable[[TransactionMetadata], object]

STEPS: dict[str, Prepare] = {
    "init": lambda m: m.prepare_epoch_bump(1, None, NOW_MS),
    "rotate": lambda m: m.prepare_rotation(2000, 1, NOW_MS, keep_last=True),
    "add": lambda m: m.prepare_add_partitions(frozenset({B0}), 2, NOW_MS),
    "commit": lambda m: m.prepare_end(S.PREPARE_COMMIT, 2, -1, NOW_MS),
    "abort": lambda m: m.prepare_end(S.PREPARE_ABORT, 2, -1, NOW_MS),
    "complete": lambda m: m.prepare_complete(NOW_MS),
    "expire": lambda m: m.prepare_dead(),
    "fence": lambda m: m.prepare_fence(),
}
IDLE_STEPS = {"init", "rotate", "add", "abort", "expire"}
LEGAL = {
    S.EMPTY: IDLE_STEPS,
    S.ONGOING: {"add", "commit", "abort", "fence"},
    S.PREPARE_COMMIT: {"complete"},
    S.PREPARE_ABORT: {"complete"},
    S.COMPLETE_COMMIT: IDLE_STEPS,
    S.COMPLETE_ABORT: IDLE_STEPS,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("state", LEGAL)
def test_every_edge(state: TransactionState, step: str) -> None:
    subject = metadata(state)
    before = subject.current
    if step in LEGAL[state]:
        STEPS[step](subject)
        assert subject.pending_state is not None
        for other in STEPS.values():
            with pytest.raises(IllegalTransition):
                other(subject)
        subject.cancel()
    else:
        with pytest.raises(IllegalTransition):
            STEPS[step](subject)
    assert (subject.current, subject.pending_state) == (before, None)


def complete_with(
    state: TransactionState, step: str, change: dict[str, Any], **more: Any
) -> TransactionMetadata:
    subject = metadata(state, **more)
    image = STEPS[step](subject)
    assert isinstance(image, TransactionImage)
    subject.complete(replace(image, **change))
    return subject


WRONG = [
    (S.EMPTY, "init", {"producer_epoch": 6}),
    (S.EMPTY, "init", {"producer_epoch": 3}),
    (S.EMPTY, "init", {"partitions": frozenset({A0})}),
    (S.EMPTY, "init", {"start_timestamp_ms": 5}),
    (S.EMPTY, "rotate", {"producer_id": 1000}),
    (S.ONGOING, "add", {"producer_epoch": 5}),
    (S.ONGOING, "add", {"producer_id": 1001}),
    (S.ONGOING, "add", {"partitions": frozenset({B0})}),
    (S.ONGOING, "add", {"transaction_timeout_ms": 1}),
    (S.ONGOING, "commit", {"last_producer_epoch": 3}),
    (S.ONGOING, "commit", {"producer_id": 1001}),
    (S.ONGOING, "commit", {"partitions": frozenset()}),
    (S.ONGOING, "commit", {"transaction_timeout_ms": 1}),
    (S.ONGOING, "abort", {"start_timestamp_ms": 6}),
    (S.PREPARE_COMMIT, "complete", {"producer_epoch": 5}),
    (S.PREPARE_COMMIT, "complete", {"producer_id": 1001}),
    (S.PREPARE_COMMIT, "complete", {"transaction_timeout_ms": 1}),
    (S.PREPARE_COMMIT, "complete", {"start_timestamp_ms": -1}),
    (S.PREPARE_COMMIT, "complete", {"producer_epoch": 0, "previous_producer_id": 7}),
    (S.PREPARE_COMMIT, "complete", {"state": S.COMPLETE_ABORT}),
    (S.EMPTY, "expire", {}),
]


@pytest.mark.parametrize(("state", "step", "change"), WRONG)
def test_an_image_that_does_not_follow_is_refused(
    state: TransactionState, step: str, change: dict[str, Any]
) -> None:
    with pytest.raises(IllegalTransition):
        complete_with(state, step, change)
    if step != "expire":
        assert complete_with(state, step, {}).pending_state is None


def test_an_empty_abort_may_begin_its_transaction() -> None:
    subject = complete_with(S.COMPLETE_COMMIT, "abort", {})
    assert subject.current.start_timestamp_ms == NOW_MS


def test_completion_moves_on_to_the_next_producer_id_and_forgets_it() -> None:
    more = {"next_producer_id": 2000, "producer_epoch": 32767, "last_producer_epoch": 32766}
    now = complete_with(S.PREPARE_COMMIT, "complete", {}, **more).current
    assert (now.producer_id, now.producer_epoch) == (2000, 0)
    assert (now.next_producer_id, now.previous_producer_id) == (-1, 1000)


def test_markers_are_of_prepared_transactions() -> None:
    with pytest.raises(IllegalTransition):
        metadata(S.ONGOING).remove_partition(A0)


@pytest.mark.parametrize(
    ("more", "who", "pending", "wanted"),
    [
        ({}, producer(1000, 4), None, ErrorCode.NONE),
        ({}, producer(1000, 3), None, ErrorCode.NONE),
        ({"version": 0}, producer(1000, 3), None, ErrorCode.PRODUCER_FENCED),
        ({}, producer(1000, 2), None, ErrorCode.PRODUCER_FENCED),
        ({}, producer(1000, 5), None, ErrorCode.PRODUCER_FENCED),
        ({}, producer(7, 4), None, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({}, producer(1000, 4), S.COMPLETE_COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS),
        ({"state": S.PREPARE_ABORT}, producer(1000, 4), None, ErrorCode.INVALID_TXN_STATE),
        ({"state": S.ONGOING}, producer(1000, 4), None, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_the_check_after_the_append(
    more: dict[str, Any], who: Any, pending: TransactionState | None, wanted: ErrorCode
) -> None:
    """InitAction 10 of EndTxn: what was logged must still be what is known."""
    subject = metadata(**{"state": S.PREPARE_COMMIT} | more)
    subject.pending_state = pending
    assert check_still_prepared(subject, who, commit=True) is wanted
