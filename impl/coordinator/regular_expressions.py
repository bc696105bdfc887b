r"""Regular expressions of requests: those of RE2, matched in time that is linear in the text.

Kafka takes them by RE2/J, which promises that time and knows neither back-references nor
look-around. Python's `re` tries one way after the other: `(x+)+y` at forty `x` holds a broker up
for ever.

Theory of operation: the parser gives a fragment for each part of an expression, a function that
adds the part's states in front of a given one (Thompson's construction). All states that a text can
have reached are followed at once; each set of states, with the characters around a place, leads to
the next set, and is remembered. Which text a group takes is no question here, so greediness is
read and ignored.

Left out: classes of Unicode (`\pN`) are refused. Sources: RE2/J's `Parser`; KIP-848, KIP-1152.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

Test = Callable[[str], bool]
Fragment = Callable[[int], int]
"""The number of the state that follows a part, to that of the part's first one."""
Ranges = tuple[tuple[str, str], ...]

_STATES_MAX: Final = 10_000
_NESTING_MAX: Final = 100
_REPEAT_MAX: Final = 1_000
_REMEMBERED_MAX: Final = 1_000
_LAST: Final = chr(0x10FFFF)
_DIGITS: Final[Ranges] = (("0", "9"),)
_LETTERS: Final[Ranges] = (("A", "Z"), ("a", "z"))
_SPACES: Final[Ranges] = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_WORD: Final[Ranges] = (*_DIGITS, *_LETTERS, ("_", "_"))
_CLASSES: Final[Mapping[str, Ranges]] = MappingProxyType({"d": _DIGITS, "s": _SPACES, "w": _WORD})
_NAMED: Final[Mapping[str, Ranges]] = MappingProxyType(
    {
        "alnum": (*_DIGITS, *_LETTERS),
        "alpha": _LETTERS,
        "ascii": (("\0", "\x7f"),),
        "blank": (("\t", "\t"), (" ", " ")),
        "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")),
        "digit": _DIGITS,
        "graph": (("!", "~"),),
        "lower": (("a", "z"),),
        "print": ((" ", "~"),),
        "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
        "space": (("\t", "\r"), (" ", " ")),
        "upper": (("A", "Z"),),
        "word": _WORD,
        "xdigit": (*_DIGITS, ("A", "F"), ("a", "f")),
    }
)
_CONTROLS: Final = MappingProxyType(dict(zip("afnrtv", "\a\f\n\r\t\v", strict=True)))
_NUMBER: Final = re.compile(
    r"x(?P<hex>[0-9a-fA-F]{2})|x\{(?P<long>[0-9a-fA-F]{1,6})\}|(?P<octal>0[0-7]{0,2}|[1-7][0-7]{1,2})"
)
_REPEAT: Final = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*|))?\}")
_NAME: Final = re.compile(r"\?P?<([A-Za-z0-9_]+)>")
_FLAGS: Final = re.compile(r"\?(?P<on>[imsU]*)(?:-(?P<off>[imsU]+))?(?P<end>[:)])")
_IS_WORD: Final = re.compile(r"\w", re.ASCII).fullmatch


class InvalidExpression(ValueError):
    """What is wrong with an expression, in the words of RE2/J."""


class _State(NamedTuple):
    """Follows if the characters around hold (`between`), and the next one passes (`test`)."""

    following: tuple[int, ...]
    test: Test | None = None
    between: Callable[[str, str], bool] | None = None


