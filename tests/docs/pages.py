"""The commands of a page, and whether they print what it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.__main__ import main as conformance
from proofs.__main__ import main as proofs

REPOSITORY = Path(__file__).parents[2]
STORIES = REPOSITORY / "docs" / "stories"
ROOMS: dict[str, Callable[[Sequence[str]], int]] = {"proofs": proofs, "conformance": conformance}


@dataclass(frozen=True, slots=True)
class Page:
    """A page's text; `runs` has each command with the lines shown of its output, `parsed` those
    commands that take longer."""

    text: str
    runs: tuple[tuple[str, ...], ...]
    parsed: tuple[tuple[str, ...], ...]


def page(name: str) -> Page:
    """A page of `docs/`."""
    text = (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, flags=re.DOTALL)
    return Page(
        text,
        tuple(
            tuple(run.splitlines())
            for language, block in blocks
            if language == "console"
            for run in block.split("$ python -m ")[1:]
        ),
        tuple(
            tuple(line.split()[2:])
            for language, block in blocks
            if not language
            for line in block.splitlines()
            if line.startswith("python -m ") and line.split()[2] in ROOMS
        ),
    )


def missing(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Lines shown that are not printed, in this order; `...` stands for anything."""
    left, absent = iter(printed), []
    for line in shown:
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        if not any(re.fullmatch(pattern, other) for other in left):
            absent.append(line)
    return absent


def called(command: str) -> int:
    """Run one command, as a page writes it; what it must exit with is checked."""
    words, _, remark = command.partition("  # exits with ")
    room, *arguments = words.split()
    code = ROOMS[room](arguments)
    assert code == int(remark or 0)
    return code
