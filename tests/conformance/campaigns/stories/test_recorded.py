"""What real brokers answered, as it was recorded, is what the stories expect of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.campaigns.stories.player import check, rehearse
from conformance.campaigns.stories.report import broken_by
from conformance.campaigns.stories.session import Fact
from conformance.campaigns.stories.story import Experiment, stories

pytestmark = pytest.mark.fast

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*-level-*.json"))
WHOLE = [
    ("3.3.2", 0),
    ("3.9.2", 0),
    *((release, 2) for release in ("4.0.2", "4.1.2", "4.2.1", "4.3.1")),
]
EXPERIMENTS = stories()


def load(file: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(file.read_text())
    return value


FACTS = {(row["release"], row["level"]): row["facts"] for row in map(load, RECORDED)}
EACH = [(*place, name) for place, facts in FACTS.items() for name in facts]


def can_use_at(level: int) -> Any:
    return lambda requests: requests == "v1" or level > 0


@pytest.mark.parametrize(("release", "level", "name"), EACH)
def test_what_was_recorded_is_expected(release: str, level: int, name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.fits(release, level, can_use_at(level))
    expected = {fact.name: fact.expected for fact in rehearse(experiment, release, level)}
    assert FACTS[release, level][name] == expected


@pytest.mark.parametrize(("release", "level"), WHOLE)
def test_what_makes_sense_at_a_release_is_recorded_there(release: str, level: int) -> None:
    fitting = {e.name for e in EXPERIMENTS.values() if e.fits(release, level, can_use_at(level))}
    unrecorded = fitting - FACTS[release, level].keys()
    assert {EXPERIMENTS[name].story for name in unrecorded} <= NOT_RECORDED


NOT_RECORDED = {
    "delayed_end_txn",  # its guarantees are asked of 4.3.1 with each run of the tests
    "refused_fence_at_the_last_epoch_v1",  # about levels 0 and 1
    "forgotten_id",  # of clients: below
    "late_abort",
    "late_error_behind_a_refusal",
    "refused_retry_of_a_client",
}


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)
def test_a_story_has_only_verbs_and_variables_that_there_are(experiment: Experiment) -> None:
    check(experiment)
    assert experiment.summary


def broken(release: str, level: int, name: str) -> list[str]:
    """The guarantees that a recording breaks: the first expected answer keeps one."""
    answers = FACTS[release, level][name]
    found = broken_by(
        Fact(name, fact.name, fact.expected, answers[fact.name], fact.guarantee, fact.kept)
        for fact in rehearse(EXPERIMENTS[name], release, level)
    )
    return found.get(name, [])


@pytest.mark.parametrize("release", ["3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1"])
def test_v1_a_deposed_coordinator_is_believed(release: str) -> None:
    level = 2 if release >= "4" else 0
    for shape in ("both_deaf", "both_deaf_init", "former_lost"):
        assert broken(release, level, f"stale_coordinator_{shape}_v1") == [
            "no_write_outside",
            "last_stable_offset_moves",
            "no_aborted_read",
        ]
    assert broken(release, level, "stale_coordinator_offsets_both_deaf_v1")[-1] == (
        "offsets_with_outcome"
    )
    for shape in ("leader_deaf", "former_deaf", "nobody_deaf", "offsets_nobody_deaf"):
        assert broken(release, level, f"stale_coordinator_{shape}_v1") == []


@pytest.mark.parametrize("release", ["4.0.2", "4.1.2", "4.2.1", "4.3.1"])
def test_v2_the_epoch_of_the_marker_needs_nobody(release: str) -> None:
    names = [n for n in FACTS[release, 2] if n.startswith("stale_coordinator") and n.endswith("v2")]
    assert len(names) == 8
    assert not [name for name in names if broken(release, 2, name)]


def test_v1_requests_end_transactions_alike_in_all_releases() -> None:
    """EndTxn by state and by identity is the same table from 3.3 to 4.3, at every level."""
    for name in ("end_txn_v1_by_state", "end_txn_v1_by_identity"):
        tables = [FACTS[place][name] for place in WHOLE]
        assert tables == [tables[0]] * len(WHOLE)


def test_what_later_releases_repaired_is_told_apart() -> None:
    """A twin for each: where the defect is, and where it is not."""
    late = "late_produce_v1"
    assert "open from" in FACTS["3.3.2", 0][late]["the partition then"]
    assert "stable" in FACTS["3.9.2", 0][late]["the partition then"]
    marker, open_one = "marker_at_equal_epoch_v2", "commit again, the next one open"
    assert FACTS["4.1.2", 2][marker][open_one] == "NONE"
    assert FACTS["4.2.1", 2][marker][open_one] == "INVALID_PRODUCER_EPOCH"
    lost = "loading_exhausted_v2"
    assert FACTS["4.2.1", 2][lost]["held, then"] == "CompleteCommit P:32767"
    assert FACTS["4.3.1", 2][lost]["held, then"] == "CompleteCommit Q:0"


def test_ids_behind_one_that_is_stuck_do_not_time_out_before_4_3() -> None:
    others = "the transactions of 64 others, long after their time-outs"
    for (release, _), facts in FACTS.items():
        for name in ("exhaustion_goes_on_v2", "refused_fence_at_the_last_epoch_v1"):
            if others in facts.get(name, {}):
                assert ("Ongoing" in facts[name][others]) == (release < "4.3")
