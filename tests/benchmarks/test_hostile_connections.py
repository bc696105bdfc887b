"""A reduced crowd of hostile connections, and that what a broker does wrong is found."""

from __future__ import annotations

import pytest

from benchmarks import hostile_connections
from benchmarks.hostile import connections
from benchmarks.hostile.connections import KINDS, Kind

SMALL = ["--connections", str(2 * len(KINDS)), "--seconds", "1"]


def test_a_small_crowd_leaves_the_broker_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert hostile_connections.main(SMALL) == 0
    assert "honest answers" in capsys.readouterr().out


def test_an_open_connection_and_a_missing_line_are_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = KINDS["silent"]._replace(is_closed=True, is_logged=True)
    crowd: dict[str, Kind] = {"silent": silent}
    monkeypatch.setattr(connections, "KINDS", crowd)
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.1)
    with pytest.raises(SystemExit):
        hostile_connections.main(["--connections", "3", "--seconds", "1"])
    said = capsys.readouterr().err
    assert "not closed: Counter({'silent': 3})" in said
    assert "not logged: Counter({'silent': 3})" in said
