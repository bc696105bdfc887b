"""The trace format: JSON lines, a header and then one step a line.

    {"format": "kafka-eos-trace", "version": 1, "scope": "idempotent-tiny",
     "variant": "4.3.1/level=2/requests=v2", "seed": 0, "system": "model", "prefix": "",
     "patches": [["module.function", "before", "after"]]}
    {"rule": "client_sends", "choice": {"producer": 0, "partition": 0}, "answers": [],
     "digests": {"clients[0]": "9f2c...", ...}}

A header may end in optional keys. `"loop": 3` says that the steps after the first three repeat for
ever. `"differs": [["leader[0].sends[0].error", "0 (NONE)", "45 (...)"]]` has, by place, what the
model expects after the last step and what the system showed. `"exchanges"` are the requests that
show the difference at a broker, as bytes, with the expected answers
(`conformance.judging.reports`).

`answers` are the messages that the model sends back in this step; `digests` has one short hash for
each actor after the step. Both may be left out of a hand-written trace, and are then not compared.
The reader is strict: it refuses unknown content, with file, line and cure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = "kafka-eos-trace"
VERSION = 1

Json = Any
Choice = tuple[tuple[str, int], ...]
Instance = tuple[str, Choice]
"""A rule with its choices made."""


class TraceError(ValueError):
    """A trace cannot be read; the message says file, line, what is wrong and the cure. Line 0 is
    the file itself."""

    def __init__(self, source: str, line: int, what: str, cure: str) -> None:
        place = f"{source}:{line}" if line else source
        super().__init__(f"{place}: {what}; {cure}")
        self.source = source
        self.line = line
        self.what = what
        self.cure = cure


@dataclass(frozen=True, slots=True)
class Header:
    """The configuration of a trace. `patches` has (function, before, after); `prefix` is a name or
    "".

    A run that goes on for ever repeats what comes after its first `loop` steps; None if it ends.
    `differs` has (place, expected, observed) for a system that differs after the last step;
    `exchanges` are objects.
    """

    scope: str
    variant: str
    seed: int = 0
    system: str = "model"
    prefix: str = ""
    patches: tuple[tuple[str, str, str], ...] = ()
    loop: int | None = None
    differs: tuple[tuple[str, str, str], ...] = ()
    exchanges: tuple[Json, ...] = field(default=(), hash=False)


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One rule instance; `answers` and `digests` are None if nothing was recorded."""

    rule: str
    choice: Choice = ()
    answers: tuple[Json, ...] | None = None
    digests: Mapping[str, str] | None = field(default=None, hash=False)

    @property
    def label(self) -> str:
        """The label in reports: `request_arrives(producer=0, partition=0)`."""
        return label(self.rule, self.choice)


@dataclass(frozen=True, slots=True)
class Trace:
    """A header and its steps."""

    header: Header
    steps: tuple[TraceStep, ...]


def label(rule: str, choice: Choice) -> str:
    """Return a rule instance's name, the same that lifted machines use."""
    return f"{rule}({', '.join(f'{name}={value}' for name, value in choice)})"


# Writing


def line(value: Json) -> str:
    """Return one value as one line of canonical JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def header_json(header: Header) -> dict[str, Json]:
    """Return the first line."""
    written: dict[str, Json] = {
        "format": FORMAT,
        "version": VERSION,
        "scope": header.scope,
        "variant": header.variant,
        "seed": header.seed,
        "system": header.system,
        "prefix": header.prefix,
        "patches": [list(patch) for patch in header.patches],
    }
    if header.loop is not None:
        written["loop"] = header.loop
    if header.differs:
        written["differs"] = [list(row) for row in header.differs]
    if header.exchanges:
        written["exchanges"] = list(header.exchanges)
    return written


def step_json(step: TraceStep) -> dict[str, Json]:
    """Return a step's line."""
    written: dict[str, Json] = {"rule": step.rule, "choice": dict(step.choice)}
    if step.answers is not None:
        written["answers"] = list(step.answers)
    if step.digests is not None:
        written["digests"] = dict(step.digests)
    return written


def dumps(trace: Trace) -> str:
    """Return the trace's text, with each line ended by a newline."""
    lines = [header_json(trace.header), *(step_json(step) for step in trace.steps)]
    return "".join(f"{line(value)}\n" for value in lines)


