"""The sentence of a counterexample: which guarantee, by which step, which record, where."""

from __future__ import annotations

import operator

import pytest

from model.properties import Guarantee
from proofs.lift.source import load_model
from proofs.trace.breach import Breach, breach_of, breach_sentence, deciding_values
from proofs.trace.format import TraceStep, read
from proofs.trace.pictures import text
from proofs.trace.replay import configuration_of, model_of, replay
from proofs.trace.story import tell
from tests.docs.pages import STORIES


def breaches_of(name: str) -> tuple[Breach, ...]:
    """What a story that stands in the docs breaks: its last lines."""
    trace = read(STORIES / f"{name}.jsonl")
    model = model_of(trace.header)
    story = tell(model, trace.header, trace.steps, replay(trace, model))
    assert text(story).splitlines()[-len(story.breaches) :] == [b.sentence for b in story.breaches]
    return story.breaches


@pytest.mark.fast
@pytest.mark.parametrize(
    ("story", "name", "step", "where"),
    [
        (
            "delayed_end_txn_lost",
            "no_lost_write",
            20,
            "partition 0, offset 2, record 0 of transaction 1 of instance 0, ABORT of epoch 0",
        ),
        (
            "delayed_end_txn_shown",
            "no_aborted_read",
            16,
            "offset 3, record 0 of transaction 1 of instance 0, COMMIT of epoch 0",
        ),
        ("answer_lost", "no_false_error", 15, "producer 0, partition 0"),
    ],
)
def test_a_story_ends_with_the_record_that_breaks_it(
    story: str, name: str, step: int, where: str
) -> None:
    told = next(breach.sentence for breach in breaches_of(story) if breach.name == name)
    assert told.startswith(f"{name} is broken by step {step}, ")
    assert told.endswith(f" Where: {where}.")


@pytest.mark.fast
def test_brief_sentences_leave_out_what_the_guarantee_says() -> None:
    trace = read(STORIES / "delayed_end_txn_torn.jsonl")
    full, brief = (breach_of("all_or_none", trace, brief=b) for b in (False, True))
    assert "No transaction has both a committed and an aborted record. P7." in full
    assert "No transaction" not in brief
    assert full.rpartition("Where: ")[2] == brief.rpartition("Where: ")[2] != ""


def is_even(number: int) -> bool:
    return number % 2 == 0


def all_even(rows: tuple[tuple[int, ...], ...]) -> bool:
    """For the test."""
    kept = all(all(is_even(n) for n in row if n > 0) for row in rows)
    return kept and not any(len(row) > 2 for row in rows)


@pytest.mark.fast
def test_the_first_element_that_decides_is_named() -> None:
    assert deciding_values(all_even, ((-1, 2), (4, 5))) == {"row": (4, 5), "n": 5}
    assert deciding_values(all_even, ((2, 2), (4, 4, 4))) == {"row": (4, 4, 4)}
    assert not deciding_values(all_even, ((2,),))


def is_broken(k: object, w: object) -> bool:
    """It is never so."""
    return False


@pytest.mark.fast
def test_what_is_not_guaranteed_is_told_apart() -> None:
    model = load_model("transactions")
    k = configuration_of(model, "transactions-tiny", "4.3.1")
    steps = [TraceStep("instance_begins", ())]
    told = [
        breach_sentence(Guarantee("fenced", is_broken, given), k, model.scopes.initial(k), steps)
        for given in (bool, operator.not_)
    ]
    assert told == [
        "fenced is broken by step 1, instance_begins(): It is never so.",
        "fenced is broken by step 1, instance_begins() (not guaranteed here): It is never so.",
    ]
    (lost, *_) = breaches_of("delayed_end_txn_lost")
    assert lost.name == "no_lost_write"
    assert not lost.is_guaranteed, "the older protocol"
