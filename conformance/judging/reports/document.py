"""A document of a few kinds of blocks, printed as Markdown for an issue or as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, NamedTuple, Self

STYLE: Final = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
th { background: var(--soft); }
pre { background: var(--soft); overflow-x: auto; padding: .6rem; }
"""


class FileLink(NamedTuple):
    """A text that links to a file beside the document."""

    text: str
    target: str


Cell = str | int | FileLink


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; levels count from 1."""

    text: str
    level: int = 2

    def markdown(self) -> str:
        """The heading as Markdown."""
        return f"{'#' * self.level} {self.text}"

    def html(self) -> str:
        """The heading as HTML."""
        return f"<h{self.level}>{escape(self.text)}</h{self.level}>"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text with links in it."""

    parts: tuple[Cell, ...]

    def markdown(self) -> str:
        """The paragraph as Markdown."""
        return "".join(map(cell_markdown, self.parts))

    def html(self) -> str:
        """The paragraph as HTML."""
        return f"<p>{''.join(map(cell_html, self.parts))}</p>"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join(
            f"| {' | '.join(cell_markdown(cell).replace('|', '&#124;') for cell in line)} |"
            for line in lines
        )

    def html(self) -> str:
        """The table as HTML."""
        head = "".join(f"<th>{escape(text)}</th>" for text in self.head)
        rows = "".join(
            f"<tr>{''.join(f'<td>{cell_html(cell)}</td>' for cell in row)}</tr>\n"
            for row in self.rows
        )
        return f'<div class="wide"><table>\n<tr>{head}</tr>\n{rows}</table></div>'


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted lines."""

    text: str

    def markdown(self) -> str:
        """The code as Markdown."""
        return f"```\n{self.text.rstrip()}\n```"

    def html(self) -> str:
        """The code as HTML."""
        return f"<pre>{escape(self.text.rstrip())}</pre>"


Block = Heading | Paragraph | Table | Code


@dataclass(slots=True)
class Document:
    """Blocks under a title."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block) -> Self:
        """Append blocks."""
        self.blocks += blocks
        return self

    def say(self, *parts: Cell) -> Self:
        """Append a paragraph."""
        return self.add(Paragraph(parts))

    def markdown(self) -> str:
        """The Markdown text."""
        blocks = [Heading(self.title, 1), *self.blocks]
        return "\n\n".join(block.markdown() for block in blocks) + "\n"

    def html(self) -> str:
        """The page, which needs no other file and no network."""
        blocks = [Heading(self.title, 1), *self.blocks]
        return (
            '<!doctype html>\n<html lang="en"><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n"
            + "\n".join(block.html() for block in blocks)
            + "\n</html>\n"
        )


def cell_markdown(cell: Cell) -> str:
    """The cell as Markdown."""
    if isinstance(cell, FileLink):
        return f"[{cell.text}]({cell.target})"
    return f"{cell:,}" if isinstance(cell, int) else cell


def cell_html(cell: Cell) -> str:
    """The cell as HTML."""
    if isinstance(cell, FileLink):
        return f'<a href="{escape(cell.target)}">{escape(cell.text)}</a>'
    return escape(f"{cell:,}" if isinstance(cell, int) else cell)
