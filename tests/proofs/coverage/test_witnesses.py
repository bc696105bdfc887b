"""Stored witnesses: each error code, state and edge of transactions has a trace that shows it, or
a reason why none can; `kafka-eos witness --store tests/proofs/coverage/witnesses` writes
them anew."""

from pathlib import Path

import pytest

from proofs.coverage.events import events_of
from proofs.coverage.report import every_point
from proofs.coverage.stored import STORED, name_of, points_of_last_step
from proofs.coverage.survey import Survey
from proofs.coverage.unreachable import EXPLAINED
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from proofs.trace.format import read
from proofs.trace.replay import ReplayError

pytestmark = pytest.mark.fast

MODEL = load_model("transactions")
FILES = sorted((Path(__file__).parent / "witnesses").glob("*.jsonl"))
ASKED = Survey(MODEL, events_of(MODEL))
REASONS = EXPLAINED["transactions"]


def wrong_files(names, survey, explained):
    """What is wrong with a stored set, by name: each point has a file or a reason, never both."""
    there, reasons = set(names), set(explained)
    asked = {point.name for point in every_point(survey) if point.kind in STORED}
    wrong = dict.fromkeys(there - asked, "there is no such point")
    wrong |= dict.fromkeys(there & reasons, "it has a file, and a reason why not")
    return wrong | dict.fromkeys(asked - there - reasons, "it has neither a file nor a reason")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_it_happens_on_the_model_of_today(path):
    assert name_of(path) in points_of_last_step(MODEL, read(path))


def test_each_code_state_and_edge_has_a_trace_or_a_reason():
    assert wrong_files(map(name_of, FILES), ASKED, REASONS) == {}


@pytest.mark.parametrize("gone", ["INVALID_TXN_STATE", "ONGOING->PREPARE_COMMIT", "FATAL_ERROR"])
def test_one_that_is_gone_is_missed(gone):
    names = [name for name in map(name_of, FILES) if name != gone]
    assert len(names) == len(FILES) - 1
    assert wrong_files(names, ASKED, REASONS) == {gone: "it has neither a file nor a reason"}


def test_a_reason_for_what_has_a_trace_is_wrong_and_so_is_a_trace_of_nothing():
    names = [*map(name_of, FILES), "BROKER_NOT_AVAILABLE"]
    reasons = {**REASONS, "PRODUCER_FENCED": "never"}
    assert wrong_files(names, ASKED, reasons) == {
        "BROKER_NOT_AVAILABLE": "there is no such point",
        "PRODUCER_FENCED": "it has a file, and a reason why not",
    }


def test_a_trace_shows_nothing_in_a_model_that_does_otherwise():
    """An end that is answered, and not prepared."""
    (path,) = (path for path in FILES if name_of(path) == "ONGOING->PREPARE_COMMIT")
    idle = Patch("end_txn.on_end_txn", "end == End.PREPARE", "False")
    try:
        seen = points_of_last_step(load_model("transactions", [idle]), read(path))
    except ReplayError:
        seen = set()
    assert "ONGOING->PREPARE_COMMIT" not in seen