def write(trace: Trace, path: Path) -> None:
    """Write the trace, making the folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(trace), encoding="utf-8")


# Reading


def is_int(value: Json) -> bool:
    """Whether a value is a number, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_map_of(value: Json, kind: type) -> bool:
    """Whether a value is an object whose values are all of one type; True is not an int."""
    return isinstance(value, dict) and all(type(inner) is kind for inner in value.values())


def is_rows(value: Json) -> bool:
    """Whether a value is a list of rows of three texts."""
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(part, str) for part in row)
        for row in value
    )


def is_objects(value: Json) -> bool:
    """Whether a value is a list of objects."""
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


HEADER_KEYS: Mapping[str, tuple[str, Any]] = {
    "format": (f"the text {FORMAT!r}", lambda v: v == FORMAT),
    "version": (f"the number {VERSION}", lambda v: is_int(v) and v == VERSION),
    "scope": ("a scope's name", lambda v: isinstance(v, str)),
    "variant": ("a variant's name", lambda v: isinstance(v, str)),
    "seed": ("a number", is_int),
    "system": ("a system's name", lambda v: isinstance(v, str)),
    "prefix": ("a prefix's name, or an empty text", lambda v: isinstance(v, str)),
    "patches": ("a list of [function, before, after]", is_rows),
    "loop": ("a number of steps", lambda v: is_int(v) and v >= 0),
    "differs": ("a list of [place, expected, observed]", is_rows),
    "exchanges": ("a list of objects", is_objects),
}

STEP_KEYS: Mapping[str, tuple[str, Any]] = {
    "rule": ("a rule's name", lambda v: isinstance(v, str)),
    "choice": ("an object of numbers", lambda v: is_map_of(v, int)),
    "answers": ("a list", lambda v: isinstance(v, list)),
    "digests": ("an object of texts", lambda v: is_map_of(v, str)),
}

OPTIONAL = frozenset({"loop", "differs", "exchanges", "answers", "digests"})


def checked(
    text: str, keys: Mapping[str, tuple[str, Any]], source: str, number: int
) -> dict[str, Json]:
    """Return one line as an object with exactly these keys. Raises TraceError."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(
            source, number, f"not JSON ({error.msg})", "write one object a line"
        ) from error
    if not isinstance(value, dict):
        raise TraceError(source, number, "not an object", f"write {{{', '.join(keys)}}}")
    for name in value:
        if name not in keys:
            raise TraceError(source, number, f"unknown key {name!r}", f"known: {', '.join(keys)}")
    for name, (expected, fits) in keys.items():
        if name not in value and name not in OPTIONAL:
            raise TraceError(source, number, f"{name!r} is missing", f"add {expected}")
        if name in value and not fits(value[name]):
            raise TraceError(
                source, number, f"{name!r} is {line(value[name])}", f"write {expected}"
            )
    return value


def parse_header(text: str, source: str) -> Header:
    """Parse the first line. Raises TraceError."""
    value = checked(text, HEADER_KEYS, source, 1)
    return Header(
        scope=value["scope"],
        variant=value["variant"],
        seed=value["seed"],
        system=value["system"],
        prefix=value["prefix"],
        patches=tuple((row[0], row[1], row[2]) for row in value["patches"]),
        loop=value.get("loop"),
        differs=tuple((row[0], row[1], row[2]) for row in value.get("differs", ())),
        exchanges=tuple(value.get("exchanges", ())),
    )


def parse_step(text: str, source: str, number: int) -> TraceStep:
    """Parse a step's line. Raises TraceError."""
    value = checked(text, STEP_KEYS, source, number)
    return TraceStep(
        rule=value["rule"],
        choice=tuple(value["choice"].items()),
        answers=tuple(value["answers"]) if "answers" in value else None,
        digests=value.get("digests"),
    )


def loads(text: str, source: str = "trace") -> Trace:
    """Return the trace that a text holds; errors name it `source`. Raises TraceError."""
    lines: Sequence[str] = text.splitlines()
    if not lines:
        raise TraceError(source, 1, "the file is empty", "begin with a header line")
    header = parse_header(lines[0], source)
    steps: Iterable[TraceStep] = (
        parse_step(row, source, number) for number, row in enumerate(lines[1:], start=2)
    )
    return Trace(header, tuple(steps))


def read(path: Path) -> Trace:
    """Return the trace in a file. Raises TraceError, also for a file that cannot be opened."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise TraceError(str(path), 0, why, "name a readable trace file") from error
    return loads(text, str(path))
