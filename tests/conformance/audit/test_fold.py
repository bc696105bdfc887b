"""The guesses over arrays, and the model's plain functions row by row: the same states."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.audit import fold as folding
from conformance.audit.fold import ONLY_OF_A_SEQUENCE, fold, guess
from conformance.audit.headers import ROW
from conformance.audit.leader_rules import STATE, Rules, WrittenBatch
from impl.protocol.record_batch import CONTROL, MAX_SEQUENCE, TRANSACTIONAL

RULES = Rules("4.3.1")

PRODUCERS = st.integers(1, 2)
EPOCHS = st.integers(0, 2)
DATA = st.tuples(
    PRODUCERS,
    EPOCHS,
    st.sampled_from((-1, 0, 1, 2, 3, MAX_SEQUENCE - 1, MAX_SEQUENCE)),
    st.integers(1, 2),
    st.sampled_from((0, TRANSACTIONAL)),
).map(lambda p: WrittenBatch(0, p[3] - 1, p[4], p[0], p[1], p[2], p[3], 0, -1, -1))
MARKERS = st.tuples(PRODUCERS, EPOCHS, st.integers(0, 1), st.integers(0, 1)).map(
    lambda p: WrittenBatch(0, 0, TRANSACTIONAL | CONTROL, p[0], p[1], -1, 1, 0, p[2], p[3])
)


def rows_of(batches):
    rows, offset = np.zeros(len(batches), ROW), 0
    for number, batch in enumerate(batches):
        rows[number] = batch._replace(base_offset=offset)
        offset += batch.last_offset_delta + 1
    return rows


def assert_same(one, other):
    assert one.refused == other.refused
    assert list(one.is_taken) == list(other.is_taken)
    for columns, others in ((one.before, other.before), (one.after, other.after)):
        known = columns["last_sequence"] >= 0
        for name in STATE:
            matters = known if name in ONLY_OF_A_SEQUENCE else np.ones(len(known), bool)
            assert list(columns[name][matters]) == list(others[name][matters]), name


@given(st.lists(st.one_of(DATA, MARKERS), max_size=14))
@settings(max_examples=60)
def test_guesses_end_where_the_plain_functions_do(batches):
    rows = rows_of(batches)
    assert_same(fold(rows, RULES), fold(rows, RULES, trust_guesses=False))


@given(st.lists(st.one_of(DATA, MARKERS), max_size=8))
@settings(max_examples=30)
def test_the_fold_is_that_of_the_rules_batch_by_batch(batches):
    """What is asked row by row is the rules' own fold, and nothing else."""
    states = {}
    folded = fold(rows_of(batches), RULES, trust_guesses=False)
    refused = {one.number for one in folded.refused}
    for number in range(len(folded.is_taken)):
        batch = WrittenBatch(*(int(folded.rows[name][number]) for name in WrittenBatch._fields))
        state = states.get(batch.producer_id, folding.UNKNOWN)
        assert bool(RULES.check(state, batch)) <= (number in refused)
        if folded.is_taken[number]:
            state = RULES.append(state, batch)
        states[batch.producer_id] = state
        assert folded.after["producer_epoch"][number] == state.of_transactions.producer_epoch
        begins = state.of_transactions.current_txn_first_offset
        assert folded.after["first_offset"][number] == begins


@pytest.mark.parametrize("column", STATE)
def test_a_wrong_guess_is_not_believed(column, monkeypatch):
    sequence = [WrittenBatch(0, 0, TRANSACTIONAL, 1, 0, n, 1, 0, -1, -1) for n in range(9)]
    marker = WrittenBatch(0, 0, TRANSACTIONAL | CONTROL, 1, 1, -1, 1, 0, 1, 0)
    more = [one._replace(producer_epoch=1) for one in sequence]
    rows = rows_of([*sequence, marker, *more])
    right = fold(rows, RULES)

    def wrong(columns):
        guessed = guess(columns)
        guessed[column][5:] += 1
        return guessed

    monkeypatch.setattr(folding, "guess", wrong)
    assert_same(fold(rows, RULES), right)
