"""The language of stories: lines of text to statements.

    p = begin                                     a step; `p` stands for what it gives
    "Ongoing, commit": EndTxn p commit -> NONE    a step whose answer is a fact, and is expected
      4.1+ -> CONCURRENT_TRANSACTIONS             but here; the last line that applies counts
    guarantee no_lost_write: lost a@one -> nothing
      4.3+ -> a                                   a fact that keeps a guarantee by its first answer
    retry EndTxn p commit                         a request, again while the broker is busy
    eventually state p -> Empty P:0               a look, again until it is so
    send c: EndTxn p commit                       a request whose answer is not awaited
    let epoch -> 1                                a text, with exceptions as above
    if level=2                                    for the lines that are indented below
    for state in Empty Ongoing                    the same, with `{state}` for each of the words
    for each                                      the same, with a table below
      | state | epoch |

A condition is a list of terms, all of which must hold: `4.1+` (this release and later ones), `4.0`
(this release), `state=Prepare*,Empty`, `level!=2`. `#` begins a comment line. A request that is no
fact must be answered NONE.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

ARROW: Final = " -> "

_INDENT: Final = 2
_RELEASE: Final = re.compile(r"\d+(\.\d+)+\+?")
_COMPARED: Final = re.compile(r"(\w+)(!?=)(\S+)")
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_LET: Final = re.compile(r"let (\w+)")
_FOR_IN: Final = re.compile(r"for (\w+) in (.+)")
_STEP: Final = re.compile(
    r"(?:(?P<targets>\w+(?: \w+)*) = )?"
    r'(?:"(?P<fact>[^"]+)": |guarantee (?P<guarantee>\w+): )?'
    r"(?:(?P<manner>retry|eventually|send) (?:(?P<connection>\w+): )?)?"
    r"(?P<verb>\w+)(?: (?P<arguments>.*))?"
)


class StoryError(ValueError):
    """A story that cannot be read or played; the message names its file and line."""


class NotUnderstood(ValueError):
    """A word of a story that has no meaning in its place."""


@dataclass(frozen=True, slots=True)
class StoryLine:
    """A line of a file, with the lines that are indented below it. Lines are counted from 1."""

    file: Path
    number: int
    text: str
    below: tuple[StoryLine, ...] = ()

    def error(self, problem: str) -> StoryError:
        """The error for a problem in this line."""
        return StoryError(f"{self.file.name}:{self.number}: {problem}: {self.text!r}")


Variables = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Condition:
    """Terms that must all hold; without terms it always holds."""

    terms: tuple[str, ...] = ()

    def holds(self, variables: Variables) -> bool:
        """Whether all terms hold. Raises NotUnderstood for a variable without a value."""
        return all(_holds(term, variables) for term in self.terms)

    @property
    def names(self) -> set[str]:
        """The variables that it uses."""
        return {match[1] for match in map(_COMPARED.fullmatch, self.terms) if match}


@dataclass(frozen=True, slots=True)
class Cases:
    """Texts by condition; the last one that applies counts. The first one always applies."""

    rows: tuple[tuple[Condition, str], ...]

    def text(self, variables: Variables) -> str:
        """The text that counts."""
        [*_, found] = (text for condition, text in self.rows if condition.holds(variables))
        return fill(found, variables)

    def first(self, variables: Variables) -> str:
        """The text on the statement's own line."""
        return fill(self.rows[0][1], variables)


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One action. `manner` is `retry`, `eventually`, `send` or empty; `connection` is the one on
    which it is sent without waiting for its answer."""

    line: StoryLine
    targets: tuple[str, ...]
    fact: str
    guarantee: str
    manner: str
    connection: str
    verb: str
    arguments: str
    expected: Cases | None

    def words(self, variables: Variables) -> tuple[list[str], dict[str, str]]:
        """Its arguments and its options (`name=value`)."""
        words = shlex.split(fill(self.arguments, variables))
        options = dict(word.split("=", 1) for word in words if "=" in word)
        return [word for word in words if "=" not in word], options


@dataclass(frozen=True, slots=True)
class Let:
    """A text by name."""

    line: StoryLine
    name: str
    cases: Cases


@dataclass(frozen=True, slots=True)
class If:
    """Statements that run when a condition holds."""

    line: StoryLine
    condition: Condition
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class For:
    """Statements for each row of texts; `values` are words in one text, or a table."""

    line: StoryLine
    names: tuple[str, ...]
    values: str | tuple[tuple[str, ...], ...]
    body: tuple[Statement, ...]

    def rows(self, variables: Variables) -> Iterator[dict[str, str]]:
        """The variables of each round."""
        if isinstance(self.values, str):
            values = fill(self.values, variables).split()
            yield from ({self.names[0]: value} for value in values)
            return
        for row in self.values:
            yield dict(zip(self.names, (fill(cell, variables) for cell in row), strict=True))


Statement = StoryStep | Let | If | For


def fill(text: str, variables: Variables) -> str:
    """`text` with each `{name}` replaced. Raises NotUnderstood for a name without a value."""
    return _VARIABLE.sub(lambda match: _value(match[1], variables), text)


def names_in(text: str) -> list[str]:
    """The names of variables in a text."""
    return _VARIABLE.findall(text)


def read_lines(file: Path) -> tuple[StoryLine, ...]:
    """The lines of a file as trees, without comments and empty ones. Raises StoryError."""
    rows = []
    for number, raw in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = raw.strip()
        if text and not text.startswith("#"):
            rows.append((len(raw) - len(raw.lstrip()), StoryLine(file, number, text)))
    return _trees(rows, 0)[0]


def _trees(
    rows: Sequence[tuple[int, StoryLine]], indent: int
) -> tuple[tuple[StoryLine, ...], Sequence[tuple[int, StoryLine]]]:
    found: list[StoryLine] = []
    while rows and rows[0][0] == indent:
        line = rows[0][1]
        below, rows = _trees(rows[1:], indent + _INDENT)
        found.append(StoryLine(line.file, line.number, line.text, below))
    if rows and rows[0][0] > indent:
        raise rows[0][1].error(f"indented by {rows[0][0]} spaces where {indent} are expected")
    return tuple(found), rows


def parse_statements(lines: Sequence[StoryLine]) -> tuple[Statement, ...]:
    """The statements in lines. Raises StoryError."""
    return tuple(map(_parse_statement, lines))


def _parse_statement(line: StoryLine) -> Statement:
    head, arrow, expected = line.text.partition(ARROW)
    if match := _LET.fullmatch(head):
        return Let(line, match[1], _parse_cases(line, expected))
    if head == "for each":
        names, rows, body = parse_table(line)
        return For(line, names, rows, parse_statements(body))
    if match := _FOR_IN.fullmatch(line.text):
        return For(line, (match[1],), match[2], parse_statements(line.below))
    if line.text.startswith("if "):
        condition = parse_condition(line, line.text.removeprefix("if "))
        return If(line, condition, parse_statements(line.below))
    return _parse_step(line, head, _parse_cases(line, expected) if arrow else None)


def _parse_step(line: StoryLine, head: str, expected: Cases | None) -> StoryStep:
    match = _STEP.fullmatch(head)
    if match is None:
        raise line.error("not a statement")
    if expected is None and line.below:
        raise line.below[0].error("below a step that expects nothing")
    part = {name: value or "" for name, value in match.groupdict().items()}
    if part["manner"] != "eventually" and expected and not (part["fact"] or part["guarantee"]):
        raise line.error('what is expected needs a name: "NAME": STEP -> ANSWER')
    fact = part["fact"] or (part["guarantee"] and f"guarantee {part['guarantee']}")
    return StoryStep(
        line,
        tuple(part["targets"].split()),
        fact,
        part["guarantee"],
        part["manner"],
        part["connection"],
        part["verb"],
        part["arguments"],
        expected,
    )


def _parse_cases(line: StoryLine, first: str) -> Cases:
    rows = [(Condition(), first)]
    for one in line.below:
        condition, arrow, text = one.text.partition(ARROW)
        if not arrow:
            raise one.error("expected: CONDITION -> TEXT")
        rows.append((parse_condition(one, condition), text))
    return Cases(tuple(rows))


def parse_condition(line: StoryLine, text: str) -> Condition:
    """A list of terms. Raises StoryError."""
    for term in text.split():
        if not (_RELEASE.fullmatch(term) or _COMPARED.fullmatch(term)):
            raise line.error(f"{term!r} is no condition; write 4.1+, 4.0 or name=value")
    return Condition(tuple(text.split()))


def parse_table(
    line: StoryLine,
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], list[StoryLine]]:
    """Names, rows, and the lines below that are not rows. Raises StoryError."""
    table = [one for one in line.below if one.text.startswith("|")]
    if len(table) < 2:
        raise line.error("no table below: a row with names, and one with values")
    names, *rows = map(_split, table)
    for one, cells in zip(table[1:], rows, strict=True):
        if len(cells) != len(names):
            raise one.error(f"{len(cells)} cells where {len(names)} are expected")
    return names, tuple(rows), list(line.below[len(table) :])


def _split(line: StoryLine) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.text.strip("|").split("|"))


def _holds(term: str, variables: Variables) -> bool:
    compared = _COMPARED.fullmatch(term)
    if compared is None:
        return _is_release(term, variables["release"])
    name, operator, patterns = compared.groups()
    value = _value(name, variables)
    is_one = any(fnmatchcase(value, pattern) for pattern in patterns.split(","))
    return is_one == (operator == "=")


def _value(name: str, variables: Variables) -> str:
    if name not in variables:
        raise NotUnderstood(f"{name!r} has no value")
    return variables[name]


def _is_release(term: str, release: str) -> bool:
    wanted, at = _numbers(term.removesuffix("+")), _numbers(release)
    return at >= wanted if term.endswith("+") else at[: len(wanted)] == wanted


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
