"""A partition that nobody leads when its marker is due: what `run` makes of it."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.campaigns.stories.marker_without_leader import (
    COMMIT,
    LATER_LOG,
    SKIPPED,
    WRITTEN,
    Leaderless,
    expected_of,
)
from conformance.campaigns.stories.session import Fact
from conformance.campaigns.stories.story import FOLDER
from proofs.java import MissingTool
from tests.conformance.campaigns.stories.test_recorded import FACTS

SKIPS = ["4.3.1"]
WAITS = ["4.2.1", "4.1.2", "4.0.2", "3.9.2", "3.3.2"]


def of(answers: Mapping[str, str]) -> Leaderless:
    return Leaderless({COMMIT: [Fact("recorded", *row, row[1]) for row in answers.items()]})


@pytest.mark.parametrize("release", SKIPS + WAITS)
def test_a_marker_waits_for_a_leader_or_is_skipped(release: str) -> None:
    recorded = FACTS[release, 2 if release >= "4" else 0]["leaderless_v1"]
    assert of(recorded).marker == expected_of(release)
    assert of(recorded).marker == (SKIPPED if release in SKIPS else WRITTEN)
    assert bool(of(recorded).broken) == (release in SKIPS)


@pytest.mark.parametrize(
    ("release", "log", "marker"),
    [("4.2.1", "P:1#0, open from 0", SKIPPED), ("4.3.1", "P:1#0 P:2!COMMIT, stable", WRITTEN)],
)
def test_another_log_is_another_verdict(release: str, log: str, marker: str) -> None:
    recorded = FACTS[release, 2]["leaderless_v2"]
    assert of(recorded | {LATER_LOG: log}).marker == marker != of(recorded).marker


@pytest.mark.full  # the suite asks what was recorded, and other experiments of a broker
@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
def test_what_differs_from_a_release_that_waits(tmp_path: Path) -> None:
    """4.3.1 beside what is expected of 4.2."""
    text = (FOLDER / "leaderless.story").read_text()
    text = text.replace("4.3+ ", "99.0+ ").replace("times: 3", "times: 1")
    (tmp_path / "leaderless.story").write_text(text)
    report = tmp_path / "report.json"
    arguments = ["--kafka", "4.3.1", "--stories", str(tmp_path), "--json", str(report)]
    try:
        ended = main(["experiments", "leaderless_v2", *arguments])
    except MissingTool as error:
        pytest.skip(str(error))
    found = json.loads(report.read_text())
    assert (ended, found["failed"]) == (1, {})
    assert {fact["name"] for fact in found["facts"] if not fact["agrees"]} == {
        f"{order}: {name}"
        for order in ("before", "behind", "loaded")
        for name in (
            "nobody leads, the state",
            "nobody leads, the log of transactions",
            "the leader is back, its partition",
            "the next one aborts, the partition",
            "the next one aborts, committed in the partition",
        )
    }
