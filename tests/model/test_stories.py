"""Stories of the protocol: events of the model as plain text, and below each what it changes.

    scope idempotent-tiny
    variant 4.3.1

    client_sends producer=0 partition=0
        clients.0.partitions.0.next_sequence: 0 -> 1
        ...

A line that begins at the margin is an event with its choices; `not NAME ...` is one that must not
be enabled here. A line that begins with `#` is told to the reader alone. What is indented is
written by the model, and so is the last line: the guarantees that the story breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from proofs.lift.source import model_for
from proofs.trace.format import TraceStep
from proofs.trace.project import project
from proofs.trace.replay import Stepper, configuration_of

pytestmark = pytest.mark.fast

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
INDENT = "    "
COUNTED = ("faults", "begun")
"""What a world only counts."""


def compact(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={compact(inner)}" for name, inner in value.items()) + "}"
    return f"[{', '.join(map(compact, value))}]" if isinstance(value, list) else str(value)


def changes(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """What is different in two projections: a line each."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before:
            if name not in COUNTED:
                yield from changes(before[name], after[name], f"{place}.{name}" if place else name)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{place}[{number}]")
    elif isinstance(before, list) and isinstance(after, list):
        yield from (f"{place} loses {compact(old)}" for old in before if old not in after)
        yield from (f"{place} gets {compact(new)}" for new in after if new not in before)
    elif before != after:
        yield f"{place}: {compact(before)} -> {compact(after)}"


def parse_event(line: str) -> TraceStep:
    """`NAME CHOICE=N ...`."""
    rule, *choice = line.split()
    pairs = (part.partition("=") for part in choice)
    return TraceStep(rule, tuple((name, int(value)) for name, _, value in pairs))


class Teller:
    """Plays the events of a story, and writes it with what they do."""

    def __init__(self, lines: list[str]) -> None:
        settings = dict(line.split(maxsplit=1) for line in lines if self.is_setting(line))
        model = model_for(settings["scope"])
        self.stepper = Stepper(
            model, configuration_of(model, settings["scope"], settings["variant"])
        )
        self.world = self.stepper.initial()
        self.broken: dict[str, None] = {}

    @staticmethod
    def is_setting(line: str) -> bool:
        return line.startswith(("scope ", "variant "))

    def play(self, line: str) -> Iterator[str]:
        """The line, and what comes of it."""
        yield line
        is_refused = line.startswith("not ")
        step = parse_event(line.removeprefix("not "))
        self.stepper.check(step, 0)
        after = self.stepper.after(step.rule, self.stepper.in_order(step), self.world)
        assert (after is None) == is_refused, f"{line}: {'enabled' if after else 'not enabled'}"
        if after is not None:
            yield from (INDENT + change for change in changes(project(self.world), project(after)))
            self.world = after
            self.broken |= dict.fromkeys(self.breaks())

    def breaks(self) -> list[str]:
        """The guarantees that do not hold in this world."""
        model, k = self.stepper.model, self.stepper.k
        return [p.name for p in model.guarantees.GUARANTEES if not p.check(k, self.world)]


def tell(text: str) -> str:
    """The story as the model tells it today."""
    asked = [line for line in text.splitlines() if not line.startswith((INDENT, "breaks: "))]
    teller = Teller(asked)
    told: list[str] = []
    for line in asked:
        is_event = line and not line.startswith("#") and not teller.is_setting(line)
        told += teller.play(line) if is_event else [line]
    while told and not told[-1]:
        told.pop()
    return "\n".join([*told, "", f"breaks: {', '.join(teller.broken) or 'nothing'}", ""])


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_model_tells_the_story_as_it_is_written(
    path: Path, request: pytest.FixtureRequest
) -> None:
    text = path.read_text(encoding="utf-8")
    told = tell(text)
    if request.config.getoption("--rewrite"):
        path.write_text(told, encoding="utf-8")
    else:
        assert told == text


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_each_story_names_where_kafka_says_so(path: Path) -> None:
    heading = path.read_text(encoding="utf-8").partition("\nscope ")[0]
    assert "KIP-" in heading or "KAFKA-" in heading


def test_a_story_that_is_not_enabled_fails() -> None:
    with pytest.raises(AssertionError, match="not enabled"):
        tell("scope idempotent-tiny\nvariant 4.3.1\n\nclient_retries producer=0 partition=0\n")


def test_stories_have_names_of_their_own() -> None:
    titles = [path.read_text(encoding="utf-8").splitlines()[0] for path in STORIES]
    assert all(a != b for a, b in pairwise(sorted(titles)))
