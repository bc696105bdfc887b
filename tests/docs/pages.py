"""The commands of a page, and whether they print what it shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_eos.command_line import main, parser_of
from kafka_eos.verbs import ROOMS, find_verb

REPOSITORY = Path(__file__).parents[2]
STORIES = REPOSITORY / "docs" / "stories"
COMMAND = re.compile(r"kafka-eos\s+")
"""What stands before the words of a command of ours."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page's text; `runs` has each command with the lines shown of its output, `parsed` those
    commands that take longer."""

    text: str
    runs: tuple[tuple[str, ...], ...]
    parsed: tuple[tuple[str, ...], ...]


def page(path: Path) -> Page:
    """The page in a file."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", text, flags=re.DOTALL)
    return Page(
        text,
        tuple(
            tuple(run.splitlines())
            for language, block in blocks
            if language == "console"
            for run in re.split(rf"^\$ {COMMAND.pattern}", block, flags=re.MULTILINE)[1:]
        ),
        tuple(
            tuple(shlex.split(COMMAND.sub("", line, count=1).partition(" #")[0]))
            for language, block in blocks
            if not language
            for line in block.splitlines()
            if COMMAND.match(line)
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
    code = main(shlex.split(words))
    assert code == int(remark or 0)
    return code


def is_understood(words: Sequence[str]) -> bool:
    """Whether a command is parsed, and has a --help. Raises SystemExit if an option is unknown."""
    room, *rest = words if words[0] in ROOMS else (None, *words)
    verb = find_verb(rest[0], room)
    assert verb is not None, words
    parser_of(verb).parse_args(rest[1:])
    return main([*words, "--help"]) == 0
