"""What verbs write: lines for people, reports for programs, files for later; and progress.

`report.json` depends on the arguments alone; times and the host's facts are in `run.json`. A
report carries the arguments it was made with, which is how the same command finds its own work
again and another one is refused.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TextIO

from proofs.explore.result import SearchProgress
from proofs.explore.scope import Finding
from proofs.lift.source import Model
from proofs.trace.format import Trace, dumps, write
from proofs.trace.html import page
from proofs.trace.pictures import mermaid, text
from proofs.trace.replay import replay
from proofs.trace.story import Story, tell
from proofs.verbs import EXIT_CODES

LINE_SECONDS = 10.0
SCHEMA_VERSION = 2


class OtherArguments(ValueError):
    """The folder holds the work of another command."""


def pretty(value: Any) -> str:
    """JSON with sorted keys, equal for equal values."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_whole(path: Path, content: str) -> None:
    """Write a file that is whole or not there, however the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(path)


def read_back(folder: Path, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The report that the same command left in a folder; None if there is none.

    Raises OtherArguments, also for a report that cannot be read.
    """
    path = folder / "report.json"
    if not path.exists():
        return None
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        earlier = report["arguments"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise OtherArguments(f"{path} is no report of ours; choose an empty --out DIR") from error
    if earlier != json.loads(json.dumps(arguments)):
        raise OtherArguments(
            f"{path} was made with other arguments: {difference(earlier, arguments)};"
            " choose another --out DIR"
        )
    return report


def difference(earlier: Any, now: Mapping[str, Any]) -> str:
    """The arguments that differ, as they were and as they are."""
    if not isinstance(earlier, Mapping):
        return json.dumps(earlier)
    here = json.loads(json.dumps(now))
    return ", ".join(
        f"{key} {json.dumps(earlier.get(key))}, now {json.dumps(here.get(key))}"
        for key in sorted({*earlier, *here})
        if earlier.get(key) != here.get(key)
    )


class Output:
    """A verb's report, to be read back, kept as work goes on, and written at the end."""

    def __init__(self, options: argparse.Namespace, *names: str, **more: Any) -> None:
        """`names` are the options that the report depends on, `more` what is read from others."""
        asked = {name: getattr(options, name) for name in names}
        self.arguments = {"verb": options.verb, **asked, **more}
        self.out: Path | None = options.out
        self.file: Path | None = options.json
        self.begun = time.perf_counter()
        self.earlier = read_back(self.out, self.arguments) if self.out else None

    def report(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The report's content, with what makes it a report of ours."""
        return {"schema_version": SCHEMA_VERSION, "arguments": self.arguments, **content}

    def keep(self, content: Mapping[str, Any]) -> None:
        """What is done so far, for the same command to go on from."""
        if self.out:
            write_whole(self.out / "report.json", pretty(self.report(content)))

    def finish(self, content: Mapping[str, Any], **run: Any) -> int:
        """Write all that was asked for; the exit code of the verdict."""
        took = {"seconds": round(time.perf_counter() - self.begun, 3), **run}
        self.keep(content)
        if self.out:
            write_whole(self.out / "run.json", pretty(took))
        if self.file:
            write_whole(self.file, pretty({**self.report(content), "run": took}))
        return EXIT_CODES[content["verdict"]]

    def pictures(self, model: Model, name: str, trace: Trace) -> None:
        """A trace as `traces/NAME.jsonl`, .txt, .mmd and .html."""
        if self.out is not None:
            self.story(name, trace, tell(model, trace.header, trace.steps, replay(trace, model)))

    def story(self, name: str, trace: Trace, story: Story) -> None:
        """The same of a trace that is told already."""
        if self.out is None:
            return
        base = self.out / "traces" / name
        write(trace, base.with_name(f"{name}.jsonl"))
        for suffix, content in (
            (".txt", text(story)),
            (".mmd", mermaid(story)),
            (".html", page(story, name)),
        ):
            write_whole(base.with_name(f"{name}{suffix}"), content)


def trace_json(trace: Trace) -> list[Any]:
    """A trace in a report: its lines, the header first."""
    return [json.loads(line) for line in dumps(trace).splitlines()]


def finding_json(found: Finding) -> dict[str, Any]:
    """A broken property in a report."""
    return {
        "property": found.property,
        "guaranteed": found.guaranteed,
        "steps": found.steps,
        "events": found.events,
        "trace": trace_json(found.trace),
    }


# Progress


def progress_text(name: str, now: SearchProgress) -> str:
    """One line: level, states, rate."""
    rate = now.distinct / now.seconds if now.seconds > 0 else 0.0
    expanded = f", {now.done:,} of {now.frontier:,} expanded" if now.frontier else ""
    return (
        f"{name}: level {now.depth}{expanded};"
        f" {now.distinct:,} states, {rate:,.0f}/s, {now.seconds:.0f} s"
    )


class ExplorationDisplay(AbstractContextManager["ExplorationDisplay"]):
    """Progress of one exploration: a line in place on a terminal, else one every 10 s."""

    def __init__(
        self,
        name: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.stream = stream or sys.stderr
        self.clock = clock
        self.last = clock()
        self.status = _status(self.stream)

    def __call__(self, now: SearchProgress) -> None:
        """How far it is."""
        if self.status is not None:
            self.status.update(progress_text(self.name, now))
        elif self.clock() - self.last >= LINE_SECONDS:
            self.last = self.clock()
            print(progress_text(self.name, now), file=self.stream, flush=True)

    def __enter__(self) -> ExplorationDisplay:
        if self.status is not None:
            self.status.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.status is not None:
            self.status.stop()


def _status(stream: TextIO) -> Any:
    """rich's status line, where there is a terminal and rich."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console
        from rich.status import Status
    except ModuleNotFoundError:
        return None
    return Status("", console=Console(file=stream))
