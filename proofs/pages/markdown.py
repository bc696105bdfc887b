"""Builds Markdown for pages; the same content always gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Lines = list[str]


def cell(text: str) -> str:
    """Return text that may be in a table."""
    return text.replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    """Return a table; nothing if it has no rows."""
    found = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    if not found:
        return []
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *found, ""]


def section(title: str, *parts: Lines) -> Lines:
    """Return a heading with its parts; nothing if the parts are empty."""
    body = [line for part in parts for line in part]
    return [f"## {title}", "", *body] if body else []


def paragraph(*sentences: str) -> Lines:
    """Return sentences on one line."""
    return [" ".join(s for s in sentences if s), ""]


def console_block(command: str, lines: Iterable[str], code: int = 0) -> Lines:
    """Return a command that the tests run, with its output."""
    remark = f"  # exits with {code}" if code else ""
    return ["```console", f"$ kafka-eos {command}{remark}", *lines, "```", ""]


def shell_block(*commands: str) -> Lines:
    """Return commands that take longer; the tests only parse them."""
    return ["```", *(f"kafka-eos {command}" for command in commands), "```", ""]


def amount(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def page(lines: Lines) -> str:
    """Return the file's text."""
    return "\n".join(lines).rstrip("\n") + "\n"
