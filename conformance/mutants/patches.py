"""Unified diffs, applied exactly or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = re.compile(r"\+\+\+ (?:b/)?(?P<path>\S+)")
HUNK: Final = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@")


class PatchError(ValueError):
    """A patch that cannot be read, or does not fit; the message says where, and why."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of one file and what comes in their place; `line` is where the patch has it."""

    path: str
    old: str
    new: str
    line: int


def read_hunks(patch: Path) -> list[Hunk]:
    """The hunks of a patch file, at least one. Raises PatchError."""
    try:
        lines = patch.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        raise PatchError(f"{patch}: {error}; name a readable patch") from error
    hunks = list(hunks_in(patch, lines))
    if not hunks:
        raise PatchError(f"{patch}: no hunk; write a unified diff (diff -u, git diff)")
    return hunks


def hunks_in(patch: Path, lines: list[str]) -> Iterator[Hunk]:
    """The hunks among some lines. Raises PatchError."""
    path = ""
    at = 0
    while at < len(lines):
        file, head = FILE.match(lines[at]), HUNK.match(lines[at])
        at += 1
        if file:
            path = file["path"]
        elif head:
            sizes = int(head["old"] or 1), int(head["new"] or 1)
            length = hunk_length(lines[at:], sizes)
            if length is None or not path:
                raise PatchError(f"{patch}:{at}: the hunk is not as long as its head says")
            body = lines[at : at + length]
            old = "".join(line[1:] for line in body if line[0] in " -")
            new = "".join(line[1:] for line in body if line[0] in " +")
            yield Hunk(path, old, new, at)
            at += length


def hunk_length(lines: list[str], sizes: tuple[int, int]) -> int | None:
    """How many lines make a hunk of so many (old, new) lines; None if they do not."""
    old, new = sizes
    for length, line in enumerate(lines):
        if old == 0 and new == 0:
            return length
        if line[0] not in " -+":
            return None
        old -= line[0] in " -"
        new -= line[0] in " +"
    return len(lines) if old == 0 and new == 0 else None


def apply(patch: Path, root: Path) -> None:
    """Change the files below `root`. Raises PatchError unless each hunk fits in one place."""
    for hunk in read_hunks(patch):
        path = root / hunk.path
        if not path.is_file():
            raise PatchError(f"{patch}:{hunk.line}: there is no file {hunk.path}")
        text = path.read_text(encoding="utf-8")
        # A line must match as a whole, so the anchor begins where a line begins.
        places = f"\n{text}".count(f"\n{hunk.old}")
        if places != 1:
            raise PatchError(
                f"{patch}:{hunk.line}: its lines stand {places} times in {hunk.path}, not once;"
                " make the patch again from the current text"
            )
        changed = f"\n{text}".replace(f"\n{hunk.old}", f"\n{hunk.new}")
        path.write_text(changed[1:], encoding="utf-8")
