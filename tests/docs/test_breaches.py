"""What `docs/breaches.md` says of released brokers is what was recorded of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.pages import REPOSITORY, ROOMS, page

PAGE = page("breaches.md")
RECORDED = REPOSITORY / "tests" / "conformance" / "transactions" / "recorded"


@pytest.mark.parametrize("command", PAGE.parsed, ids=" ".join)
def test_each_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They start brokers: here only their words are read."""
    assert ROOMS[command[0]]([*command[1:], "--help"]) == 0
    assert capsys.readouterr().out


def test_there_are_commands() -> None:
    assert len(PAGE.parsed) == 16


def skips(release: str) -> set[bool]:
    """Whether a partition stayed open, in each of the orders and with each of the requests."""
    [path] = RECORDED.glob(f"{release}-level-*.json")
    facts = json.loads(path.read_text(encoding="utf-8"))["facts"]
    found = [rows for name, rows in facts.items() if name.startswith("leaderless_")]
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
    facts = json.loads((RECORDED / "4.3.1-level-2.json").read_text(encoding="utf-8"))["facts"]
    rows = facts[f"leaderless_{requests}"]
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
    facts = json.loads((RECORDED / "4.3.1-level-2.json").read_text(encoding="utf-8"))["facts"]
    rows = facts[f"leaderless_abort_{requests}"]
    assert rows["before: EndTxn(abort)"].startswith("NONE")
    log = f"P:1#0 {committed}!COMMIT, stable"
    assert rows["before: the next one commits, the partition"] == log
    assert rows["before: the next one commits, committed in the partition"] == "2 records"


STALE = sorted(RECORDED.glob("stale-coordinator-*.json"))


@pytest.mark.parametrize("path", STALE, ids=lambda path: path.stem)
def test_who_has_moved_is_believed_with_v1_alone(path: Path) -> None:
    """The page's row, and its table, as each recorded release answered."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    broken = {shape["name"]: shape["broken"] for shape in recorded["shapes"]}
    breaks = {name for name, guarantees in broken.items() if guarantees}
    believed = {"both_deaf", "both_deaf_init", "former_lost", "offsets_both_deaf"}
    assert breaks == (believed if recorded["requests"] == "v1" else set())
    assert all(f"`{name}`" in PAGE.text for guarantees in broken.values() for name in guarantees)


def test_the_page_names_each_release_that_was_asked() -> None:
    (row,) = re.findall(r"^\| a coordinator that has moved.*$", PAGE.text, flags=re.MULTILINE)
    asked = {path.stem.split("-")[2] for path in STALE if path.stem.endswith("v1")}
    assert asked == set(re.findall(r"\d\.\d\.\d", row))
