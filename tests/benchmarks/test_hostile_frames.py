"""A reduced run of hostile frames, and that each kind of defect is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks import hostile_frames
from benchmarks.hostile import playing
from benchmarks.hostile.mutations import MUTATIONS, draw_frame
from benchmarks.hostile.playing import play_chapter, play_frames
from benchmarks.hostile.requests import FORMS, draw_form
from impl import CloseConnection, Node
from impl.broker import node as node_module
from impl.protocol.errors import DecodeError

SEED = 20


def plant(monkeypatch: pytest.MonkeyPatch, wrap: Callable[..., Any]) -> None:
    """Another `Node.handle` around the right one."""
    right = Node.handle

    def handle(self: Node, payload: bytes, now_ms: int) -> bytes | None:
        return wrap(self, payload, lambda: right(self, payload, now_ms))

    monkeypatch.setattr(Node, "handle", handle)


def test_a_chapter_has_no_findings_and_all_mutations() -> None:
    report = play_chapter(range(playing.CHAPTER_FRAMES), SEED)
    assert report.findings == []
    assert set(report.mutations) == set(MUTATIONS)
    assert {"closed", "refused", "answered", "size refused", "waits for more"} <= set(
        report.outcomes
    )
    assert report.refused_again > playing.CHAPTER_FRAMES / 3


def test_a_frame_is_a_function_of_its_number() -> None:
    assert draw_frame(7, SEED, draw_form) == draw_frame(7, SEED, draw_form)
    assert draw_frame(7, SEED, draw_form) != draw_frame(8, SEED, draw_form)
    assert len(FORMS) > 150


def test_it_goes_on_at_the_beginning_of_a_chapter() -> None:
    assert [chapter.frames for chapter in play_frames(1_005, 20, SEED)] == [25]


def test_a_size_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = node_module.decode_request

    def decode(payload: bytes) -> Any:
        try:
            return right(payload)
        except DecodeError as error:
            raise IndexError("index out of range") from error

    monkeypatch.setattr(node_module, "decode_request", decode)
    found = play_chapter(range(30), SEED).findings
    assert found
    assert {finding.problem for finding in found} == {"IndexError: index out of range"}


def test_a_change_by_a_refused_frame_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrap(node: Node, payload: bytes, handle: Callable[[], bytes | None]) -> bytes | None:
        try:
            return handle()
        except CloseConnection:
            node.topics.version += 1
            raise

    plant(monkeypatch, wrap)
    (finding,) = play_chapter(range(30), SEED).findings
    assert finding.problem == "it was refused, and changed the broker"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda right: None, "nothing is answered, but to Produce with acks=0"),
        (lambda right: right and b"\0" + right[1:4] + b"\1" + right[4:], None),
        (lambda right: right and b"\1" + right[1:], "the correlation id is"),
    ],
)
def test_a_wrong_answer_is_found(
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[bytes | None], bytes | None],
    problem: str | None,
) -> None:
    monkeypatch.setattr(playing, "HONEST", ())
    plant(monkeypatch, lambda node, payload, handle: answer(handle()))
    found = play_chapter(range(100), SEED).findings
    assert found
    assert problem is None or any(problem in finding.problem for finding in found)


def test_the_command_says_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hostile_frames.main(["--frames", "30", "--first", "1000"]) == 0
    assert "30 frames" in capsys.readouterr().out

    def wrap(node: Node, payload: bytes, handle: Callable[[], bytes | None]) -> bytes | None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(playing, "HONEST", ())
    plant(monkeypatch, wrap)
    with pytest.raises(SystemExit):
        hostile_frames.main(["--frames", "3"])
    assert "frame 0" in capsys.readouterr().err
