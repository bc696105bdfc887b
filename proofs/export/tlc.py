"""TLC as an engine: runs it on an exported module, and reads its output.

TLC runs in its tool mode, in which each message stands between two marks that carry its number.
Numbers and forms of messages are those of TLC 2.18. TLC counts the worlds of a path and the model
counts its steps, so TLC's depth is one more than ours. The number that TLC calls generated depends
on how it splits formulas, and is not comparable with any count here.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proofs.export.tla import TlaModule
from proofs.export.tlc_jar import tlc_jar
from proofs.java import JavaError, find_java

VIOLATION_EXIT_CODE: Final = 12

INVARIANT_VIOLATED: Final = 2110
VIOLATED_AT_THE_BEGINNING: Final = 2107
STATE: Final = 2217
DEPTH: Final = 2194
TOTALS: Final = 2199
PROGRESS: Final = 2200
SUCCESS: Final = 2193
MOST_LINES: Final = 12
"""The number of lines kept of each of TLC's errors; a stack overflow has a thousand."""

PATH: Final = 2121
POSITIONS: Final = 2103

_MARK = re.compile(r"@!@!@(STARTMSG|ENDMSG) (\d+)(?::(\d+))? @!@!@")
_COUNTS = re.compile(r"([\d,]+) states generated.*?([\d,]+) distinct states found")
_PROGRESS = re.compile(r"Progress\((\d+)\).*, ([\d,]+) states left")
_LEVEL = re.compile(r'<<"level", (\d+), (\d+)>>')
_EVENT = re.compile(r'event = <<\s*"(\w+)"((?:,\s*[^,>]+)*)>>')
_VIOLATED = re.compile(r"Invariant (\w+) is violated")
_COLLISION = re.compile(r"\(optimistic\):\s+val = ([\d.E+-]+)")
_PLACE = re.compile(r"line (\d+), col", re.IGNORECASE)
_PARSER_ERRORS = ("***", "Semantic errors", "Could not parse", "Lexical error")
_TRUTH = {"TRUE": "1", "FALSE": "0"}


class TlcFailed(JavaError):
    """TLC could not check the module; the message quotes its error and the line it names."""


@dataclass(frozen=True, slots=True)
class TlcProgress:
    """The progress of TLC: worlds found so far, how many of them wait, and its current level."""

    distinct: int
    generated: int
    waiting: int
    depth: int


@dataclass(frozen=True, slots=True)
class TlcResult:
    """The result of TLC.

    `violation` names the first guarantee found broken, and `trace` its events as rules with their
    choices; TLC stops there. `depth` counts from 0 and is exact with one worker. `levels` are the
    worlds of each level, if the module counts them and there was one worker. `collision_bound` is
    TLC's estimate of the probability that it missed a world.
    """

    distinct: int
    generated: int
    depth: int
    violation: str | None
    trace: tuple[str, ...]
    levels: tuple[int, ...]
    collision_bound: float
    seconds: float


@dataclass(frozen=True, slots=True)
class TlcMessage:
    """A message of TLC. Number 0 means that it stood between no marks."""

    number: int
    is_error: bool
    text: str


def run_tlc(
    module: TlaModule,
    workers: int = 1,
    progress: Callable[[TlcProgress], None] | None = None,
) -> TlcResult:
    """Check a module; `progress` is called when a level is done and about once a minute.

    Raises MissingTool or FetchFailed if TLC cannot be fetched, and TlcFailed if it gives up. An
    interruption ends TLC and leaves no files.
    """
    java, jar = find_java(), tlc_jar()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafka-eos-tlc-") as folder:
        path = module.write(Path(folder))
        command = [
            *(str(java), "-XX:+UseParallelGC", f"-Djava.io.tmpdir={folder}"),
            *("-cp", str(jar), "tlc2.TLC", "-tool", "-fp", "0", "-workers", str(workers)),
            *("-metadir", folder, "-config", str(path.with_suffix(".cfg")), str(path)),
        ]
        messages: list[TlcMessage] = []
        code = _run(command, messages, progress)
    if code not in (0, VIOLATION_EXIT_CODE):
        raise TlcFailed(complaint(module, messages, code))
    return read_result(module, messages, workers, time.monotonic() - started)


