"""A partition that nobody leads when its marker is due: what brokers of each release made of it."""

import json
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.systems.transactions_nodes import leaderless
from conformance.systems.transactions_nodes.leaderless import (
    BEFORE,
    COMMIT,
    LATER_LOG,
    ORDERS,
    SKIPPED,
    WRITTEN,
    Leaderless,
    expected_of,
)
from conformance.transactions.facts import leaderless as experiments
from conformance.transactions.facts.lab import Fact
from proofs.java import MissingTool

RECORDED = Path(__file__).parent / "recorded"
SKIPS = ["4.3.1"]
WAITS = ["4.2.1", "4.1.2", "4.0.2", "3.9.2", "3.3.2"]
REQUESTS = {"3.9.2": ["v1"], "3.3.2": ["v1"]}
TOLD = [
    (release, requests, order)
    for release in SKIPS + WAITS
    for requests in REQUESTS.get(release, ["v1", "v2"])
    for order in ORDERS
]


def seen(release: str, experiment: str, order: str) -> dict[str, str]:
    """What was asked and seen, three times."""
    [path] = RECORDED.glob(f"{release}-level-*.json")
    facts: dict[str, str] = json.loads(path.read_text())["facts"][experiment]
    return {n.removeprefix(f"{order}: "): s for n, s in facts.items() if n.startswith(order)}


def story_of(rows: dict[str, str]) -> Leaderless:
    return Leaderless(
        {COMMIT: [Fact("recorded", name, "", answer) for name, answer in rows.items()]}
    )


@pytest.mark.parametrize(("release", "requests", "order"), TOLD)
def test_a_marker_waits_for_a_leader_or_is_skipped(release: str, requests: str, order: str) -> None:
    """Complete is what is skipped, with one marker of two; what waits is not, and has both."""
    rows = seen(release, f"leaderless_{requests}", order)
    is_skipped = release in SKIPS
    assert story_of(rows).marker == expected_of(release)
    assert bool(story_of(rows).broken) == is_skipped
    assert rows["EndTxn(commit)"].startswith("NONE")
    assert ("CompleteCommit" in rows["nobody leads, the state"]) == is_skipped
    assert ("CompleteCommit" in rows["nobody leads, the log of transactions"]) == is_skipped
    assert "!COMMIT" in rows["nobody leads, the other partition"]
    assert rows[LATER_LOG].endswith("open from 0" if is_skipped else "!COMMIT, stable")
    assert rows["the leader is back, the log of transactions"].count("CompleteCommit") == 1


@pytest.mark.parametrize(("release", "requests", "order"), TOLD)
def test_three_times_the_same(release: str, requests: str, order: str) -> None:
    rows = seen(release, f"leaderless_{requests}", order)
    assert len(rows) >= 10
    assert not [name for name, answer in rows.items() if " | " in answer]


@pytest.mark.parametrize(("release", "requests", "order"), TOLD)
def test_what_was_skipped_is_torn_by_the_next_transaction(
    release: str, requests: str, order: str
) -> None:
    rows = seen(release, f"leaderless_{requests}", order)
    torn = "0 records" if release in SKIPS else "1 record"
    assert rows["the next one aborts, committed in the partition"] == torn
    assert rows["the next one aborts, committed in the other partition"] == "1 record"


@pytest.mark.parametrize(
    ("release", "requests"), [(release, requests) for release, requests, o in TOLD if o == BEFORE]
)
def test_an_abort_that_was_skipped_is_committed_by_the_next_transaction(
    release: str, requests: str
) -> None:
    rows = seen(release, f"leaderless_abort_{requests}", BEFORE)
    assert rows["EndTxn(abort)"].startswith("NONE")
    told = "2 records" if release in SKIPS else "1 record"
    assert rows["the next one commits, committed in the partition"] == told
    assert rows["the next one commits, committed in the other partition"] == "0 records"


@pytest.mark.parametrize(
    ("release", "log", "marker"),
    [("4.2.1", "P:1#0, open from 0", SKIPPED), ("4.3.1", "P:1#0 P:2!COMMIT, stable", WRITTEN)],
)
def test_another_log_is_another_verdict(release: str, log: str, marker: str) -> None:
    rows = seen(release, "leaderless_v2", "before")
    assert story_of(rows | {LATER_LOG: log}).marker == marker != story_of(rows).marker


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
def test_what_differs_from_a_release_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.3.1, once each way, beside what is expected of 4.2."""
    monkeypatch.setattr(experiments, "TIMES", 1)
    monkeypatch.setattr(leaderless, "SKIPPED_SINCE", "99")
    given = ["facts", "--kafka", "4.3.1", "--only", "leaderless_v2", "--json", str(tmp_path / "f")]
    try:
        ended = main(given)
    except MissingTool as error:
        pytest.skip(str(error))
    report = json.loads((tmp_path / "f").read_text())
    assert (ended, report["failed"]) == (1, {})
    differing = {fact["name"] for fact in report["facts"] if not fact["agrees"]}
    assert differing == {
        f"{order}: {name}"
        for order in ORDERS
        for name in (
            "nobody leads, the state",
            "nobody leads, the log of transactions",
            LATER_LOG,
            "the next one aborts, the partition",
            "the next one aborts, committed in the partition",
        )
    }
