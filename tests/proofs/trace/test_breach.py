"""The sentence of a counterexample: which guarantee, by which step, which record, where."""

from __future__ import annotations

import pytest

from proofs.trace.breach import breach_of, deciding_values
from proofs.trace.format import read
from proofs.trace.pictures import text
from proofs.trace.replay import model_of, replay
from proofs.trace.story import tell
from tests.docs.pages import STORIES


def ending(name: str) -> list[str]:
    """The last lines of a story that stands in the docs."""
    trace = read(STORIES / f"{name}.jsonl")
    model = model_of(trace.header)
    story = tell(model, trace.header, trace.steps, replay(trace, model))
    assert text(story).splitlines()[-len(story.breaches) :] == list(story.breaches)
    return list(story.breaches)


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
    told = next(line for line in ending(story) if line.startswith(name))
    assert told.startswith(f"{name} is broken by step {step}, ")
    assert told.endswith(f" Where: {where}.")


@pytest.mark.fast
def test_brief_sentences_leave_out_what_the_guarantee_says() -> None:
    trace = read(STORIES / "delayed_end_txn_torn.jsonl")
    full, brief = (breach_of("all_or_none", trace, brief=b) for b in (False, True))
    assert "Of no transaction is one record committed and another aborted. P7." in full
    assert "Of no transaction" not in brief
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