class Expression:
    """An expression. Raises `InvalidExpression`."""

    def __init__(self, text: str) -> None:
        self._states = [_State(())]  # the one in which the whole text has matched
        first = _Parser(text, self._states).parse()
        self._first = frozenset({first})
        self._next: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        """Whether it takes the whole text."""
        states, before = self._first, ""
        for character in text:
            states = self._advance(states, before, character)
            if not states:
                return False
            before = character
        return 0 in self._reach(states, before, "")

    def _advance(self, states: frozenset[int], before: str, character: str) -> frozenset[int]:
        key = (states, before, character)
        if key not in self._next:
            if len(self._next) >= _REMEMBERED_MAX:
                self._next.clear()
            reached = (self._states[each] for each in self._reach(states, before, character))
            self._next[key] = frozenset(
                state.following[0] for state in reached if state.test and state.test(character)
            )
        return self._next[key]

    def _reach(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """The states that are reached without another character."""
        reached, waiting = set(states), list(states)
        while waiting:
            state = self._states[waiting.pop()]
            if state.test or (state.between and not state.between(before, after)):
                continue
            new = [each for each in state.following if each not in reached]
            reached.update(new)
            waiting += new
        return reached


_BETWEEN: Final[Mapping[str, Callable[[str, str], bool]]] = MappingProxyType(
    {
        "begin": lambda before, _: not before,
        "end": lambda _, after: not after,
        "begin of line": lambda before, _: before in ("", "\n"),
        "end of line": lambda _, after: after in ("", "\n"),
        "b": lambda before, after: bool(_IS_WORD(before)) != bool(_IS_WORD(after)),
        "B": lambda before, after: bool(_IS_WORD(before)) == bool(_IS_WORD(after)),
    }
)


class _Parser:
    """Reads an expression from left to right; `_flags` are those of the group that it is in."""

    def __init__(self, text: str, states: list[_State]) -> None:
        self._text, self._states = text, states
        self._at = self._nesting = 0
        self._flags: frozenset[str] = frozenset()
        self._names: set[str] = set()

    def parse(self) -> int:
        """The first state. Raises `InvalidExpression`."""
        fragment = self._alternatives()
        if self._at < len(self._text):
            raise InvalidExpression("regexp/syntax: internal error")  # a `)` too many
        return fragment(0)

    # ---- states

    def _add(self, state: _State) -> int:
        if len(self._states) >= _STATES_MAX:
            raise InvalidExpression("expression too large")
        self._states.append(state)
        return len(self._states) - 1

    def _one(self, test: Test) -> Fragment:
        return lambda following: self._add(_State((following,), test))

    def _between(self, name: str) -> Fragment:
        return lambda following: self._add(_State((following,), between=_BETWEEN[name]))

    def _repeated(self, part: Fragment, least: int, most: int | None) -> Fragment:
        def build(following: int) -> int:
            first = self._add(_State((following,)))  # so that each repetition counts as a state
            if most is None:
                self._states[first] = _State((part(first), following))
            for _ in range(0 if most is None else most - least):
                first = self._add(_State((part(first), following)))
            for _ in range(least):
                first = part(first)
            return first

        return build

    # ---- expressions

    def _take(self, expected: str) -> bool:
        """Whether this comes next; it is behind then."""
        is_next = self._text.startswith(expected, self._at)
        self._at += len(expected) * is_next
        return is_next

    def _alternatives(self) -> Fragment:
        flags = self._flags
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        self._flags = flags
        return lambda following: self._add(_State(tuple(part(following) for part in parts)))

    def _sequence(self) -> Fragment:
        parts: list[Fragment] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts += self._item()
            self._repeat_last(parts)

        def build(following: int) -> int:
            for part in reversed(parts):
                following = part(following)
            return following

        return build

    def _item(self) -> list[Fragment]:
        """What comes next; a quotation is many, flags are nothing."""
        if self._take("\\Q"):
            quoted, _, _ = self._text[self._at :].partition("\\E")
            self._at = min(len(self._text), self._at + len(quoted) + 2)
            return [self._literal(character) for character in quoted]
        if self._text.startswith("(?", self._at) and self._takes_flags():
            return []
        return [self._atom()]

    def _repeat_last(self, parts: list[Fragment]) -> None:
        """Apply the repetition that comes next, if one does."""
        counts = self._counts()
        if not counts:
            return
        if not parts:
            raise InvalidExpression("missing argument to repetition operator")
        parts[-1] = self._repeated(parts[-1], *counts)
        self._take("?")
        if self._counts():
            raise InvalidExpression("invalid nested repetition operator")

    def _counts(self) -> tuple[int, int | None] | None:
        """The repetition that comes next."""
        for operator, counts in _OPERATORS.items():
            if self._take(operator):
                return counts
        found = _REPEAT.match(self._text, self._at)
        if not found:
            return None
        self._at = found.end()
        if max(len(found[1]), len(found[3] or "")) > len(str(_REPEAT_MAX)):
            raise InvalidExpression("invalid repeat count")
        least = int(found[1])
        most = least if not found[2] else int(found[3]) if found[3] else None
        if max(least, most or 0) > _REPEAT_MAX or (most is not None and most < least):
            raise InvalidExpression("invalid repeat count")
        return least, most

    def _atom(self) -> Fragment:
        if self._counts():
            raise InvalidExpression("missing argument to repetition operator")
        character = self._text[self._at]
        self._at += 1
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        if character == ".":
            return self._one((lambda _: True) if "s" in self._flags else lambda each: each != "\n")
        if character in "^$":
            name = "begin" if character == "^" else "end"
            return self._between(name + " of line" * ("m" in self._flags))
        if character == "{" and self._counts():
            raise InvalidExpression("invalid nested repetition operator")  # as RE2/J says of `{*`
        return self._literal(character)

    def _literal(self, character: str) -> Fragment:
        return self._one(self._test(((character, character),)))

    def _test(self, ranges: Ranges, *, is_negated: bool = False) -> Test:
        def test(character: str) -> bool:
            forms = {character}
            if "i" in flags:
                forms |= {character.lower(), character.upper()}
            return is_negated != any(
                first <= form <= last for form in forms for first, last in ranges
            )

        flags = self._flags
        return test

    def _takes_flags(self) -> bool:
        """Whether flags come next that hold until the group around them ends; they do then."""
        found = _FLAGS.match(self._text, self._at + 1)
        if not found or found["end"] != ")":
            return False
        self._at = found.end()
        self._flags = _changed(self._flags, found)
        return True

    def _group(self) -> Fragment:
        """A group, behind its bracket."""
        flags = self._flags
        if name := _NAME.match(self._text, self._at):
            self._at = name.end()
            if name[1] in self._names:
                raise InvalidExpression("duplicate capture group name")
            self._names.add(name[1])
        elif found := _FLAGS.match(self._text, self._at):
            self._at = found.end()
            self._flags = _changed(flags, found)
        elif self._text.startswith("?", self._at):
            raise InvalidExpression("invalid or unsupported Perl syntax")
        self._nesting += 1
        if self._nesting > _NESTING_MAX:
            raise InvalidExpression("expression nests too deeply")
        inside = self._alternatives()
        self._nesting -= 1
        self._flags = flags
        if not self._take(")"):
            raise InvalidExpression("missing closing )")
        return inside

    def _escape(self) -> Fragment:
        for character, name in (("A", "begin"), ("z", "end"), ("b", "b"), ("B", "B")):
            if self._take(character):
                return self._between(name)
        ranges, is_negated = self._escaped_ranges()
        return self._one(self._test(ranges, is_negated=is_negated))

    def _escaped_ranges(self) -> tuple[Ranges, bool]:
        r"""What stands behind a `\`, and whether all but that is meant."""
        character = self._text[self._at : self._at + 1]
        if not character:
            raise InvalidExpression("trailing backslash at end of expression")
        if character.lower() in _CLASSES:
            self._at += 1
            return _CLASSES[character.lower()], character.isupper()
        number = _NUMBER.match(self._text, self._at)
        if number:
            self._at = number.end()
            digits = number["hex"] or number["long"]
            code = int(digits, 16) if digits else int(number["octal"], 8)
            if code > ord(_LAST):
                raise InvalidExpression("invalid escape sequence")
            return ((chr(code), chr(code)),), False
        self._at += 1
        if character.isascii() and not character.isalnum():
            return ((character, character),), False
        if character not in _CONTROLS:
            raise InvalidExpression("invalid escape sequence")
        return ((_CONTROLS[character], _CONTROLS[character]),), False

    def _class(self) -> Fragment:
        """A class of characters, behind its bracket."""
        is_negated, tests = self._take("^"), list[Test]()
        while not tests or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise InvalidExpression("missing closing ]")
            tests.append(self._member())
        self._at += 1
        return self._one(lambda character: is_negated != any(test(character) for test in tests))

    def _member(self) -> Test:
        if self._take("[:"):
            is_negated = self._take("^")
            name, end, _ = self._text[self._at :].partition(":]")
            if not end or name not in _NAMED:
                raise InvalidExpression("invalid character class range")
            self._at += len(name) + 2
            return self._test(_NAMED[name], is_negated=is_negated)
        ranges, is_negated = self._bound()
        is_range = self._text.startswith("-", self._at) and self._text[self._at + 1 :][:1] not in (
            "]",
            "",
        )
        if is_range and len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            self._at += 1
            (last, *others), _ = self._bound()
            if others or last[0] != last[1] or last[0] < ranges[0][0]:
                raise InvalidExpression("invalid character class range")
            ranges = ((ranges[0][0], last[0]),)
        return self._test(ranges, is_negated=is_negated)

    def _bound(self) -> tuple[Ranges, bool]:
        if self._take("\\"):
            return self._escaped_ranges()
        character = self._text[self._at]
        self._at += 1
        return ((character, character),), False


def _changed(flags: frozenset[str], found: re.Match[str]) -> frozenset[str]:
    return (flags | set(found["on"])) - set(found["off"] or "")


_OPERATORS: Final[Mapping[str, tuple[int, int | None]]] = MappingProxyType(
    {"*": (0, None), "+": (1, None), "?": (0, 1)}
)