def _run(
    command: Sequence[str],
    messages: list[TlcMessage],
    progress: Callable[[TlcProgress], None] | None,
) -> int:
    """Run TLC to its end, collecting its messages; return its exit code."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for message in read_messages(process.stdout):
                messages.append(message)
                now = progress_of(message)
                if progress is not None and now is not None:
                    progress(now)
        except BaseException:
            process.kill()
            process.wait()  # after Ctrl-C, leaving Popen waits for a quarter of a second only
            raise
    return process.returncode


def read_messages(lines: Iterable[str]) -> Iterator[TlcMessage]:
    """Split TLC's output into messages; each line outside of marks is a message by itself."""
    number, is_error, texts = 0, False, list[str]()
    for line in lines:
        mark = _MARK.match(line)
        if mark is None:
            if number:
                texts.append(line)
            else:
                yield TlcMessage(0, False, line)
        elif mark[1] == "STARTMSG":
            number, is_error, texts = int(mark[2]), mark[3] == "1", []
        else:
            yield TlcMessage(number, is_error, "".join(texts))
            number = 0


def progress_of(message: TlcMessage) -> TlcProgress | None:
    """Return the progress that a message reports; None if it reports none."""
    level = _LEVEL.match(message.text) if message.number == 0 else None
    if level is not None:
        return TlcProgress(int(level[2]), 0, 0, int(level[1]))
    counts = _COUNTS.search(message.text) if message.number == PROGRESS else None
    place = _PROGRESS.search(message.text)
    if counts is None or place is None:
        return None
    return TlcProgress(number(counts[2]), number(counts[1]), number(place[2]), number(place[1]) - 1)


def number(text: str) -> int:
    """Return a number as TLC writes it."""
    return int(text.replace(",", ""))


def read_result(
    module: TlaModule, messages: Sequence[TlcMessage], workers: int, seconds: float
) -> TlcResult:
    """Return the result that the messages of a finished run report."""
    said = {message.number: message.text for message in messages}
    counts = _COUNTS.search(said.get(TOTALS, ""))
    generated, distinct = (number(counts[1]), number(counts[2])) if counts else (1, 1)
    depth = re.search(r"is (\d+)", said.get(DEPTH, "is 1"))
    broken = _VIOLATED.search(said.get(INVARIANT_VIOLATED, said.get(VIOLATED_AT_THE_BEGINNING, "")))
    collision = _COLLISION.search(said.get(SUCCESS, ""))
    states = [m.text for m in messages if m.number == STATE]
    return TlcResult(
        distinct=distinct,
        generated=generated,
        depth=int(depth[1]) - 1 if depth else 0,
        violation=broken[1] if broken else None,
        trace=tuple(label(module.rules, state) for state in states[1:]) if broken else (),
        levels=read_levels(messages, distinct) if workers == 1 else (),
        collision_bound=float(collision[1]) if collision else 0.0,
        seconds=seconds,
    )


def label(rules: Mapping[str, tuple[str, ...]], state: str) -> str:
    """Return the event that led to a state, as traces write it: `request_arrives(producer=0,
    ...)`."""
    event = _EVENT.search(state)
    assert event is not None, "each state that an exported module reaches has its event"
    values = [value.strip() for value in event[2].split(",")[1:]]
    chosen = zip(rules[event[1]], (_TRUTH.get(value, value) for value in values), strict=True)
    return f"{event[1]}({', '.join(f'{name}={value}' for name, value in chosen)})"


def read_levels(messages: Sequence[TlcMessage], distinct: int) -> tuple[int, ...]:
    """Return the worlds per level, computed from the counts at the first world of each level."""
    lines = (_LEVEL.match(m.text) for m in messages if m.number == 0)
    known = [int(line[2]) - 1 for line in lines if line is not None]
    ends = [*known[1:], distinct] if known else []
    return tuple(end - begin for begin, end in zip(known, ends, strict=True))


def complaint(module: TlaModule, messages: Sequence[TlcMessage], code: int) -> str:
    """Return why TLC gave up, with the line of the module that it names.

    The parser names the place of its first error first; the evaluator goes from the outermost
    expression to the one that failed.
    """
    parser = [m.text.strip() for m in messages if m.number == 0]
    begun = next((i for i, text in enumerate(parser) if text.startswith(_PARSER_ERRORS)), None)
    said = [] if begun is None else [line for line in parser[begun:] if line][:6]
    said += [m.text.strip() for m in messages if m.is_error and m.number not in (PATH, POSITIONS)]
    nested = "".join(m.text for m in messages if m.number == POSITIONS)
    said = ["\n".join(text.splitlines()[:MOST_LINES]) for text in said]
    text = "\n".join(said) or "".join(m.text for m in messages[-5:])
    places = _PLACE.findall(nested)[-1:] or _PLACE.findall(text)[:1]
    lines = module.text.splitlines()
    quoted = [f"{module.name}.tla:{line}: {lines[int(line) - 1].strip()}" for line in places]
    return "\n".join((f"TLC failed with exit code {code}:", text, *quoted))
