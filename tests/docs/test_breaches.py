"""What `docs/breaches.md` says of released brokers is what was recorded of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.docs.pages import REPOSITORY, ROOMS, page

PAGE = page("breaches.md")
FIXTURES = REPOSITORY / "tests" / "conformance" / "fixtures"


@pytest.mark.parametrize("command", PAGE.parsed, ids=" ".join)
def test_each_command_is_understood(
    command: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They start brokers: here only their words are read."""
    assert ROOMS[command[0]]([*command[1:], "--help"]) == 0
    assert capsys.readouterr().out


def test_there_are_commands() -> None:
    assert len(PAGE.parsed) == 4


def test_a_committed_record_is_aborted_by_the_next_transaction() -> None:
    """The story of the skipped marker, as 4.3.1 answered it."""
    recorded = json.loads((FIXTURES / "leaderless-4.3.1.json").read_text(encoding="utf-8"))
    rows = [(row["asked"], row["seen"]) for row in recorded["rows"]]
    told = rows.index(("EndTxn(commit)", "NONE"))
    assert rows[told + 1] == ("DescribeTransactions", "CompleteCommit, 0 partitions left")
    assert ("Fetch far", "['record'], last stable offset 0 of 1, aborted from []") in rows
    assert ("EndTxn(abort)", "NONE") in rows[told:]
    near, far = rows[-2:]
    assert "'COMMIT'" in near[1]
    assert "['record', 'record', 'ABORT']" in far[1]
    assert far[1].endswith("aborted from [0]")
