"""What `docs/breaches.md` says of released brokers is what was recorded of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from tests.docs.pages import REPOSITORY, is_understood, page

pytestmark = pytest.mark.fast

PAGE = page(REPOSITORY / "docs" / "breaches.md")
RECORDED = REPOSITORY / "tests/conformance/campaigns/stories/recorded"


@pytest.mark.parametrize("command", PAGE.parsed, ids=" ".join)
def test_each_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They start brokers: here only their words are read."""
    assert is_understood(command)
    assert capsys.readouterr().out


def test_there_are_commands() -> None:
    assert len(PAGE.parsed) == 19


def facts_of(release: str) -> dict[str, dict[str, str]]:
    """The answers of a release at its newest level."""
    newest = max(RECORDED.glob(f"{release}-level-*.json"))
    facts: dict[str, dict[str, str]] = json.loads(newest.read_text(encoding="utf-8"))["facts"]
    return facts


def skips(release: str) -> set[bool]:
    """Whether a partition stayed open, in each of the orders and with each of the requests."""
    found = [r for name, r in facts_of(release).items() if name.startswith("leaderless_")]
    return {
        seen.endswith("open from 0")
        for rows in found
        for name, seen in rows.items()
        if name.endswith("the leader is back, its partition")
    }


def test_which_release_waits_and_which_skips() -> None:
    """The page's table has each recorded release, as it answered."""
    rows = re.findall(r"^\| ([\d., ]+) \| (waits|skipped) \|", PAGE.text, flags=re.MULTILINE)
    told = {release: word for releases, word in rows for release in releases.split(", ")}
    assert told.keys() == {path.name.split("-")[0] for path in RECORDED.glob("*-level-*.json")}
    for release, word in told.items():
        assert skips(release) == {word == "skipped"}


@pytest.mark.parametrize(("requests", "aborted"), [("v1", "P:1#1 P:1"), ("v2", "P:2#0 P:3")])
def test_a_committed_record_is_aborted_by_the_next_transaction(requests: str, aborted: str) -> None:
    """The story of the skipped marker, as 4.3.1 answered it."""
    rows = facts_of("4.3.1")[f"leaderless_{requests}"]
    assert rows["before: EndTxn(commit)"].startswith("NONE")
    assert rows["before: nobody leads, the state"].startswith("CompleteCommit")
    assert rows["before: the leader is back, its partition"] == "P:1#0, open from 0"
    assert rows["before: the next one aborts, the partition"] == f"P:1#0 {aborted}!ABORT, stable"
    assert rows["before: the next one aborts, committed in the other partition"] == "1 record"


@pytest.mark.parametrize(("requests", "committed"), [("v1", "P:1#1 P:1"), ("v2", "P:2#0 P:3")])
def test_an_aborted_record_is_committed_by_the_next_transaction(
    requests: str, committed: str
) -> None:
    """And the other way round."""
    rows = facts_of("4.3.1")[f"leaderless_abort_{requests}"]
    assert rows["before: EndTxn(abort)"].startswith("NONE")
    log = f"P:1#0 {committed}!COMMIT, stable"
    assert rows["before: the next one commits, the partition"] == log
    assert rows["before: the next one commits, committed in the partition"] == "2 records"


STALE = re.compile(r"stale_coordinator_(\w+)_(v\d)")
RELEASES = ("3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1")


@pytest.mark.parametrize("release", RELEASES)
def test_a_deposed_coordinator_is_believed_with_v1_alone(release: str) -> None:
    """The page's row, and its table, as each recorded release answered."""
    believed = {"both_deaf", "both_deaf_init", "former_lost", "offsets_both_deaf"}
    for name, rows in facts_of(release).items():
        if match := STALE.fullmatch(name):
            behind = rows["guarantee no_write_outside"]
            assert (behind != "nothing") == (match[1] in believed and match[2] == "v1")
            guarantees = [n.split()[1] for n in rows if n.startswith("guarantee")]
            assert all(f"`{guarantee}`" in PAGE.text for guarantee in guarantees)


def test_the_page_names_each_release_that_was_asked() -> None:
    (row,) = re.findall(
        r"^\| a leader verifies with a deposed coordinator.*$", PAGE.text, flags=re.MULTILINE
    )
    assert set(RELEASES) == set(re.findall(r"\d\.\d\.\d", row))


@pytest.mark.parametrize(
    ("release", "answer", "partition"),
    [
        ("4.0.2", "NONE", "P:2#0 P:2!COMMIT, stable"),
        ("4.1.2", "NONE", "P:2#0 P:2!COMMIT, stable"),
        ("4.2.1", "INVALID_PRODUCER_EPOCH", "P:2#0, open from 3"),
        ("4.3.1", "INVALID_PRODUCER_EPOCH", "P:2#0, open from 3"),
    ],
)
def test_a_marker_that_comes_twice(release: str, answer: str, partition: str) -> None:
    path = RECORDED / f"{release}-level-2.json"
    told = json.loads(path.read_text(encoding="utf-8"))["facts"]["marker_at_equal_epoch_v2"]
    assert told["commit again, the next one open"] == answer
    assert told["commit again, the partition then"].endswith(partition)
