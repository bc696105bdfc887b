"""Folders are built one on another: none leans on a folder that leans on it."""

from __future__ import annotations

from functools import cache

import networkx
import pytest

from scripts import cycles

pytestmark = pytest.mark.fast

ROOMS = ("conformance", "proofs")
"""The rooms without a circle of folders. The list only grows."""

graph_of = cache(cycles.folder_graph)


@pytest.mark.parametrize("room", ROOMS)
def test_no_two_folders_lean_on_each_other(room: str) -> None:
    assert cycles.circles(graph_of(room)) == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_folder_with_a_module_is_looked_at(room: str) -> None:
    folders = {path.parent.relative_to(cycles.ROOT) for path in (cycles.ROOT / room).rglob("*.py")}
    assert set(graph_of(room)) == {folder.as_posix() for folder in folders}


def test_a_circle_is_told_with_an_import_of_each_arrow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = networkx.DiGraph()
    for own, there in (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")):
        graph.add_edge(own, there, imports=[(f"{own}.y", f"{there}.z"), (f"{own}.x", f"{there}.z")])
    monkeypatch.setattr(cycles, "folder_graph", lambda room: graph)
    assert cycles.main(["impl"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "impl: 4 folders, 1 circles",
        "  3 folders: a, b, c",
        "    a -> b: 2 names, as b.z by a.x",
        "    b -> c: 2 names, as c.z by b.x",
        "    c -> a: 2 names, as a.z by c.x",
    ]


def test_an_unknown_room_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cycles.main(["nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().out
